//! The queues of a device, and what fits into their buffers.

use std::io;
use std::ptr::null;

use weft_dpdk_sys as sys;

use super::{Device, Driver, check};
use crate::buffer::Pool;
use crate::error::invalid;
use crate::numa;
use crate::port::PortOptions;

/// Longest buffer that AF_XDP takes, less what is in front of a packet.
const PAGE_BYTES: usize = 4096 - 256;
/// An Ethernet header with two VLAN tags.
const LINK_BYTES: usize = 14 + 8;

impl Device {
    /// Sees to a large MTU that the driver may have refused. That of AF_PACKET calls 1,518 bytes
    /// its longest frame, and takes what its ring has room for.
    pub(super) fn check_mtu(&self, mtu: u16, status: i32) -> io::Result<()> {
        if mtu <= PortOptions::PLAIN_MTU || status == 0 || status == -libc::ENOTSUP {
            return Ok(());
        }
        match &self.interface {
            Some(interface) if self.driver.is_some_and(Driver::has_packet_sockets) => {
                interface.set_mtu(mtu)
            }
            _ => check(status, "an MTU this large"),
        }
    }

    /// # Errors
    /// When its packets, of up to `mtu` bytes, do not fit the buffers of the pool.
    pub(super) fn check_buffers(&self, mtu: u16, pool: &Pool) -> io::Result<()> {
        if self.driver.is_some_and(Driver::has_xdp_sockets) && pool.packet_bytes() > PAGE_BYTES {
            let most = PortOptions::PLAIN_MTU;
            return Err(invalid(format!(
                "AF_XDP takes buffers of one page, and a port of this node has an MTU above \
                 {most}; use AF_PACKET, or an MTU of {most} at all ports"
            )));
        }
        if usize::from(mtu) + LINK_BYTES > pool.packet_bytes() {
            let most = pool.packet_bytes() - LINK_BYTES;
            return Err(invalid(format!("an MTU of {mtu} where buffers hold {most} bytes")));
        }
        Ok(())
    }

    pub(super) fn set_up_queues(
        &self,
        rx: u16,
        tx: u16,
        descriptors: u16,
        pool: &Pool,
    ) -> io::Result<()> {
        let id = self.id;
        let kept = self.driver.map_or(0, |driver| driver.queue_packets) * u32::from(rx);
        if pool.available() < kept {
            return Err(invalid(format!("its driver keeps {kept} packets; make the pool larger")));
        }
        let (mut rx_size, mut tx_size) = (descriptors, descriptors);
        let advice = self.driver.and_then(|driver| driver.queue_refused);
        // SAFETY: the device is configured with that many queues and not
        // started; the pool lives as long as the port that is made of it; null
        // asks for the driver's defaults.
        unsafe {
            let socket = self.socket() as u32;
            sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &mut rx_size, &mut tx_size);
            for queue in 0..rx {
                let pool = pool.as_ptr();
                let status = sys::rte_eth_rx_queue_setup(id, queue, rx_size, socket, null(), pool);
                check(status, "a receive queue")
                    .map_err(|reason| advice.map_or(reason, io::Error::other))?;
            }
            for queue in 0..tx {
                let status = sys::rte_eth_tx_queue_setup(id, queue, tx_size, socket, null());
                check(status, "a transmit queue")?;
            }
        }
        Ok(())
    }

    /// The socket of the machine that its descriptors are best at; -1 for any.
    fn socket(&self) -> i32 {
        // SAFETY: the device exists.
        match unsafe { sys::rte_eth_dev_socket_id(self.id) } {
            at if at >= 0 => at,
            _ => numa::socket(),
        }
    }
}
