//! TAP devices (`drivers/net/tun.c` of Linux). DPDK opens them so that another process can attach a
//! queue of its own (`IFF_MULTI_QUEUE`), and a program chooses the queue of each packet
//! (`TUNSETSTEERINGEBPF`): each packet comes to one of both processes.
//!
//! The process that was there first has queue 0, the second one queue 1. Once the first has gone,
//! the other queue is the only one, whatever the program says: the kernel takes its answer modulo
//! the number of queues. Before a third process comes, it has to say 0 again.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::{Holder, outcome};
use crate::port::sockets::descriptors;

// linux/if_tun.h
const TUNGETIFF: libc::Ioctl = 0x8004_54d2;
const TUNSETSTEERINGEBPF: libc::Ioctl = 0x8004_54e0;
// linux/bpf.h
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
/// `r0 = 0`; what is put into the upper half is the number in place of 0.
const ANSWER: u64 = 0xb7;
const EXIT: u64 = 0x95;

/// Queues while two processes have the device.
const OF_BOTH: usize = 2;
/// How often a program is loaded: the kernel gives up when a signal comes meanwhile, and one comes
/// with packets.
const ATTEMPTS: usize = 1000;

/// `union bpf_attr` of linux/bpf.h, as far as BPF_PROG_LOAD needs it.
#[repr(C)]
struct Load {
    program_type: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
}

/// A TAP device of which this process has a queue.
#[derive(Debug)]
pub(super) struct Tap {
    /// Copy of a descriptor of the driver: to drop it closes nothing.
    queue: OwnedFd,
    interface: String,
    holder: Holder,
}

impl Tap {
    /// The one whose interface has that name; what comes goes to `holder` once this process opens it.
    ///
    /// # Errors
    /// When this process has no queue of it.
    pub(super) fn of_interface(name: &CStr, holder: Holder) -> io::Result<Tap> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the port's queue is not found");
        let is_its = |number: &RawFd| interface_of(*number).is_some_and(|own| is_named(&own, name));
        let number = descriptors()?.into_iter().find(is_its).ok_or_else(missing)?;
        // SAFETY: the number is that of an open descriptor: it has just answered, and ports are
        // not closed while one of them is looked at.
        let queue = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?;
        Ok(Tap { queue, interface: name.to_string_lossy().into_owned(), holder })
    }

    /// What comes goes to the queue of this process.
    ///
    /// # Errors
    /// What the kernel says, or that a third process has a queue.
    pub(super) fn open(&self) -> io::Result<()> {
        if self.holder == Holder::Second && queues_of(&self.interface).is_some_and(is_of_more) {
            return Err(io::Error::other(format!(
                "a third process has the TAP device {} open",
                self.interface
            )));
        }
        self.steer(self.holder)
    }

    /// What comes goes to the queue of that process.
    ///
    /// # Errors
    /// What the kernel says: a process without CAP_BPF may not load a program.
    pub(super) fn steer(&self, holder: Holder) -> io::Result<()> {
        let program = load(holder)?;
        let number: libc::c_int = program.as_raw_fd();
        // SAFETY: the kernel reads one int, and keeps the program itself.
        let status =
            unsafe { libc::ioctl(self.queue.as_raw_fd(), TUNSETSTEERINGEBPF, &raw const number) };
        outcome(status)
    }

    /// What is in the queue already can be received. The driver looks there only when the kernel
    /// has sent a signal, which may be on its way still.
    pub(super) fn shut(&self) -> io::Result<()> {
        // SAFETY: all octets zero are a valid action, which is only written to.
        let mut known: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: asks what the process does at the signal, and changes nothing.
        let status = unsafe { libc::sigaction(libc::SIGIO, std::ptr::null(), &mut known) };
        if status != 0 || [libc::SIG_DFL, libc::SIG_IGN].contains(&known.sa_sigaction) {
            return Ok(());
        }
        // SAFETY: the driver's own function handles it, in this thread.
        outcome(unsafe { libc::raise(libc::SIGIO) })
    }
}

/// Whether this process may choose the queues of TAP devices.
pub fn may_steer() -> bool {
    load(Holder::First).is_ok()
}

/// Whether a descriptor is a queue of a TAP device, attached or not.
pub(super) fn is_tap_queue(number: RawFd) -> bool {
    interface_of(number).is_some()
}

fn is_of_more(queues: usize) -> bool {
    queues > OF_BOTH
}

/// Queues of an interface through which the kernel sends; none where it does not say.
fn queues_of(interface: &str) -> Option<usize> {
    let all = fs::read_dir(format!("/sys/class/net/{interface}/queues")).ok()?.flatten();
    Some(all.filter(|one| one.file_name().to_string_lossy().starts_with("tx-")).count())
}

/// The interface whose queue a descriptor is.
fn interface_of(number: RawFd) -> Option<libc::ifreq> {
    // SAFETY: all octets zero are a valid request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `ifreq`. Drivers of other descriptors have no such command.
    let status = unsafe { libc::ioctl(number, TUNGETIFF, &raw mut request) };
    (status == 0).then_some(request)
}

fn is_named(request: &libc::ifreq, name: &CStr) -> bool {
    let own = request.ifr_name.iter().map(|octet| *octet as u8).take_while(|octet| *octet != 0);
    own.eq(name.to_bytes().iter().copied())
}

/// A program that answers with the number of a process's queue.
fn load(holder: Holder) -> io::Result<OwnedFd> {
    let queue: u64 = match holder {
        Holder::First => 0,
        Holder::Second => 1,
    };
    let instructions = [ANSWER | queue << 32, EXIT];
    let attributes = Load {
        program_type: BPF_PROG_TYPE_SOCKET_FILTER,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
    };
    let mut refused = io::Error::from(io::ErrorKind::Interrupted);
    for _ in 0..ATTEMPTS {
        // SAFETY: the kernel reads as many octets of `attributes` as are told, two instructions
        // and a C string, all of which outlive the call.
        let number = unsafe {
            libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attributes, size_of::<Load>())
        };
        if number >= 0 {
            // SAFETY: the descriptor has just been opened, and is not used elsewhere.
            return Ok(unsafe { OwnedFd::from_raw_fd(number as RawFd) });
        }
        refused = io::Error::last_os_error();
        if refused.kind() != io::ErrorKind::WouldBlock {
            break;
        }
    }
    Err(refused)
}
