//! Where `weft run` and `weft control` serve a page.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use weft_mobility_transport::Token;
use weft_page::Options;

use crate::failure::Failure;

#[derive(clap::Args)]
pub struct PageArguments {
    /// Serve a live page and the API at this address, such as 127.0.0.1:8080; read-only
    /// without a token
    #[arg(long, value_name = "ADDRESS", env = "WEFT_HTTP", value_parser = address)]
    http: Option<SocketAddr>,
    /// File of the token with which the page may trace, capture and change [env:
    /// WEFT_HTTP_TOKEN has the token itself]
    #[arg(long, value_name = "FILE", env = "WEFT_HTTP_TOKEN_FILE", requires = "http")]
    http_token_file: Option<PathBuf>,
    /// Certificate of the page, in PEM; needed with a token beyond loopback addresses
    #[arg(long, value_name = "FILE", env = "WEFT_HTTP_CERTIFICATE", requires_all = ["http", "http_key"])]
    http_certificate: Option<PathBuf>,
    /// Key of that certificate, in PEM
    #[arg(long, value_name = "FILE", env = "WEFT_HTTP_KEY", requires = "http_certificate")]
    http_key: Option<PathBuf>,
    /// Name by which browsers may call the page, besides addresses and the host's name; may be
    /// given several times
    #[arg(long, value_name = "NAME", requires = "http")]
    http_name: Vec<String>,
}

impl PageArguments {
    /// Where and for whom a page is served, if it is.
    ///
    /// # Errors
    /// When the token cannot be had.
    pub fn options(&self) -> Result<Option<Options>, Failure> {
        let Some(listen) = self.http else { return Ok(None) };
        let token = match &self.http_token_file {
            Some(file) => Some(Token::load(file).map_err(Failure::input)?),
            None => of_environment()?,
        };
        let tls = self.http_certificate.clone().zip(self.http_key.clone());
        Ok(Some(Options { listen, token, tls, names: self.http_name.clone() }))
    }
}

/// The token that the environment has.
fn of_environment() -> Result<Option<Token>, Failure> {
    let Ok(text) = std::env::var("WEFT_HTTP_TOKEN") else { return Ok(None) };
    let wrong = || {
        let (shortest, longest) = (Token::SHORTEST, Token::LONGEST);
        Failure::input(format!(
            "WEFT_HTTP_TOKEN: a token has {shortest} to {longest} visible ASCII characters"
        ))
    };
    Token::new(&text).map(Some).ok_or_else(wrong)
}

/// `HOST:PORT`.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "no such host".to_owned())
}
