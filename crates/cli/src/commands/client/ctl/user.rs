//! `weft ctl user`: users come to a controller, and go.

use clap::Subcommand;
use weft_mobility_controller::api::{Placement, User};

use super::controller::ControllerAddress;
use crate::failure::Failure;
use crate::output;

#[derive(Subcommand)]
pub enum UserCommand {
    /// Let a node own a user that no node has yet
    Add {
        #[command(flatten)]
        target: ControllerAddress,
        /// Number of the user
        #[arg(value_name = "USER")]
        user: u64,
        /// The node that is to own it; without it, the station that has the fewest users for what
        /// it can carry
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
        /// The node that stands before the stations
        #[arg(long, value_name = "NODE")]
        anchor: String,
    },
    /// Take users from the node that has them; what commands have added for them at nodes goes
    /// with them
    Remove {
        #[command(flatten)]
        target: ControllerAddress,
        /// Numbers of the users
        #[arg(value_name = "USER", required = true)]
        users: Vec<u64>,
    },
}

/// Does it.
///
/// # Errors
/// When there is no controller to ask (exit code 2), it does not grant it, or it goes
/// away.
pub fn run(what: UserCommand) -> Result<(), Failure> {
    match what {
        UserCommand::Add { target, user, node, anchor } => {
            let placement = Placement { anchor, node };
            // Texts: there is nothing that JSON could not say.
            let body = serde_json::to_string(&placement).map_err(Failure::broken)?;
            let added: User = target.client()?.put(&format!("/v1/users/{user}"), body)?;
            // It is on its way there.
            let node = added.target.or(added.owner).unwrap_or_default();
            output::line(&format!("user {user} is to be {node}'s"))
        }
        UserCommand::Remove { target, users } => {
            let client = target.client()?;
            for user in users {
                client.delete(&format!("/v1/users/{user}"))?;
                output::line(&format!("user {user} goes"))?;
            }
            Ok(())
        }
    }
}
