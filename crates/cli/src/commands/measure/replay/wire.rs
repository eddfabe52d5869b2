//! The wires between a node and its captures: memory rings in the place of the
//! devices of the configuration.

use weft_dpdk::{Batch, Eal, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_node_config::{Blueprint, PortPlan};

use super::output::Output;
use crate::failure::Failure;

/// Puts a memory ring into the place of every device.
pub fn attach_rings(blueprint: &mut Blueprint) {
    let process = std::process::id();
    for port in blueprint.ports.iter_mut().filter(|port| port.path.is_none()) {
        port.device = format!("ring:replay-{process}-{}", port.name);
        // A capture does not say at which queue a packet came in.
        port.queues = 1;
    }
}

/// The far end of one port.
pub struct Wire {
    to_node: TxQueue,
    from_node: RxQueue,
    output: Option<Output>,
}

impl Wire {
    /// Opens the far end of `port`, which has a memory ring for a device.
    pub fn open(
        eal: &Eal,
        port: &PortPlan,
        output: Option<Output>,
        pool: &Pool,
    ) -> Result<Wire, Failure> {
        let options = PortOptions { descriptors: port.descriptors, ..PortOptions::default() };
        let open = Port::open(eal, &port.device, &options, pool)?;
        let queues = open.take_tx(0).zip(open.take_rx(0));
        let (to_node, from_node) =
            queues.ok_or_else(|| Failure::broken(format!("port {} has no queue", port.name)))?;
        Ok(Wire { to_node, from_node, output })
    }

    /// Sends what is in `batch` to the node.
    pub fn send(&mut self, batch: &mut Batch) {
        self.to_node.transmit(batch);
    }

    /// Writes what the node has sent; `time` is in nanoseconds since the
    /// beginning of 1970.
    pub fn collect(&mut self, time: u64) -> Result<(), Failure> {
        let mut batch = Batch::new();
        while self.from_node.receive(&mut batch, Batch::CAPACITY) > 0 {
            for packet in batch.drain() {
                if let Some(output) = &mut self.output {
                    output.write(time, packet.data())?;
                }
            }
        }
        Ok(())
    }

    /// Ends the capture.
    pub fn end(self) -> Result<(), Failure> {
        self.output.map_or(Ok(()), Output::end)
    }
}
