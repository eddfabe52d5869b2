//! How to open a port.

use std::io;

use super::capabilities::Checksums;
use super::sockets::Steering;
use crate::buffer::Pool;
use crate::error::invalid;

/// How to open a port.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// Receive queues wanted; a device that has fewer gives fewer.
    pub rx_queues: u16,
    /// Transmit queues wanted; a device that has fewer gives fewer.
    pub tx_queues: u16,
    /// Packets that each queue holds.
    pub descriptors: u16,
    /// Which queue a packet should come to, where the kernel can be told (AF_PACKET).
    pub steering: Option<Steering>,
    /// Whether it will be given flow rules, so that it is found out which ones its device takes.
    pub flow_rules: bool,
    /// Whether its device is to tell of packets, where it can, so that a thread need not poll.
    pub interrupts: bool,
    /// Who computes checksums.
    pub checksums: Checksums,
    /// Whether all buffers that are sent come from the pool that the port is opened with, and
    /// from no other: then a device may give them back without looking (fast free).
    pub sends_own_buffers: bool,
    /// Longest IP packet, in bytes, from [`PortOptions::MIN_MTU`] to
    /// [`PortOptions::MAX_MTU`].
    pub mtu: u16,
    /// The MAC address that a device gets which makes one up otherwise (TAP).
    pub mac: Option<[u8; 6]>,
    /// Whether another process has the device open, too. It is left as it is when the port closes,
    /// unless it is [this process's own](super::Port::own) by then: to close it would change it for
    /// both.
    pub is_beside: bool,
}

impl PortOptions {
    /// What every IPv4 link carries (RFC 791 section 3.2).
    pub const MIN_MTU: u16 = 68;
    /// Longest IP packet that fits a buffer of the usual size behind an Ethernet header with
    /// two VLAN tags.
    pub const PLAIN_MTU: u16 = Pool::PLAIN_MTU;
    /// Longest IP packet of all, in a [jumbo](Pool::JUMBO_BYTES) buffer.
    pub const MAX_MTU: u16 = 9000;

    pub(super) fn check(&self) -> io::Result<()> {
        let (least, most) = (Self::MIN_MTU, Self::MAX_MTU);
        match self.mtu {
            mtu if mtu < least || mtu > most => {
                Err(invalid(format!("an MTU of {mtu} is not within {least}..={most}")))
            }
            _ => Ok(()),
        }
    }
}

impl Default for PortOptions {
    fn default() -> Self {
        PortOptions {
            rx_queues: 1,
            tx_queues: 1,
            descriptors: 1024,
            steering: None,
            flow_rules: false,
            interrupts: false,
            checksums: Checksums::Auto,
            sends_own_buffers: false,
            mtu: 1500,
            mac: None,
            is_beside: false,
        }
    }
}
