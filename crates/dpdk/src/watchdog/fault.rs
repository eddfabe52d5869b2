//! Memory faults: a line that names the function, and then what would have come anyway.

use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;
use std::{io, mem};

use super::running;

/// Signals of a thread that did what the processor refuses.
const SIGNALS: [(c_int, &str); 4] = [
    (libc::SIGSEGV, "SIGSEGV, a memory fault"),
    (libc::SIGBUS, "SIGBUS, a memory fault"),
    (libc::SIGILL, "SIGILL, an illegal instruction"),
    (libc::SIGFPE, "SIGFPE, an arithmetic fault"),
];

/// What handled each signal before.
static BEFORE: [OnceLock<libc::sigaction>; SIGNALS.len()] =
    [const { OnceLock::new() }; SIGNALS.len()];

/// Has a fault in a function leave a line on standard error that names it and its thread.
/// The process ends by the signal afterwards, as it would have. A second call does nothing.
///
/// # Errors
/// When the system refuses a handler.
pub fn catch_faults() -> io::Result<()> {
    for ((signal, _), before) in SIGNALS.iter().zip(&BEFORE) {
        if before.get().is_some() {
            continue;
        }
        // SAFETY: zero bytes are a valid `sigaction`, both pointers are to one, and `name`
        // has the type that SA_SIGINFO asks for. The previous handler is stored before
        // ours is set, since a fault may come at once.
        unsafe {
            let mut previous: libc::sigaction = mem::zeroed();
            if libc::sigaction(*signal, ptr::null(), &mut previous) != 0 {
                return Err(io::Error::last_os_error());
            }
            let _ = before.set(previous);
            let mut action: libc::sigaction = mem::zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) = name;
            action.sa_sigaction = handler as usize;
            // A stack that has overflown is left for the one that the thread has for this.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            if libc::sigaction(*signal, &action, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// Says what happened, by means that a signal handler may use (signal-safety(7)), and gives
/// the signal back to what handled it before: the fault comes again as this returns.
extern "C" fn name(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: `errno` is the thread's own.
    let saved = unsafe { *libc::__errno_location() };
    let at = SIGNALS.iter().position(|(number, _)| *number == signal);
    let mut line = Line { octets: [0; 256], length: 0 };
    line.add("weft: ");
    line.add(at.map_or("a signal", |at| SIGNALS[at].1));
    // SAFETY: the kernel gives a valid `siginfo_t` to a handler with SA_SIGINFO.
    let (address, is_sent) = unsafe { ((*info).si_addr() as usize, (*info).si_code <= 0) };
    if is_sent {
        line.add(" sent by a process");
    } else {
        line.add(" at address 0x");
        line.add_hexadecimal(address);
    }
    let mut thread = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 octets.
    unsafe { libc::prctl(libc::PR_GET_NAME, thread.as_mut_ptr()) };
    line.add(", in the thread ");
    line.add_octets(thread.split(|octet| *octet == 0).next().unwrap_or_default());
    if let Some(function) = running() {
        line.add(", in the function `");
        line.add(function);
        line.add("`");
    }
    line.add(": the process ends\n");
    // SAFETY: the octets are initialised, and write(2) may fail.
    unsafe { libc::write(libc::STDERR_FILENO, line.octets.as_ptr().cast(), line.length) };
    // A signal that was sent does not come again by itself, so a handler that waits for it to
    // come again would let the process go on.
    let before = at.and_then(|at| BEFORE[at].get()).filter(|_| !is_sent);
    // SAFETY: what was the handler before is a valid one; the default is.
    unsafe {
        match before {
            Some(before) => libc::sigaction(signal, before, ptr::null_mut()),
            None => {
                libc::signal(signal, libc::SIG_DFL);
                0
            }
        };
        if is_sent {
            libc::raise(signal);
        }
        *libc::__errno_location() = saved;
    }
}

/// A line made without memory of the heap.
struct Line {
    octets: [u8; 256],
    length: usize,
}

impl Line {
    fn add(&mut self, text: &str) {
        self.add_octets(text.as_bytes());
    }

    fn add_octets(&mut self, octets: &[u8]) {
        for octet in octets {
            // The last octet is left for the end of the line.
            if self.length < self.octets.len() - 1 || *octet == b'\n' {
                let at = self.length.min(self.octets.len() - 1);
                self.octets[at] = *octet;
                self.length = at + 1;
            }
        }
    }

    fn add_hexadecimal(&mut self, number: usize) {
        let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            self.add_octets(&[b"0123456789abcdef"[(number >> (4 * digit)) & 15]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_and_still_ends() {
        let mut line = Line { octets: [0; 256], length: 0 };
        line.add_hexadecimal(0);
        line.add_hexadecimal(0xdead_0010);
        assert_eq!(&line.octets[..line.length], b"0dead0010");
        line.add(&"x".repeat(300));
        line.add("\n");
        assert_eq!((line.length, line.octets[255]), (256, b'\n'));
    }
}
