//! DPDK's environment for one node.

use weft_dpdk::{Eal, EalOptions, Pool, is_pci_address};
use weft_node::config::Blueprint;

use crate::failure::Failure;

/// Bytes that a packet buffer takes beside the packet: headroom, annotations,
/// DPDK's own fields, its place in the pool.
const BUFFER_OVERHEAD: u64 = 640;
/// Megabytes for what is not packets: DPDK itself, and rings.
const BASE_MEGABYTES: u64 = 48;
/// Megabytes for the queues of a port, and for the rings of a worker.
const PORT_MEGABYTES: u64 = 2;

/// Starts the environment for `blueprint`.
///
/// # Errors
/// When the machine does not have what it takes.
pub fn start(blueprint: &Blueprint) -> Result<&'static Eal, Failure> {
    let devices = blueprint.ports.iter().map(|port| &port.device);
    let options = EalOptions {
        memory_megabytes: blueprint.memory.megabytes.unwrap_or_else(|| estimate(blueprint)),
        pci: devices.filter(|device| is_pci_address(device)).cloned().collect(),
        huge_pages: blueprint.memory.huge_pages,
    };
    Ok(Eal::start(&options)?)
}

/// Megabytes that DPDK needs for a node. Users and contexts do not count: they
/// lie in the memory of the process.
fn estimate(blueprint: &Blueprint) -> u32 {
    let buffer = Pool::PACKET_BYTES as u64 + BUFFER_OVERHEAD;
    let packets = (u64::from(blueprint.memory.packets) * buffer) >> 20;
    let ends = blueprint.ports.len() + blueprint.workers.count;
    let megabytes = BASE_MEGABYTES + packets + ends as u64 * PORT_MEGABYTES;
    u32::try_from(megabytes).unwrap_or(u32::MAX)
}
