//! `weft ctl radio`: a station is told where users' radios are.

use clap::ValueEnum;
use weft_management_api::api::{Radio, RadioNoted, RadioOrder};

use crate::commands::client::target::Target;
use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// What has become of the radios
    event: Event,
    /// Numbers of the users, as the controller has them
    #[arg(value_name = "USER", required = true)]
    users: Vec<u64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Event {
    /// They have left this station
    Left,
    /// They are at this station now
    Arrived,
}

/// Tells the station.
///
/// # Errors
/// When the node is no station, or does not have one of the users; then it has been
/// told nothing.
pub fn run(Arguments { target, event, users }: Arguments) -> Result<(), Failure> {
    let (radio, said) = match event {
        Event::Left => (Radio::Left, "left"),
        Event::Arrived => (Radio::Arrived, "arrived"),
    };
    let order = serde_json::to_string(&RadioOrder { radio, users }).map_err(Failure::broken)?;
    let RadioNoted { users } = target.client()?.post("/v1/radio", order)?;
    match users {
        1 => output::line(&format!("the radio of 1 user has {said}")),
        _ => output::line(&format!("the radios of {users} users have {said}")),
    }
}
