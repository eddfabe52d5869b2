//! Ports: one Ethernet device each, named by its DPDK device string.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_dpdk_sys as sys;

use crate::buffer::Pool;
use crate::eal::Eal;
use crate::eal::log;
use crate::error::{Error, Result};

pub(crate) mod bus;
mod capabilities;
mod device;
mod driver;
mod events;
mod extended;
mod flow;
mod ingress;
mod interface;
mod open;
mod options;
mod queue;
mod ring_port;
mod sockets;

use device::Device;
use driver::{DeviceString, wanted_channels};
use open::Open;
use ring_port::RingEnd;
use sockets::Wanted;

pub use bus::is_pci_address;
pub use capabilities::{Capabilities, Checksums, Spreading, WakeSource, devices_sum_udp};
pub use device::pci_addresses;
pub use flow::{
    FlowField, FlowId, FlowLevel, FlowMatch, FlowRefusal, FlowRule, FlowSupport, FlowTaking,
};
pub use ingress::{Holder, Ingress, await_delivery, close_inherited, may_steer};
pub use interface::kernel_offloads;
pub use options::PortOptions;
pub use queue::{RxQueue, TxQueue};
pub use sockets::{Steering, SteeringKey, SteeringRun, keep_from_children};

/// State of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether packets can pass.
    pub up: bool,
    /// Megabits per second; 0 when the device does not say.
    pub megabits: u32,
}

/// What a port has counted since it was opened. Memory rings do not count
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets lost because the receive queue was full: as the device counts them, and as the
    /// kernel does in front of AF_PACKET and AF_XDP sockets.
    pub rx_missed: u64,
    /// Packets received in error, or for which there was no buffer.
    pub rx_errors: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

/// An open port. It is closed, and its device removed, when the port and all
/// queues taken from it are dropped.
#[derive(Debug)]
pub struct Port {
    open: Arc<Open>,
    rx_taken: Vec<AtomicBool>,
    tx_taken: Vec<AtomicBool>,
}

/// Whether two processes may have the device of that string open at the same time, so that either
/// can receive what comes ([`Ingress`]), whatever rights they have.
pub fn is_shared(device: &str) -> bool {
    DeviceString::parse(device)
        .is_ok_and(|device| device.driver.is_some_and(|driver| driver.shares))
}

impl Port {
    /// Opens and starts the device that `device` names: `ring:NAME`, any
    /// virtual device (`net_tap0,iface=weft0`), or a PCI address that was given
    /// to the environment. Received packets are taken from `pool`.
    ///
    /// A device for a kernel interface looks for it in the network namespace of
    /// the calling thread, and sets the interface's MTU. For AF_XDP it also sets the interface's
    /// receive queues (ethtool's channels), which get their number back when the port closes.
    ///
    /// # Errors
    /// [`Error::Device`] with what is wrong and what to do about it.
    pub fn open(eal: &Eal, device: &str, options: &PortOptions, pool: &Pool) -> Result<Port> {
        let log = log::listen();
        let started = options.check().and_then(|()| {
            // Ahead of the driver, which looks at them.
            let wanted =
                wanted_channels(device, options.rx_queues)?.filter(|wanted| wanted.is_needed);
            let channels = wanted.map(Wanted::give).transpose()?;
            let mut device = Device::make(eal, device, options)?;
            device.keep(channels);
            device.is_another_s(options.is_beside);
            let queues = device.start(options, pool)?;
            Ok((device, queues))
        });
        let (started, (rx_queues, tx_queues)) = started.map_err(|reason| Error::Device {
            device: device.to_owned(),
            // What DPDK logged adds to a reason only where that is DPDK's, too.
            log: log.said().filter(|_| reason.kind() == io::ErrorKind::Other),
            reason: reason.to_string(),
        })?;
        let open = Open::new(started, device, pool);
        let free = |count| (0..count).map(|_| AtomicBool::new(false)).collect();
        Ok(Port { open: Arc::new(open), rx_taken: free(rx_queues), tx_taken: free(tx_queues) })
    }

    /// Its device is this process's alone from now on, as another one that had it has ended: it is
    /// closed with the port.
    pub fn own(&self) {
        self.open.device.is_another_s(false);
    }

    /// The device string the port was opened with.
    pub fn device(&self) -> &str {
        &self.open.name
    }

    /// The device's own MAC address; all zero for a device without one.
    pub fn mac(&self) -> [u8; 6] {
        self.open.mac
    }

    /// Number of receive queues.
    pub fn rx_queues(&self) -> u16 {
        self.rx_taken.len() as u16
    }

    /// Number of transmit queues.
    pub fn tx_queues(&self) -> u16 {
        self.tx_taken.len() as u16
    }

    /// Receive queue `queue`; none when it does not exist or was taken before.
    pub fn take_rx(&self, queue: u16) -> Option<RxQueue> {
        let taken = self.rx_taken.get(usize::from(queue))?.swap(true, Ordering::Relaxed);
        (!taken).then(|| RxQueue::new(self.open.clone(), queue))
    }

