//! What the kernel has lost in front of a port's AF_PACKET sockets (packet(7)).
//!
//! The driver has a socket for each queue, and neither shows them nor counts what the kernel
//! drops where their rings are full. They are found among the descriptors of the process by
//! the interface that they are bound to.

use std::fs;
use std::mem::{size_of, zeroed};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sockets of one port; empty where the driver has none.
#[derive(Debug, Default)]
pub(crate) struct PacketSockets {
    /// They are the driver's, and stay open as long as the device.
    descriptors: Vec<RawFd>,
    missed: AtomicU64,
}

impl PacketSockets {
    /// The sockets of this process that are bound to the interface `index`.
    pub(crate) fn of_interface(index: i32) -> PacketSockets {
        let folder = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let descriptors = folder.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let descriptors = descriptors.filter(|fd| is_bound_to(*fd, index)).collect();
        PacketSockets { descriptors, missed: AtomicU64::new(0) }
    }

    /// Packets that the kernel has dropped so far: their rings were full.
    pub(crate) fn missed(&self) -> u64 {
        for fd in &self.descriptors {
            // The kernel begins to count anew each time it is asked.
            self.missed.fetch_add(drops(*fd), Ordering::Relaxed);
        }
        self.missed.load(Ordering::Relaxed)
    }
}

fn is_bound_to(fd: RawFd, index: i32) -> bool {
    // SAFETY: all bytes zero are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` octets to `address`, and refuses a
    // descriptor that is no socket.
    let status = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &mut length) };
    let family = i32::from(address.sll_family);
    status == 0 && family == libc::AF_PACKET && address.sll_ifindex == index
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
