//! `weft ctl function`: a function goes over to another composition or core while
//! traffic runs.

use std::path::PathBuf;

use clap::ValueEnum;
use weft_management_api::api::{Applied, Composed, Composition, FunctionMove};

use super::{escaped, function_move};
use crate::commands::client::target::Target;
use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Name of the function
    #[arg(value_name = "FUNCTION")]
    name: String,
    /// How it is to be run
    #[arg(long, value_name = "HOW")]
    composition: How,
    /// Name of the thread, with `thread`: functions that give the same stand on the same
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// The processor core of the thread, with `thread`
    #[arg(long, value_name = "N")]
    core: Option<u32>,
    /// The node that has the function for this one, by its name: contexts are carried to it,
    /// or from it
    #[arg(long, value_name = "NAME", conflicts_with = "peer_socket")]
    peer: Option<String>,
    /// Socket of that node
    #[arg(long, value_name = "PATH")]
    peer_socket: Option<PathBuf>,
    /// Let the function come back without its contexts, which begin anew
    #[arg(long, conflicts_with_all = ["peer", "peer_socket"])]
    anew: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// In the worker's thread
    Call,
    /// With its neighbours as machine code
    Fused,
    /// In a thread beside its worker's
    Thread,
    /// In a process of its own, which its configuration prepares
    Process,
    /// At another node, along a path that its configuration prepares
    Remote,
}

/// Does it.
///
/// # Errors
/// Why the node refuses it; then nothing has changed.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { target, name, composition, stage, core, peer, peer_socket, anew } = arguments;
    let peer = match (peer, peer_socket) {
        (None, None) => None,
        (node, socket) => Some(function_move::absolute(Target::of(node, socket).path()?)?),
    };
    let (composition, said) = match composition {
        How::Call => (Composition::Call, "is called".to_owned()),
        How::Fused => (Composition::Fused, "is fused".to_owned()),
        How::Process => (Composition::Process, "is in its process".to_owned()),
        How::Remote if peer.is_none() => {
            let missing = "which node is it? Give `--peer NAME` or `--peer-socket PATH`";
            return Err(Failure::input(missing));
        }
        How::Remote => (Composition::Remote, "is at the other node".to_owned()),
        How::Thread => {
            let named = stage.as_ref().map_or(String::new(), |name| format!(" {name}"));
            let at = core.map_or(String::new(), |core| format!(" on core {core}"));
            (Composition::Thread, format!("stands on the thread{named}{at}"))
        }
    };
    let client = target.client()?;
    let (carried, settled) = if peer.is_some() || anew {
        let request = FunctionMove { composition, stage, core, peer };
        let report = function_move::order(&client, &name, &request)?;
        (report.to_string(), report.settled)
    } else {
        let order = Composed { composition, stage, core };
        let body = serde_json::to_string(&order).map_err(Failure::broken)?;
        let path = format!("/v1/functions/{}", escaped(&name));
        let applied: Applied = client.post(&path, body)?;
        (String::new(), applied.settled)
    };
    let settled = if settled { "" } else { "; the workers are still at it" };
    output::line(&format!("{name} {said}{carried}{settled}"))
}
