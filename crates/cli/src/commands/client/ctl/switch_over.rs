//! `weft ctl switch-over`: a node of a pair gives its users to its standby.

use std::thread;
use std::time::{Duration, Instant};

use weft_mobility_controller::api::Pair;

use super::controller::ControllerAddress;
use super::escaped;
use crate::failure::Failure;
use crate::output;

/// How long a node may take to stop and to give its users away.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the controller is asked.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// The node that owns the users
    #[arg(value_name = "NODE")]
    node: String,
}

impl Arguments {
    /// For that node of that controller.
    pub fn of(target: &ControllerAddress, node: &str) -> Arguments {
        Arguments { target: target.clone(), node: node.to_owned() }
    }
}

/// Lets the standby of a node own the users, and waits until it does.
///
/// # Errors
/// When the node does not own users that its standby can have (exit code 2), or does not leave
/// them in time.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { target, node } = arguments;
    let client = target.client()?;
    let begin = Instant::now();
    let path = format!("/v1/pairs/{}/switch-over", escaped(node));
    let before: Vec<Pair> = client.post(&path, String::new())?;
    let epoch = before.iter().find(|pair| pair.owner == *node).map_or(0, |pair| pair.epoch);
    while begin.elapsed() < PATIENCE {
        let pairs: Vec<Pair> = client.get("/v1/pairs")?;
        let now = pairs.iter().find(|pair| pair.standby == *node && pair.epoch > epoch);
        if let Some(Pair { owner, epoch, .. }) = now {
            let seconds = begin.elapsed().as_secs_f64();
            return output::line(&format!(
                "{owner} owns the users of {node}, in epoch {epoch}, after {seconds:.2} s"
            ));
        }
        thread::sleep(PAUSE);
    }
    let seconds = PATIENCE.as_secs();
    Err(Failure::broken(format!(
        "{node} has not given its users away within {seconds} s; its log says why, and `weft ctl \
         pairs` who owns them"
    )))
}
