//! What waits at a worker: packets that functions keep, packets to idle users, timers, and
//! the bounds on them.

pub(crate) mod fair_queue;
pub mod limits;
pub mod queues;