    /// Transmit queue `queue`; none when it does not exist or was taken before.
    pub fn take_tx(&self, queue: u16) -> Option<TxQueue> {
        let taken = self.tx_taken.get(usize::from(queue))?.swap(true, Ordering::Relaxed);
        (!taken).then(|| TxQueue::new(self.open.clone(), queue))
    }

    /// How packets come to its receive queues.
    pub fn spreading(&self) -> &Spreading {
        self.open.device.spreading()
    }

    /// Its redirection table as it was opened: to which queue each entry leads. Empty where the
    /// device does not spread packets by one that can be set.
    pub fn redirection(&self) -> Vec<u16> {
        match self.spreading() {
            Spreading::Hash { table, .. } => capabilities::in_turn(*table, self.rx_queues()),
            _ => Vec::new(),
        }
    }

    /// Sets its redirection table. Packets of a flow may come to another queue from a moment on.
    ///
    /// # Errors
    /// When the table is not as long as it was or leads to a queue that there is not; else what the
    /// driver says. The table is as it was then.
    pub fn redirect(&self, queues: &[u16]) -> io::Result<()> {
        let is_sound = queues.iter().all(|queue| *queue < self.rx_queues());
        if queues.len() != self.redirection().len() || !is_sound {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        capabilities::redirect(self.open.device.id, queues)
    }

    /// What its device does in the place of the processor; empty where that is nothing.
    pub fn offloads(&self) -> Vec<&'static str> {
        let device = &self.open.device;
        let mut names = device.offloads().names();
        if !device.interrupts().is_empty() {
            names.push("receive interrupts");
        }
        names
    }

    /// What the device that `device` names can do. It is made and removed again, without
    /// being started; the other options are as for [`Port::open`].
    ///
    /// # Errors
    /// As [`Port::open`].
    pub fn capabilities(eal: &Eal, device: &str, options: &PortOptions) -> Result<Capabilities> {
        let asked = wanted_channels(device, options.rx_queues).and_then(|wanted| {
            // Its interface does not get other queues for that.
            let now = wanted.as_ref().filter(|wanted| wanted.is_needed).map(Wanted::now);
            let queues = now.map_or(options.rx_queues, |now| now.min(options.rx_queues));
            let now = PortOptions { rx_queues: queues, ..options.clone() };
            let mut can = Device::make(eal, device, &now)?.capabilities(options)?;
            if let Some(wanted) = wanted {
                can.rx_queues = can.rx_queues.max(options.rx_queues);
                can.channels = Some(wanted.to_string());
                can.changes_channels = wanted.is_needed;
            }
            Ok(can)
        });
        asked.map_err(|reason| Error::Device {
            device: device.to_owned(),
            log: None,
            reason: reason.to_string(),
        })
    }

    /// State of the link. It is down where nothing is at the other end of the
    /// wire, whatever the driver believes: the other end of a memory ring is
    /// not open, a kernel interface has vanished or has no carrier.
    pub fn link(&self) -> Link {
        let device = &self.open.device;
        let mut link = sys::rte_eth_link::default();
        // SAFETY: the port exists; `link` is writable.
        let status = unsafe { sys::rte_eth_link_get_nowait(device.id, &mut link) };
        let megabits = if link.link_speed == u32::MAX { 0 } else { link.link_speed };
        let is_up = status == 0 && link.link_status() == 1;
        device.note_link(is_up);
        Link { up: is_up && device.is_connected(), megabits }
    }

    /// Whether its device is gone, or has to be opened anew (`RTE_ETH_EVENT_INTR_RMV`,
    /// `RTE_ETH_EVENT_INTR_RESET`, the link of a virtual function is back, the kernel interface
    /// behind it does not exist). Queues know it from then on.
    pub fn is_gone(&self) -> bool {
        let is_gone = self.open.device.is_gone();
        if is_gone {
            self.open.note_gone();
        }
        is_gone
    }

    /// Whether a device that is gone may be opened again later, once this port and its queues
    /// are dropped: a NIC, or an interface that another program has made.
    pub fn may_return(&self) -> bool {
        self.open.device.may_return()
    }

    /// Changes of its link that the device has told of (`RTE_ETH_EVENT_INTR_LSC`).
    pub fn link_changes(&self) -> u64 {
        self.open.device.link_changes()
    }

    /// What the port has counted.
    pub fn statistics(&self) -> PortStatistics {
        let device = &self.open.device;
        let chained = self.open.chained();
        let mut stats = sys::rte_eth_stats::default();
        // SAFETY: the port exists; `stats` is writable and zero if this fails.
        unsafe { sys::rte_eth_stats_get(device.id, &mut stats) };
        let ring = device.ring.as_ref().map(RingEnd::counters).unwrap_or_default();
        PortStatistics {
            rx_packets: stats.ipackets - chained,
            rx_bytes: stats.ibytes,
            rx_missed: stats.imissed + ring.missed + device.missed_by_kernel(),
            rx_errors: stats.ierrors + stats.rx_nombuf + chained,
            tx_packets: stats.opackets + ring.missed_by_peer,
            tx_bytes: stats.obytes,
            tx_errors: stats.oerrors + ring.unconnected,
        }
    }
}
