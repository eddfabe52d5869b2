//! `weft ctl handover`: users go from one node to another.

use std::thread;
use std::time::{Duration, Instant};

use weft_http::client::{Client, ClientError};
use weft_mobility_controller::api::{Handover, HandoverOrder};

use super::controller::ControllerAddress;
use crate::failure::Failure;
use crate::number::counted;
use crate::output;

/// How long a controller that has gone may take to come back.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether it is back.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("who").required(true))]
pub struct Arguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// Number of the user
    #[arg(value_name = "USER", group = "who")]
    user: Option<u64>,
    /// All users of this node
    #[arg(long, value_name = "NODE", group = "who")]
    all_from: Option<String>,
    /// Where they are to go
    #[arg(long, value_name = "NODE")]
    to: String,
}

/// Hands over, and waits for what comes of it.
///
/// # Errors
/// When nothing is done (exit code 2), or not all users are where they were to be.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let Arguments { user, all_from, to, .. } = arguments;
    let order = HandoverOrder { user, all_from, to };
    // Texts and a number: there is nothing that JSON could not say.
    let body = serde_json::to_string(&order).map_err(Failure::broken)?;
    let begin = Instant::now();
    let mut handover: Handover = client.post("/v1/handovers", body)?;
    while !handover.finished {
        handover = follow(&client, handover.id)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    if let Some(reason) = unmoved(&handover) {
        return Err(match handover.refused == handover.users {
            true => Failure::input(reason),
            false => Failure::broken(reason),
        });
    }
    let to = &handover.to;
    output::line(&match order.user {
        Some(user) => format!("user {user} is at {to} after {seconds:.3} s"),
        None => {
            let from = order.all_from.unwrap_or_default();
            let users = counted(handover.moved as u64, "user");
            format!("{users} went from {from} to {to} in {seconds:.3} s")
        }
    })
}

/// Waits for a while, and asks how far it is.
pub fn follow(client: &Client, id: u64) -> Result<Handover, Failure> {
    let begin = Instant::now();
    loop {
        match client.get(&format!("/v1/handovers/{id}?wait=20")) {
            Ok(handover) => return Ok(handover),
            Err(ClientError::Refused(problem)) => return Err(Failure::broken(problem.detail)),
            Err(ClientError::NotRunning(..) | ClientError::Gone(..))
                if begin.elapsed() < PATIENCE =>
            {
                thread::sleep(PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What to say when not all users are where they were to be.
pub fn unmoved(handover: &Handover) -> Option<String> {
    let missing = handover.aborted + handover.refused;
    if missing == 0 {
        return None;
    }
    let first = handover.reasons.first();
    let first = first.map_or(String::new(), |one| format!(": user {}: {}", one.user, one.reason));
    let (users, to) = (counted(handover.users as u64, "user"), &handover.to);
    let are = if missing == 1 { "is" } else { "are" };
    Some(format!("{missing} of {users} {are} not at {to}{first}"))
}
