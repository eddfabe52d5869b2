//! Which running node a command speaks to.

use std::path::PathBuf;

use weft_management_api::client::Client;
use weft_management_api::{nodes, socket_path};

use crate::failure::Failure;

#[derive(Clone, clap::Args)]
pub struct Target {
    /// Name of the node; needed when several run [env: WEFT_NODE]
    #[arg(long, global = true, value_name = "NAME")]
    node: Option<String>,
    /// Socket of the node, where it is not at its usual place; comes before the
    /// name [env: WEFT_SOCKET]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Target {
    /// The node of that name, or at that socket.
    pub fn of(node: Option<String>, socket: Option<PathBuf>) -> Target {
        Target { node, socket }
    }

    /// The node that the environment names, if it does.
    fn of_environment() -> Target {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Target {
            node: set("WEFT_NODE").map(|name| name.to_string_lossy().into_owned()),
            socket: set("WEFT_SOCKET").map(PathBuf::from),
        }
    }

    /// A client of that node, or of the only one that runs.
    ///
    /// # Errors
    /// When there is none, or no telling which.
    pub fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(&self.path()?)?)
    }

    /// The socket of that node, or of the only one that runs.
    ///
    /// # Errors
    /// When there is none, or no telling which.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        // Clap would let `WEFT_SOCKET` come before `--node`: flags come before the environment.
        let Target { node, socket } = match (&self.node, &self.socket) {
            (None, None) => &Target::of_environment(),
            _ => self,
        };
        if let Some(socket) = socket {
            return Ok(socket.clone());
        }
        if let Some(node) = node {
            let known = nodes();
            if !known.contains(node) && !socket_path(node).exists() {
                return Err(Failure::input(format!("no node named {node} is running")));
            }
            return Ok(socket_path(node));
        }
        match nodes().as_slice() {
            [] => Err(Failure::input("no node is running here")),
            [node] => Ok(socket_path(node)),
            several => {
                let names = several.join(", ");
                Err(Failure::input(format!("several nodes run here; choose by --node: {names}")))
            }
        }
    }
}
