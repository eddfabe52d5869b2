//! What the kernel has lost in front of a port's AF_XDP sockets.
//!
//! The driver counts packets for which there was no buffer, and not those that found the
//! receive ring full. The sockets are those that the process has gained while the driver set
//! the device up; the kernel does not tell to which interface such a socket belongs.

use std::collections::BTreeSet;
use std::fs;
use std::mem::{size_of, zeroed};
use std::os::fd::RawFd;

/// The sockets of one port; empty where its driver has none.
#[derive(Debug, Default)]
pub(in crate::port) struct XdpSockets {
    /// They are the driver's, and stay open as long as the device.
    descriptors: Vec<RawFd>,
}

impl XdpSockets {
    /// Sets a device up, and finds the sockets that this made. The caller sees to it that no
    /// other device is set up at the same time.
    pub(in crate::port) fn made_by<T>(set_up: impl FnOnce() -> T) -> (T, XdpSockets) {
        let before = all();
        let done = set_up();
        let descriptors = all().difference(&before).copied().collect();
        (done, XdpSockets { descriptors })
    }

    /// Packets that found the receive ring full.
    pub(in crate::port) fn missed(&self) -> u64 {
        self.descriptors.iter().map(|fd| ring_full(*fd)).sum()
    }
}

/// All such sockets of this process.
fn all() -> BTreeSet<RawFd> {
    let folder = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let descriptors = folder.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    descriptors.filter(|fd| domain(*fd) == Some(libc::AF_XDP)).collect()
}

fn domain(fd: RawFd) -> Option<i32> {
    let (mut domain, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `length` octets to `domain`, and refuses a descriptor
    // that is no socket.
    let status = unsafe {
        let value = (&raw mut domain).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, value, &mut length)
    };
    (status == 0).then_some(domain)
}

fn ring_full(fd: RawFd) -> u64 {
    // SAFETY: all bytes zero are valid counters.
    let mut counters: libc::xdp_statistics = unsafe { zeroed() };
    let mut length = size_of::<libc::xdp_statistics>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` octets to `counters`; a kernel before 5.9
    // writes fewer, and the others stay zero.
    unsafe {
        let value = (&raw mut counters).cast();
        libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_STATISTICS, value, &mut length);
    }
    counters.rx_ring_full
}
