//! `weft ctl`: changes a running node, or lets a controller hand users over.

mod bearer;
mod certificates;
pub mod controller;
mod drain;
mod function;
mod function_move;
mod handover;
mod radio;
mod rebalance;
pub mod site;
mod switch_over;
mod user;
mod workers;

use std::fs;
use std::path::PathBuf;

use clap::Subcommand;
use weft_management_api::api::{Applied, PortsWent, Upgraded};

use crate::commands::client::target::Target;
use crate::failure::{Failure, lines};
use crate::{log, output};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: CtlCommand,
}

#[derive(Subcommand)]
enum CtlCommand {
    /// Let the node run by another configuration, without losing a packet
    Apply {
        #[command(flatten)]
        target: Target,
        /// The configuration, whole
        #[arg(value_name = "NODE.yaml")]
        file: PathBuf,
    },
    /// Let the program that is installed now take the node over, with all users, while packets
    /// pass
    Upgrade {
        #[command(flatten)]
        target: Target,
    },
    /// Let so many workers have threads of their own, and these run the others, too
    Workers(workers::Arguments),
    /// Run a function otherwise, or on another core, without losing a packet
    Function(function::Arguments),
    /// Add, change, remove and show bearers
    #[command(subcommand)]
    Bearer(bearer::BearerAction),
    /// Hand users over to another node, by their controller
    Handover(handover::Arguments),
    /// Tell a base station that users' radios have left it, or have arrived
    Radio(radio::Arguments),
    /// Show the nodes of a controller
    Nodes(site::Nodes),
    /// Show nodes of which one stands by the other
    Pairs(site::Nodes),
    /// Let the standby of a node own its users now, with all contexts
    SwitchOver(switch_over::Arguments),
    /// Show users that move, or one: owner and epoch
    Users(site::Users),
    /// Add and remove users that move
    #[command(subcommand)]
    User(user::UserCommand),
    /// Make an authority, and certificates for a controller and its nodes
    #[command(subcommand)]
    Certificates(certificates::CertificateCommand),
    /// Follow what happens at a controller
    Events(site::Events),
    /// Say that a node does not come back, and who takes its users
    Gone(site::GoneNode),
    /// Hand all users of a node over to others, and let it take no further ones
    Drain(drain::DrainArguments),
    /// Hand users over so that all stations carry the same
    Rebalance(rebalance::Arguments),
    /// Let a node take no further users
    Cordon(drain::Arguments),
    /// Let a node take users again
    Uncordon(drain::Arguments),
}

/// Does it.
///
/// # Errors
/// The mistakes of the configuration, or why the node refuses it; then nothing
/// has changed.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let (target, file) = match arguments.what {
        CtlCommand::Apply { target, file } => (target, file),
        CtlCommand::Upgrade { target } => return upgrade(&target),
        CtlCommand::Workers(arguments) => return workers::run(arguments),
        CtlCommand::Function(arguments) => return function::run(arguments),
        CtlCommand::Bearer(what) => return bearer::run(what),
        CtlCommand::Handover(arguments) => return handover::run(arguments),
        CtlCommand::Radio(arguments) => return radio::run(arguments),
        CtlCommand::Nodes(arguments) => return site::nodes(&arguments),
        CtlCommand::Pairs(arguments) => return site::pairs(&arguments),
        CtlCommand::SwitchOver(arguments) => return switch_over::run(&arguments),
        CtlCommand::Users(arguments) => return site::users(&arguments),
        CtlCommand::User(what) => return user::run(what),
        CtlCommand::Certificates(what) => return certificates::run(what),
        CtlCommand::Events(arguments) => return site::events(&arguments),
        CtlCommand::Gone(arguments) => return site::gone(&arguments),
        CtlCommand::Drain(arguments) => return drain::drain(&arguments),
        CtlCommand::Rebalance(arguments) => return rebalance::run(&arguments),
        CtlCommand::Cordon(arguments) => return drain::cordon(&arguments),
        CtlCommand::Uncordon(arguments) => return drain::uncordon(&arguments),
    };
    let name = file.display().to_string();
    let text = fs::read_to_string(&file)
        .map_err(|error| Failure::Mistakes(format!("{name}:1:1: cannot read the file: {error}")))?;
    let path = format!("/v1/configuration?file={}", escaped(&name));
    let applied: Applied = target.client()?.post(&path, text)?;
    if !applied.warnings.is_empty() {
        log::say(&lines(&applied.warnings));
    }
    if let Some(elsewhere) = &applied.elsewhere {
        log::say(elsewhere);
    }
    let settled = if applied.settled { "" } else { "; the workers are still at it" };
    output::line(&format!(
        "applied: functions kept {}, new {}; users before {}, now {}{settled}",
        applied.functions_kept, applied.functions_new, applied.users_before, applied.users_now
    ))
}

/// Text as part of a URI's path or query (RFC 3986 section 2.1).
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// Lets another process have the node.
fn upgrade(target: &Target) -> Result<(), Failure> {
    let upgraded = target.client()?.post("/v1/upgrade", String::new())?;
    let Upgraded { process, waited, dropped, ports } = upgraded;
    let milliseconds = |nanoseconds| nanoseconds as f64 / 1e6;
    let ports = match ports {
        PortsWent::Beside => String::new(),
        PortsWent::InTurn { closed } => format!(
            "; ports were closed for {:.1} ms, and what came then was lost",
            milliseconds(closed)
        ),
        PortsWent::Behind => "; its ports open once it has built the node".to_owned(),
    };
    let waited = milliseconds(waited);
    let dropped = drain::dropped(dropped);
    output::line(&format!(
        "process {process} has the node; packets waited {waited:.1} ms{ports}{dropped}"
    ))
}
