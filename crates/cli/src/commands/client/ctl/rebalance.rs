//! `weft ctl rebalance`: stations come to carry the same.

use std::time::Instant;

use weft_mobility_controller::api::{Measure, Rebalance, RebalanceOrder};

use super::controller::ControllerAddress;
use super::handover::{follow, unmoved};
use crate::failure::Failure;
use crate::number::{count, counted};
use crate::output;
use crate::table::Table;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// What stations are compared by; without it, the first of these that all of them say
    #[arg(long, value_name = "MEASURE")]
    by: Option<By>,
    /// Show what would be done, and move no user
    #[arg(long)]
    dry_run: bool,
}

/// What stations are compared by.
#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    /// The share of their busiest cores that packets take
    Busy,
    /// Packets a second, as a share of what they can carry
    Packets,
    /// Users, for what they can carry
    Users,
}

/// Hands users over so that stations carry the same, and waits for the end.
///
/// # Errors
/// When there are no two stations (exit code 2), or not all users are where they were to be.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let begin = Instant::now();
    let by = arguments.by.map(|by| match by {
        By::Busy => Measure::Busy,
        By::Packets => Measure::Packets,
        By::Users => Measure::Users,
    });
    let order = RebalanceOrder { by, dry_run: arguments.dry_run };
    let body = serde_json::to_string(&order).map_err(Failure::broken)?;
    let answer: Rebalance = client.post("/v1/rebalance", body)?;
    output::print(&shares(&answer))?;
    let mut moved = 0;
    for mut handover in answer.orders {
        while !handover.finished {
            handover = follow(&client, handover.id)?;
        }
        if let Some(reason) = unmoved(&handover) {
            return Err(Failure::broken(reason));
        }
        moved += handover.moved as u64;
    }
    output::line(&match arguments.dry_run {
        true => "no user moves: --dry-run".to_owned(),
        false => {
            let seconds = begin.elapsed().as_secs_f64();
            format!("{} moved in {seconds:.3} s", counted(moved, "user"))
        }
    })
}

fn shares(answer: &Rebalance) -> String {
    let load = |load: f64| format!("{:.1} %", 100.0 * load);
    let measure = match answer.measure {
        Measure::Busy => "busy",
        Measure::Packets => "of capacity",
        Measure::Users => "of the mean",
    };
    let mut table = Table::new(&["station", "users", measure, "users then", "then"], 1);
    for share in &answer.stations {
        table.row([
            share.node.clone(),
            count(share.users as u64),
            load(share.load),
            count(share.users_then as u64),
            load(share.load_then),
        ]);
    }
    table.text()
}
