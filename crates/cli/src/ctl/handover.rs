//! `weft ctl handover`: users go from one node to another.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use weft_controller::api::{Handover, HandoverOrder};
use weft_http::client::{Client, ClientError, Server};
use weft_http::socket::{controller_path, controllers};

use crate::failure::Failure;
use crate::output;

/// How long a controller that has gone may take to come back.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether it is back.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("who").required(true))]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
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

/// Which controller is spoken to.
#[derive(Clone, clap::Args)]
struct Target {
    /// The controller: its name, its socket, or http://HOST:PORT; needed when
    /// several run, or none here
    #[arg(long, value_name = "WHERE", env = "WEFT_CONTROLLER")]
    controller: Option<String>,
    /// File of the token that the controller asks for over TCP
    #[arg(long, value_name = "FILE", env = "WEFT_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

impl Target {
    fn client(&self) -> Result<Client, Failure> {
        Ok(Client::of("controller", self.server()?)?)
    }

    fn server(&self) -> Result<Server, Failure> {
        let Some(wanted) = &self.controller else { return only_one() };
        if let Some(address) = wanted.strip_prefix("http://") {
            let file = self.token_file.as_ref().ok_or_else(|| {
                Failure::input("a controller over TCP asks for a token: give --token-file")
            })?;
            let token = weft_transport::Token::load(file).map_err(Failure::input)?;
            // A token is of visible ASCII characters.
            let token = String::from_utf8_lossy(token.octets()).into_owned();
            return Ok(Server::Remote { address: address.trim_end_matches('/').to_owned(), token });
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
            format!("{} users went from {from} to {to} in {seconds:.3} s", handover.moved)
        }
    })
}

/// Waits for a while, and asks how far it is.
fn follow(client: &Client, id: u64) -> Result<Handover, Failure> {
    let begin = Instant::now();
    loop {
        match client.get(&format!("/v1/handovers/{id}?wait=20")) {
            Ok(handover) => return Ok(handover),
            Err(ClientError::Refused(problem)) => return Err(Failure::broken(problem.error)),
            Err(ClientError::Nobody(..) | ClientError::Gone(..)) if begin.elapsed() < PATIENCE => {
                thread::sleep(PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What to say when not all users are where they were to be.
fn unmoved(handover: &Handover) -> Option<String> {
    let missing = handover.aborted + handover.refused;
    if missing == 0 {
        return None;
    }
    let first = handover.reasons.first();
    let first = first.map_or(String::new(), |one| format!(": user {}: {}", one.user, one.reason));
    let (users, to) = (handover.users, &handover.to);
    Some(format!("{missing} of {users} users are not at {to}{first}"))
}
