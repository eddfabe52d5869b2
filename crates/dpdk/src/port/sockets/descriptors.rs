//! Descriptors of this process. Drivers keep theirs to themselves, so they are found among all.

use std::fs;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::RawFd;

/// The highest of the standard streams.
const STANDARD: RawFd = libc::STDERR_FILENO;

/// All of them, in order.
pub(in crate::port) fn descriptors() -> io::Result<Vec<RawFd>> {
    let names = fs::read_dir("/proc/self/fd")?;
    let numbers = names.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<RawFd> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The index of the interface that a packet socket is bound to; none of any other descriptor.
pub(in crate::port) fn bound_to(number: RawFd) -> Option<i32> {
    // SAFETY: all octets zero are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` octets to `address`, and refuses what is no socket.
    let status = unsafe { libc::getsockname(number, (&raw mut address).cast(), &mut size) };
    let is_packet = status == 0 && i32::from(address.sll_family) == libc::AF_PACKET;
    is_packet.then_some(address.sll_ifindex)
}

/// Lets processes that this one starts from now on have none of its descriptors but the standard
/// streams. A device stays busy as long as any process has it open, and drivers of DPDK do not see
/// to that. To be called ahead of each start, as drivers open devices at any time.
///
/// # Errors
/// When descriptors cannot be listed.
pub fn keep_from_children() -> io::Result<()> {
    for number in descriptors()?.into_iter().filter(|number| *number > STANDARD) {
        // SAFETY: sets a flag of a descriptor. One that was closed meanwhile is refused.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}
