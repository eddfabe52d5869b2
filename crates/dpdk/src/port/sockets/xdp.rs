//! What the kernel has lost in front of a port's AF_XDP sockets.
//!
//! The driver counts packets for which there was no buffer, and not those that found the
//! receive ring full. The sockets are those that the process has gained while the driver set
//! the device up; the kernel does not tell to which interface such a socket belongs.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::mem::{size_of, zeroed};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{io, thread};

use super::calls::redirected;
use super::descriptors::descriptors;
use crate::lock;

/// The library by which the driver makes sockets.
const LIBRARY: &[u8] = b"libxdp.so";
/// How long the kernel may take to give a queue up, and how often it is asked.
const GIVEN_UP: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(1);

/// The sockets of one port; empty where its driver has none.
#[derive(Debug, Default)]
pub(in crate::port) struct XdpSockets {
    /// They are the driver's, and stay open as long as the device: descriptors, and the numbers
    /// that the kernel knows the sockets by.
    descriptors: Vec<(RawFd, u64)>,
}

/// New sockets are told by those that there were before, and old ones by their numbers.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl XdpSockets {
    /// Sets a device up, and finds the sockets that this made.
    pub(in crate::port) fn made_by<T>(set_up: impl FnOnce() -> T) -> (T, XdpSockets) {
        let _turn = lock(&ONE_AT_A_TIME);
        let before = all();
        let done = redirected((LIBRARY, c"bind"), bind as *const () as usize, set_up);
        let descriptors = all().difference(&before).copied().collect();
        (done, XdpSockets { descriptors })
    }

    /// Them, in the order in which the driver has made them.
    pub(in crate::port) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.descriptors.iter().map(|(descriptor, _)| *descriptor)
    }

    /// Packets that found the receive ring full.
    pub(in crate::port) fn missed(&self) -> u64 {
        self.descriptors.iter().map(|(fd, _)| ring_full(*fd)).sum()
    }

    /// Closes those that the driver has left open with its device: the kernel would believe the
    /// queues of the interface in use until the process ends. A moment later it does not.
    pub(in crate::port) fn close(&mut self) {
        let _turn = lock(&ONE_AT_A_TIME);
        let open = all();
        for socket in self.descriptors.drain(..).filter(|socket| open.contains(socket)) {
            // SAFETY: it is the same socket still, and who opened it has forgotten it.
            drop(unsafe { OwnedFd::from_raw_fd(socket.0) });
        }
    }
}

/// As bind(2); waits until the kernel has given up the queue of a socket that was closed, which is
/// some milliseconds later.
unsafe extern "C" fn bind(
    socket: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    let until = Instant::now() + GIVEN_UP;
    loop {
        // SAFETY: as the caller promises.
        let status = unsafe { libc::bind(socket, address, length) };
        let is_busy = io::Error::last_os_error().raw_os_error() == Some(libc::EBUSY);
        if status == 0 || !is_busy || Instant::now() >= until {
            return status;
        }
        thread::sleep(LOOK);
    }
}

/// All such sockets of this process.
fn all() -> BTreeSet<(RawFd, u64)> {
    let descriptors = descriptors().unwrap_or_default().into_iter();
    let sockets = descriptors.filter(|fd| domain(*fd) == Some(libc::AF_XDP));
    sockets.filter_map(|fd| Some((fd, number(fd)?))).collect()
}

/// The number that the kernel knows a socket by.
fn number(fd: RawFd) -> Option<u64> {
    // SAFETY: all octets zero are valid; the kernel writes one `stat`.
    let mut status: libc::stat = unsafe { zeroed() };
    // SAFETY: as above.
    (unsafe { libc::fstat(fd, &mut status) } == 0).then_some(status.st_ino)
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
