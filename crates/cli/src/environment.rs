//! DPDK's environment for one node.

use weft_dpdk::{Eal, EalOptions, PortOptions, pci_addresses};
use weft_node_config::Blueprint;

use crate::failure::Failure;

/// Bytes that a packet buffer takes: without huge pages DPDK gives each a page of
/// its own, and each has a place in the pool's ring.
const BUFFER_BYTES: u64 = 4096 + 64;
/// The same of a buffer for jumbo frames.
const JUMBO_BYTES: u64 = 3 * 4096 + 64;
/// Megabytes for what is not packets: DPDK itself, and rings.
const BASE_MEGABYTES: u32 = 48;
/// Megabytes for the queues of a port, and for the rings of a worker.
const PORT_MEGABYTES: u32 = 2;
/// Packets that wait at a worker for the agent.
const FOR_AGENT: u32 = 512;
/// Megabytes for the packets and queues of a function process, for each worker.
const RING_MEGABYTES: u32 = 8;

/// Starts the environment for `blueprint`, with room for so many packets of our
/// own beside those of the node.
///
/// # Errors
/// When the machine does not have what it takes.
pub fn start(blueprint: &Blueprint, packets: u32) -> Result<&'static Eal, Failure> {
    let devices = blueprint.devices().iter().map(|port| &port.device);
    let own = megabytes(packets, blueprint.greatest_mtu());
    let options = EalOptions {
        memory_megabytes: blueprint.memory.megabytes.unwrap_or_else(|| estimate(blueprint)) + own,
        pci: devices.flat_map(|device| pci_addresses(device)).map(str::to_owned).collect(),
        huge_pages: blueprint.memory.huge_pages,
    };
    Ok(Eal::start(&options)?)
}

/// Megabytes that DPDK needs for a node. Users and contexts do not count: they
/// lie in the memory of the process.
fn estimate(blueprint: &Blueprint) -> u32 {
    let ends = (blueprint.devices().len() + blueprint.workers.count) as u32;
    let isolated = blueprint.functions.iter().filter(|one| one.process.is_some()).count() as u32;
    let rings = isolated * blueprint.workers.count as u32 * RING_MEGABYTES;
    let for_agents = FOR_AGENT * blueprint.workers.count as u32;
    let packets = blueprint.memory.packets + blueprint.limits.local.answers + for_agents;
    BASE_MEGABYTES + megabytes(packets, blueprint.greatest_mtu()) + ends * PORT_MEGABYTES + rings
}

fn megabytes(packets: u32, mtu: u16) -> u32 {
    let bytes = if mtu > PortOptions::PLAIN_MTU { JUMBO_BYTES } else { BUFFER_BYTES };
    // The number is below 2^32 megabytes by far.
    ((u64::from(packets) * bytes) >> 20) as u32
}
