//! Which controller `weft ctl` speaks to.

use std::path::PathBuf;

use weft_http::client::{Client, Server};
use weft_http::socket::{controller_path, controllers};
use weft_http::tls::Trust;

use crate::failure::Failure;

#[derive(Clone, clap::Args)]
pub struct ControllerAddress {
    /// The controller: its name, its socket, or http://HOST:PORT (https:// where it
    /// speaks TLS); needed when several run, or none here
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
        Ok(Client::of("controller", self.server()?)?)
    }

    fn server(&self) -> Result<Server, Failure> {
        let Some(wanted) = &self.controller else { return only_one() };
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
        if !controllers().contains(wanted) && !socket.exists() {
            return Err(Failure::input(format!("no controller named {wanted} is running")));
        }
        Ok(Server::Socket(socket))
    }

    fn remote(&self, address: &str, trust: Option<Trust>) -> Result<Server, Failure> {
        let file = self.token_file.as_ref().ok_or_else(|| {
            Failure::input("a controller over TCP asks for a token: give --token-file")
        })?;
        let token = weft_mobility_transport::Token::load(file).map_err(Failure::input)?;
        // A token is of visible ASCII characters.
        let token = String::from_utf8_lossy(token.octets()).into_owned();
        Ok(Server::Remote { address: address.trim_end_matches('/').to_owned(), token, trust })
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
