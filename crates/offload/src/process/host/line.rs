//! The function's way through a NIC: one queue for the packets of all workers.

use std::io;
use std::time::{Duration, Instant};

use weft_dpdk::{Batch, Eal, Packet, Pool, Port, PortOptions, RxQueue, TxQueue};

use super::{BURST, HostError, PATIENCE, RETRY};
use crate::process::protocol::PortCounters;
use crate::vf::direct_path::worker_of;
use crate::vf::fabric::Ends;

/// How often the node is told what the devices have counted.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// What the process has of the NIC.
pub(super) struct Line {
    rx: RxQueue,
    tx: TxQueue,
    coming: Batch,
    /// Devices stay open as long as this.
    ports: Vec<Port>,
    /// When the node was told what they have counted.
    told: Instant,
}

impl Line {
    /// Opens the devices: the first is received at, the last sent at. Waits until their
    /// links are up, for some seconds.
    pub(super) fn open(
        eal: &Eal,
        devices: &[String],
        ends: Ends,
        descriptors: u16,
        pool: &Pool,
    ) -> Result<Line, HostError> {
        let options = PortOptions { descriptors, mtu: ends.mtu, ..PortOptions::default() };
        let open = |device: &String| Port::open(eal, device, &options, pool);
        let ports: Vec<Port> = devices.iter().map(open).collect::<Result<_, _>>()?;
        let taken = ports.first().zip(ports.last());
        let queues = taken.and_then(|(rx, tx)| rx.take_rx(0).zip(tx.take_tx(0)));
        let Some((rx, tx)) = queues else {
            return Err(HostError::Devices("its device has no queue of each direction"));
        };
        // A virtual function knows who it is; where it is told something else, the switch
        // in the NIC sends it nothing.
        if let Some(own) = ports.first().map(Port::mac).filter(|mac| *mac != [0; 6])
            && own != ends.function
        {
            tracing::warn!(?own, node = ?ends.function, "the device has another MAC address");
        }
        let until = Instant::now() + PATIENCE;
        while !ports.iter().all(|port| port.link().up) {
            if Instant::now() > until {
                return Err(HostError::Devices("the link of its device does not come up"));
            }
            std::thread::sleep(RETRY);
        }
        Ok(Line { rx, tx, coming: Batch::new(), ports, told: Instant::now() })
    }

    /// What the devices have counted, once in a while.
    ///
    /// # Errors
    /// When a device is gone or has to be opened anew.
    pub(super) fn news(&mut self) -> io::Result<Option<PortCounters>> {
        if self.told.elapsed() < TOLD_AFTER {
            return Ok(None);
        }
        self.told = Instant::now();
        // It is the link by which a virtual function shows a reset of its NIC.
        let is_gone = |port: &Port| {
            port.link();
            port.is_gone()
        };
        if self.ports.iter().any(is_gone) {
            return Err(io::Error::other("a device is gone or was reset"));
        }
        let of = |port: Option<&Port>| port.map(Port::statistics).unwrap_or_default();
        Ok(Some(PortCounters::of(&of(self.ports.first()), &of(self.ports.last()))))
    }

    /// Receives a burst and gives each packet away, with the number of its worker.
    #[inline]
    pub(super) fn receive(&mut self, mut give: impl FnMut(u16, Packet)) {
        self.rx.receive(&mut self.coming, BURST);
        for packet in self.coming.drain() {
            give(worker_of(packet.data()), packet);
        }
    }

    /// Sends, as far as there is room.
    pub(super) fn send(&mut self, leaving: &mut Batch) {
        self.tx.transmit(leaving);
    }
}
