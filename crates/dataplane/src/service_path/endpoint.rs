//! Where packets of functions that are reached by a port leave and come back: what carries
//! them belongs to a queue, which knows no ports, and its endpoint to the service paths of
//! the worker that has them.

use std::fmt::Debug;
use std::sync::Arc;

use weft_dpdk::{Packet, Pool};

use super::encapsulate::Encapsulation;
use super::plan::Peer;
use super::record::Record;
use crate::offload::Shared;

/// The end of a service path to a function at another node.
pub trait ServicePathEndpoint: Debug + Send {
    /// What the queue counts, and whether the path is there.
    fn shared(&self) -> &Arc<Shared>;

    /// The next frame to send, which begins with its service header, and its direction: 0
    /// uplink, 1 downlink.
    fn next_leaving(&mut self) -> Option<(Packet, usize)>;

    /// Takes in a frame that came back, whose service header begins at
    /// `network_offset`; false where it ends here. `path` says which one it came on.
    fn take(&mut self, packet: Packet, record: Record, path: u32) -> bool;

    /// The path is known to be there; it is given up if probes do not come back.
    fn begin_up(&mut self);

    /// Whether probes are to leave now.
    fn is_due(&self, now: u64) -> bool;

    /// The probes that leave now, by direction.
    fn probes(&mut self, now: u64, pool: &Pool) -> [Option<Packet>; 2];
}

/// A service path to a function at another node.
#[derive(Debug)]
pub struct RemotePath {
    /// Name of the function's instance.
    pub function: String,
    /// Number of the queue.
    pub remote_queue: u16,
    /// What stands in front of packets, uplink and downlink.
    pub ways: [Encapsulation; 2],
    /// Who packets come back from.
    pub peer: Peer,
    /// Its end.
    pub endpoint: Box<dyn ServicePathEndpoint>,
}

/// The end of the way through a NIC to a process with virtual functions.
pub trait VfEndpoint: Debug + Send {
    /// The next frame to send.
    fn next_leaving(&mut self) -> Option<Packet>;

    /// Takes in a frame that came back; false where there is no room.
    fn take(&mut self, packet: Packet) -> bool;

    /// The worker whose packet a frame is, as it says.
    fn worker_of(&self, frame: &[u8]) -> u16;
}

/// The way through a NIC to a process with virtual functions.
#[derive(Debug)]
pub struct VfPath {
    /// Name of the function's instance.
    pub function: String,
    /// Number of the queue.
    pub remote_queue: u16,
    /// Number of the port at which they come back, too.
    pub port: u16,
    /// Service path identifier of its frames.
    pub path: u32,
    /// Service index of packets that come back from the function itself.
    pub back_index: u8,
    /// Its end.
    pub endpoint: Box<dyn VfEndpoint>,
}
