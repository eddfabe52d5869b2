//! What tells that packets have come to a receive queue, so that nothing has to look for them.

use std::os::fd::RawFd;

use weft_dpdk_sys as sys;

use crate::port::driver::Driver;
use crate::port::sockets::{PacketSockets, XdpSockets};

/// A descriptor that is readable when a queue has packets. It is the driver's, and stays open as
/// long as the device.
#[derive(Clone, Copy, Debug)]
pub(in crate::port) struct Interrupt {
    pub(in crate::port) descriptor: RawFd,
    /// Whether it is an eventfd(2) of an interrupt that is asked for each time
    /// (`rte_eth_dev_rx_intr_enable`); else it is what packets are read from.
    is_event: bool,
}

/// Those of the `queues` receive queues of a device, by queue; empty where it has none. The
/// device was asked for them if `is_asked`.
pub(super) fn of_queues(
    id: u16,
    queues: u16,
    driver: Option<&Driver>,
    (packet, xdp): (&PacketSockets, &XdpSockets),
    is_asked: bool,
) -> Vec<Interrupt> {
    let sockets: Vec<RawFd> = match driver {
        Some(driver) if driver.has_packet_sockets() => packet.descriptors().collect(),
        Some(driver) if driver.has_xdp_sockets() => xdp.descriptors().collect(),
        _ if is_asked => return of_device(id, queues, driver.is_none()),
        _ => return Vec::new(),
    };
    // Drivers open them in the order of the queues, and descriptors are given out in order.
    match sockets.len() == usize::from(queues) {
        true => sockets
            .into_iter()
            .map(|descriptor| Interrupt { descriptor, is_event: false })
            .collect(),
        false => Vec::new(),
    }
}

/// As DPDK says it; `are_events` at a NIC. None where one queue has none.
fn of_device(id: u16, queues: u16, are_events: bool) -> Vec<Interrupt> {
    let of_queue = |queue| {
        // SAFETY: the device exists and is started; a queue without an interrupt is refused.
        let descriptor = unsafe { sys::rte_eth_dev_rx_intr_ctl_q_get_fd(id, queue) };
        (descriptor >= 0).then_some(Interrupt { descriptor, is_event: are_events })
    };
    (0..queues).map(of_queue).collect::<Option<Vec<_>>>().unwrap_or_default()
}

impl Interrupt {
    /// Asks the device for it, where it does not come by itself. False where that is refused.
    pub(in crate::port) fn arm(self, id: u16, queue: u16) -> bool {
        // SAFETY: DPDK refuses a device or a queue that there is not.
        !self.is_event || unsafe { sys::rte_eth_dev_rx_intr_enable(id, queue) } == 0
    }

    /// It is not asked for any more, and whether it has come is forgotten.
    pub(in crate::port) fn disarm(self, id: u16, queue: u16) {
        if !self.is_event {
            return;
        }
        let mut count = 0_u64;
        // SAFETY: as above. The descriptor is open as long as the queue is, does not block, and
        // gives eight octets at most, for which there is room.
        unsafe {
            sys::rte_eth_dev_rx_intr_disable(id, queue);
            libc::read(self.descriptor, (&raw mut count).cast(), size_of::<u64>());
        }
    }
}

/// Asks for the interrupts that tell of its link, and of its end, where it has them.
pub(super) fn ask_for_link(info: &sys::rte_eth_dev_info, conf: &mut sys::rte_eth_conf) {
    // SAFETY: null, or flags that live as long as the device.
    let flags = unsafe { info.dev_flags.as_ref() }.copied().unwrap_or(0);
    conf.intr_conf.set_lsc(u32::from(flags & sys::WEFT_DEV_INTR_LSC != 0));
    conf.intr_conf.set_rmv(u32::from(flags & sys::WEFT_DEV_INTR_RMV != 0));
}
