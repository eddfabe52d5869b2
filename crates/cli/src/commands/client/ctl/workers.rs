//! `weft ctl workers`: workers are parked while packets pass, and have threads of their own again.

use weft_management_api::api::{WorkersOrder, WorkersRun};

use crate::commands::client::target::Target;
use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// So many have threads of their own, from 1 to as many as the node has
    #[arg(value_name = "NUMBER")]
    threads: usize,
}

/// Tells the node.
///
/// # Errors
/// When it has fewer workers; then nothing has changed.
pub fn run(Arguments { target, threads }: Arguments) -> Result<(), Failure> {
    let order = serde_json::to_string(&WorkersOrder { threads }).map_err(Failure::broken)?;
    let run: WorkersRun = target.client()?.post("/v1/workers", order)?;
    output::line(&said(&run))
}

fn said(WorkersRun { threads, settled }: &WorkersRun) -> String {
    let parked = threads.iter().enumerate().filter(|(worker, thread)| worker != *thread);
    let parked: Vec<_> = parked.map(|(worker, thread)| format!("{worker} at {thread}")).collect();
    let own = threads.len() - parked.len();
    let parked = match parked.is_empty() {
        true => String::new(),
        false => format!("; parked: {}", parked.join(", ")),
    };
    let settled = if *settled { "" } else { "; they are still on their way" };
    format!("{own} of {} workers have threads of their own{parked}{settled}", threads.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_who_is_parked_where() {
        for (threads, settled, line) in [
            (vec![0, 1], true, "2 of 2 workers have threads of their own"),
            (vec![0, 1, 0], true, "2 of 3 workers have threads of their own; parked: 2 at 0"),
            (
                vec![0, 0, 0],
                false,
                "1 of 3 workers have threads of their own; parked: 1 at 0, 2 at 0; they are still \
                 on their way",
            ),
        ] {
            assert_eq!(said(&WorkersRun { threads, settled }), line);
        }
    }
}
