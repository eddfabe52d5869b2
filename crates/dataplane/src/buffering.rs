//! What waits at a worker: packets that functions keep, packets to idle users, timers, and
//! the bounds on them.

pub mod limits;
pub mod queues;
