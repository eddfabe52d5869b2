//! AF_PACKET sockets (packet(7)). Two processes may have such on one interface, and each gets every
//! packet: a filter that lets nothing through decides which of them takes it.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::outcome;
use crate::port::sockets::{bound_to, descriptors};

/// `ret 0`: a classic BPF program (linux/filter.h) that drops every packet.
const NOTHING: libc::sock_filter = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };

/// The sockets through which one port receives.
#[derive(Debug)]
pub(super) struct Sockets(
    /// Copies of the driver's descriptors: to drop them closes nothing.
    Vec<OwnedFd>,
);

impl Sockets {
    /// Those of this process that are bound to the interface of that index.
    ///
    /// # Errors
    /// When there are none.
    pub(super) fn of_interface(interface: i32) -> io::Result<Sockets> {
        let mut found = Vec::new();
        for number in descriptors()? {
            if bound_to(number) == Some(interface) {
                // SAFETY: the number is that of an open descriptor: it has just answered, and
                // ports are not closed while one of them is looked at.
                found.push(unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?);
            }
        }
        match found.is_empty() {
            true => {
                Err(io::Error::new(io::ErrorKind::NotFound, "the port's sockets are not found"))
            }
            false => Ok(Sockets(found)),
        }
    }

    /// They take in nothing any more.
    pub(super) fn shut(&self) -> io::Result<()> {
        let mut program = [NOTHING];
        let program = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
        self.0.iter().try_for_each(|socket| {
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

    /// They take in everything.
    pub(super) fn open(&self) -> io::Result<()> {
        let nothing: libc::c_int = 0;
        self.0.iter().try_for_each(|socket| {
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

/// Whether a descriptor is a packet socket.
pub(super) fn is_packet_socket(number: RawFd) -> bool {
    bound_to(number).is_some()
}
