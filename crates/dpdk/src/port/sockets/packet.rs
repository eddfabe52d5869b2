//! What the kernel has lost in front of a port's AF_PACKET sockets (packet(7)).
//!
//! The driver has a socket for each queue, and neither shows them nor counts what the kernel
//! drops where their rings are full. They are found among the descriptors of the process by
//! the interface that they are bound to.

use std::io;
use std::mem::size_of;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::descriptors::{bound_to, descriptors};
use super::program::Steering;

/// The sockets of one port; empty where the driver has none.
#[derive(Debug, Default)]
pub(in crate::port) struct PacketSockets {
    /// They are the driver's, and stay open as long as the device.
    descriptors: Vec<RawFd>,
    missed: AtomicU64,
}

impl PacketSockets {
    /// The sockets of this process that are bound to the interface `index`.
    pub(in crate::port) fn of_interface(index: i32) -> PacketSockets {
        let descriptors = descriptors().unwrap_or_default().into_iter();
        let descriptors = descriptors.filter(|fd| bound_to(*fd) == Some(index)).collect();
        PacketSockets { descriptors, missed: AtomicU64::new(0) }
    }

    /// Them, in the order in which the driver has made them.
    pub(in crate::port) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.descriptors.iter().copied()
    }

    /// Lets the kernel choose one of them for each packet by what `steering` says.
    ///
    /// # Errors
    /// When there are more runs of users than a program has room for, or the sockets were
    /// joined otherwise.
    pub(in crate::port) fn steer(&self, steering: &Steering) -> io::Result<()> {
        let mut program = steering.program().ok_or(io::ErrorKind::InvalidInput)?;
        let socket = *self.descriptors.first().ok_or(io::ErrorKind::NotConnected)?;
        let own = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
        // SAFETY: the kernel reads the program and keeps a copy.
        let status = unsafe {
            let value = (&raw const own).cast();
            libc::setsockopt(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, value, length)
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Packets that the kernel has dropped so far: their rings were full.
    pub(in crate::port) fn missed(&self) -> u64 {
        for fd in &self.descriptors {
            // The kernel begins to count anew each time it is asked.
            self.missed.fetch_add(drops(*fd), Ordering::Relaxed);
        }
        self.missed.load(Ordering::Relaxed)
    }
}

fn drops(fd: RawFd) -> u64 {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` octets to `statistics`.
    let status = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &mut length,
        )
    };
    if status == 0 { statistics.tp_drops.into() } else { 0 }
}
