//! Which controller `weft ctl` speaks to.

use std::path::PathBuf;

use weft_http::client::{Client, Credentials, Server};
use weft_http::socket::{controller_path, controllers};
use weft_http::tls::Trust;

use crate::failure::Failure;

#[derive(Clone, clap::Args)]
pub struct ControllerAddress {
    /// The controller: its name (that of its replica), its socket, or http://HOST:PORT
    /// (https:// where it speaks TLS); needed when several run, or none here. Of several,
    /// with commas, the first that answers
    #[arg(long, value_name = "WHERE", env = "WEFT_CONTROLLER")]
    controller: Option<String>,
    /// File of the token that the controller asks for over TCP
    #[arg(long, value_name = "FILE", env = "WEFT_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// File of certificates in PEM that sign for the controller, for https://
    #[arg(long, value_name = "FILE", env = "WEFT_CA_FILE")]
    ca_file: Option<PathBuf>,
}

impl ControllerAddress {
    /// A client of it.
    pub fn client(&self) -> Result<Client, Failure> {
        let Some(wanted) = &self.controller else { return self.client_of(only_one()?) };
        let mut several: Vec<_> = wanted.split(',').collect();
        let last = several.pop().unwrap_or_default();
        for one in several {
            let Ok(client) = self.server(one).and_then(|server| self.client_of(server)) else {
                continue;
            };
            if client.text("/v1/controller").is_ok() {
                return Ok(client);
            }
        }
        self.client_of(self.server(last)?)
    }

    fn client_of(&self, server: Server) -> Result<Client, Failure> {
        // A replica may send it to the one that leads.
        let trust = self.ca_file.as_deref().map(Trust::load).transpose().map_err(Failure::input)?;
        let token = self.token_file.as_ref().map(|_| self.token()).transpose()?;
        let client = Client::of("controller", server)?;
        Ok(client.with_credentials(Credentials { token, trust }))
    }

    fn server(&self, wanted: &str) -> Result<Server, Failure> {
        if let Some(address) = wanted.strip_prefix("http://") {
            return self.remote(address, None);
        }
        if let Some(address) = wanted.strip_prefix("https://") {
            let file = self.ca_file.as_ref().ok_or_else(|| {
                Failure::input("who signs for the controller is not known: give --ca-file")
            })?;
            return self.remote(address, Some(Trust::load(file).map_err(Failure::input)?));
        }
        if wanted.contains('/') {
            return Ok(Server::Socket(wanted.into()));
        }
        let socket = controller_path(wanted);
        if !controllers().iter().any(|name| name == wanted) && !socket.exists() {
            return Err(Failure::input(format!("no controller named {wanted} is running")));
        }
        Ok(Server::Socket(socket))
    }

    fn remote(&self, address: &str, trust: Option<Trust>) -> Result<Server, Failure> {
        let token = self.token()?;
        Ok(Server::Remote { address: address.trim_end_matches('/').to_owned(), token, trust })
    }

    fn token(&self) -> Result<String, Failure> {
        let file = self.token_file.as_ref().ok_or_else(|| {
            Failure::input("a controller over TCP asks for a token: give --token-file")
        })?;
        let token = weft_mobility_transport::Token::load(file).map_err(Failure::input)?;
        // A token is of visible ASCII characters.
        Ok(String::from_utf8_lossy(token.octets()).into_owned())
    }
}

fn only_one() -> Result<Server, Failure> {
    match controllers().as_slice() {
        [] => Err(Failure::input("no controller is running here")),
        [name] => Ok(Server::Socket(controller_path(name))),
        several => {
            let names = several.join(", ");
            let reason = format!("several controllers run here; choose by --controller: {names}");
            Err(Failure::input(reason))
        }
    }
}
