//! What a worker has of the device of a port, which may go and come back.

use weft_dpdk::{RxQueue, TxQueue};

use crate::parse::local::OwnAddresses;

/// One receive queue that this worker polls.
pub struct Inlet {
    /// Number of the port.
    pub port: u16,
    /// The queue.
    pub queue: RxQueue,
    /// What is looked at before a packet is routed; none at a transparent port.
    pub own: Option<OwnAddresses>,
}

/// What a worker has of a device.
pub struct Attachment {
    /// Number of the port.
    pub port: u16,
    /// The queues that it polls.
    pub inlets: Vec<Inlet>,
    /// The queue that it sends by, where it has one of its own.
    pub queue: Option<TxQueue>,
}
