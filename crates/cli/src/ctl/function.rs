//! `weft ctl function`: a function goes over to another composition or core while
//! traffic runs.

use clap::ValueEnum;
use weft_control::api::{Applied, Composed, Composition};

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
}

/// Does it.
///
/// # Errors
/// Why the node refuses it; then nothing has changed.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { target, name, composition, stage, core } = arguments;
    let (composition, said) = match composition {
        How::Call => (Composition::Call, "is called".to_owned()),
        How::Fused => (Composition::Fused, "is fused".to_owned()),
        How::Process => (Composition::Process, "is in its process".to_owned()),
        How::Thread => {
            let named = stage.as_ref().map_or(String::new(), |name| format!(" {name}"));
            let at = core.map_or(String::new(), |core| format!(" on core {core}"));
            (Composition::Thread, format!("stands on the thread{named}{at}"))
        }
    };
    let order = Composed { composition, stage, core };
    let body = serde_json::to_string(&order).map_err(Failure::broken)?;
    let path = format!("/v1/functions/{}", escaped(&name));
    let applied: Applied = target.client()?.post(&path, body)?;
    let settled = if applied.settled { "" } else { "; the workers are still at it" };
    output::line(&format!("{name} {said}{settled}"))
}
