//! A node: ports, workers, a forwarding element and functions under one
//! configuration.
//!
//! Two kinds of thread make a node. **Workers** carry packets: `worker.rs` of
//! `weft-dataplane` is their way from port to port, and the modules it calls are
//! its stages: `parse`, `classify`, `forward`, `transmit`. The **agent** does
//! everything else: it builds workers from a [`Blueprint`](weft_node_config::Blueprint), changes them by
//! commands, answers ARP and neighbour discovery, sends ICMP errors,
//! and watches the ports. They share rings and counters and nothing more.
//!
//! A [`Node`] is a library object: a program may hold several, and may drive one
//! step by step in its own thread instead of starting it.

#![forbid(unsafe_code)]

mod agent;
mod assemble;
pub mod bearer;
mod error;
mod functions;
pub mod gtpu_peers;
mod migration;
pub mod mobility;
mod node;
mod plan;
mod ports;
mod subscribers;
mod workers;

pub use agent::{
    Agent, Answer, Changed, Handle, Lease, Offer, OfferedFunction, OfferedNeighbour, OfferedShare,
    SharedAddresses, SharedInterface, StandbyView, StateView, Stopped, Wanted, Watching, paths,
    show, usage,
};
pub use error::{BuildError, NotComposed, Refused};
pub use migration::{contexts, transfer};
pub use node::{
    Beside, GivenShare, HandedOver, Node, PortTransfer, Predecessor, Running, StandingNode,
    TakeOverError, UpgradeError,
};
pub use weft_dataplane::worker::Idle;
pub use weft_dataplane::worker::Worker;
pub use weft_state::Done;
pub use workers::ThreadsError;
