//! A function goes to another node, or comes back: one request to the node that asks, which
//! does it whether or not this command lives.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use weft_management_api::api::{FunctionMove, FunctionMoved};
use weft_management_api::client::Client;

use super::escaped;
use crate::failure::Failure;

/// What has moved.
pub struct Report {
    contexts: u64,
    waited: Duration,
    /// Whether all workers have taken the change over already.
    pub settled: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contexts = self.contexts;
        let noun = if contexts == 1 { "context" } else { "contexts" };
        let waited = self.waited.as_secs_f64() * 1e3;
        write!(f, ": {contexts} {noun} carried, its packets waited {waited:.1} ms")
    }
}

/// Asks for a move, and waits for its end.
///
/// # Errors
/// Why the function stays where it is.
pub fn order(client: &Client, name: &str, request: &FunctionMove) -> Result<Report, Failure> {
    let path = format!("/v1/functions/{}/move", escaped(name));
    let body = serde_json::to_string(request).map_err(Failure::broken)?;
    let mut moved: FunctionMoved = client.post(&path, body)?;
    loop {
        match moved {
            FunctionMoved::Moving { .. } => moved = client.get(&path)?,
            FunctionMoved::Moved { contexts, waited, settled } => {
                return Ok(Report { contexts, waited: Duration::from_nanos(waited), settled });
            }
        }
    }
}

/// The path of a socket as the other node opens it, which has another working directory.
///
/// # Errors
/// When it is not text, or there is no working directory.
pub fn absolute(socket: PathBuf) -> Result<String, Failure> {
    let path = std::path::absolute(socket).map_err(Failure::input)?;
    let text = path.into_os_string().into_string();
    text.map_err(|path| Failure::input(format!("{} is not UTF-8", path.display())))
}
