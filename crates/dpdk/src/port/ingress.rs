//! What a port on a kernel interface takes in, opened and shut beneath its driver.
//!
//! Two processes may have AF_PACKET sockets on one interface (packet(7)); each gets every packet.
//! A filter that lets nothing through decides which of them takes it. The driver keeps its
//! sockets to itself, so they are found among the descriptors of the process.

use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::Port;

/// `ret 0`: a classic BPF program (linux/filter.h) that drops every packet.
const NOTHING: libc::sock_filter = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };

/// The AF_PACKET sockets through which one port receives.
#[derive(Debug)]
pub struct Ingress {
    /// Copies of the driver's descriptors: to drop them closes nothing.
    sockets: Vec<OwnedFd>,
}

impl Port {
    /// What the port takes in, where another process may take it in as well: at
    /// `net_af_packet` devices. None elsewhere.
    ///
    /// # Errors
    /// When the port has no sockets, or they cannot be found.
    pub fn ingress(&self) -> io::Result<Option<Ingress>> {
        let device = &self.open.device;
        let (Some(interface), true) = (device.interface(), device.is_shared()) else {
            return Ok(None);
        };
        let sockets = packet_sockets(interface.index())?;
        if sockets.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the port's sockets are not found",
            ));
        }
        Ok(Some(Ingress { sockets }))
    }
}

impl Ingress {
    /// Takes in nothing any more. What was taken in before can still be received.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn shut(&self) -> io::Result<()> {
        let mut program = [NOTHING];
        let program = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
        self.sockets.iter().try_for_each(|socket| {
            // SAFETY: the kernel reads one program of one instruction, and keeps a copy.
            let status = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_ATTACH_FILTER,
                    (&raw const program).cast(),
                    size_of::<libc::sock_fprog>() as libc::socklen_t,
                )
            };
            outcome(status)
        })
    }

    /// Takes in everything (again).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(&self) -> io::Result<()> {
        let nothing: libc::c_int = 0;
        self.sockets.iter().try_for_each(|socket| {
            // SAFETY: the kernel reads one int, whose value does not matter.
            let status = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_DETACH_FILTER,
                    (&raw const nothing).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                )
            };
            match outcome(status) {
                // There is no filter.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
                done => done,
            }
        })
    }
}

/// Waits until every packet that the kernel was giving to packet sockets has come to all of them,
/// some 20 ms: it waits for that before a packet socket is gone.
///
/// # Errors
/// When the process may not open such a socket.
pub fn await_delivery() -> io::Result<()> {
    // SAFETY: three integers. A socket of no protocol receives nothing.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    outcome(socket.min(0))?;
    // SAFETY: the descriptor has just been opened, and is not used elsewhere.
    drop(unsafe { OwnedFd::from_raw_fd(socket) });
    Ok(())
}

/// Closes packet sockets that the process has from the one that has started it: they are that
/// one's, and what is done to them is done to its ports. To be called before any port is opened.
///
/// # Errors
/// When descriptors cannot be listed.
pub fn close_inherited() -> io::Result<()> {
    for number in descriptors()? {
        if bound_to(number).is_some() {
            // SAFETY: this process has opened no packet socket: nothing else uses it.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
    Ok(())
}

/// Processes that this one starts do not have the sockets of the interface of that index.
pub(super) fn keep_from_children(interface: i32) -> io::Result<()> {
    for number in descriptors()? {
        if bound_to(number) == Some(interface) {
            // SAFETY: sets a flag of a descriptor, which is one of a packet socket.
            outcome(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
        }
    }
    Ok(())
}

/// Descriptors of this process, in order.
fn descriptors() -> io::Result<Vec<RawFd>> {
    let names = fs::read_dir("/proc/self/fd")?;
    let numbers = names.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<RawFd> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// AF_PACKET sockets of this process that are bound to the interface of that index.
fn packet_sockets(interface: i32) -> io::Result<Vec<OwnedFd>> {
    let mut found = Vec::new();
    for number in descriptors()? {
        if bound_to(number) == Some(interface) {
            // SAFETY: the number is that of an open descriptor: it has just answered, and ports
            // are not closed while one of them is looked at.
            found.push(unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?);
        }
    }
    Ok(found)
}

/// The index of the interface that a packet socket is bound to; none of any other descriptor.
fn bound_to(number: RawFd) -> Option<i32> {
    // SAFETY: all octets zero are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` octets to `address`, and refuses what is no socket.
    let status = unsafe { libc::getsockname(number, (&raw mut address).cast(), &mut size) };
    let is_packet = status == 0 && i32::from(address.sll_family) == libc::AF_PACKET;
    is_packet.then_some(address.sll_ifindex)
}

fn outcome(status: libc::c_int) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
