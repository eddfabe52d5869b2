//! `weft ctl function`: a function goes over to another composition or core while
//! traffic runs.

use std::path::PathBuf;

use clap::ValueEnum;
use weft_management_api::api::{Applied, Composed, Composition};

use super::carry::{self, Node};
use super::escaped;
use crate::failure::Failure;
use crate::output;
use crate::target::Target;

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
        (node, socket) => Some(Node::peer(Target::of(node, socket).client()?)),
    };
    let (composition, said) = match composition {
        How::Call => (Composition::Call, "is called".to_owned()),
        How::Fused => (Composition::Fused, "is fused".to_owned()),
        How::Process => (Composition::Process, "is in its process".to_owned()),
        How::Remote => return leave(&target, peer, &name),
        How::Thread => {
            let named = stage.as_ref().map_or(String::new(), |name| format!(" {name}"));
            let at = core.map_or(String::new(), |core| format!(" on core {core}"));
            (Composition::Thread, format!("stands on the thread{named}{at}"))
        }
    };
    let carried = match (peer, anew) {
        (None, false) => String::new(),
        (peer, _) => carry::back(&Node::own(target.client()?), peer.as_ref(), &name)?.to_string(),
    };
    let order = Composed { composition, stage, core };
    let body = serde_json::to_string(&order).map_err(Failure::broken)?;
    let applied: Applied =
        target.client()?.post(&format!("/v1/functions/{}", escaped(&name)), body)?;
    let settled = if applied.settled { "" } else { "; the workers are still at it" };
    output::line(&format!("{name} {said}{carried}{settled}"))
}

fn leave(target: &Target, peer: Option<Node>, name: &str) -> Result<(), Failure> {
    let missing = "which node is it? Give `--peer NAME` or `--peer-socket PATH`";
    let peer = peer.ok_or_else(|| Failure::input(missing))?;
    let carried = carry::there(&Node::own(target.client()?), &peer, name)?;
    output::line(&format!("{name} is at the other node{carried}"))
}
