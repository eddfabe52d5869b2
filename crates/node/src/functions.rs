//! Functions in processes and at other nodes: what a node makes ready for them.

mod entry;
mod prepared;
mod remote;
mod seats;

use weft_node_config::Blueprint;
use weft_offload::thread::ThreadPool;

pub(crate) use self::entry::FunctionEntry;
pub(crate) use self::prepared::Prepared;
pub use self::remote::remote;
pub use self::seats::{Seats, start};
use crate::plan;

/// RemoteQueues that a node has with the threads there are and those of a blueprint.
pub(crate) fn remote_queues_with(threads: &ThreadPool, blueprint: &Blueprint) -> usize {
    let others = blueprint
        .functions
        .iter()
        .filter(|one| one.process.is_some() || one.remote.is_some())
        .count();
    others + threads.count_with(plan::stages(blueprint))
}
