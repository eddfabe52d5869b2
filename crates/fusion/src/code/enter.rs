//! Memory for machine code, and the call of it.
//!
//! What the code does is bounded before it is made: [`verify`](crate::verify())
//! admits only accesses to bytes of the packet that were found to be there, to
//! declared fields of contexts whose index was found to be below their number,
//! and to tags. The emitter adds accesses to [`Frame`] and to the header of the
//! packet's buffer, at fixed offsets.

use std::ffi::c_void;
use std::io;
use std::mem::offset_of;
use std::ptr::NonNull;

use weft_dpdk::{Batch, Packet};

use super::{DroppedBy, Punted, Verdicts};
use crate::MAX_FUNCTIONS;

/// What the machine code is given beside packets: it reads the first part and
/// writes the second.
#[repr(C)]
pub(super) struct Frame {
    now: u64,
    capacity: u64,
    contexts: [*mut u8; MAX_FUNCTIONS],
    dropped: u64,
    position: u64,
    function: u64,
    reasons: *mut [DroppedBy; Batch::CAPACITY],
}

pub(super) const NOW: i32 = offset_of!(Frame, now) as i32;
pub(super) const CAPACITY: i32 = offset_of!(Frame, capacity) as i32;
pub(super) const CONTEXTS: i32 = offset_of!(Frame, contexts) as i32;
pub(super) const DROPPED: i32 = offset_of!(Frame, dropped) as i32;
pub(super) const POSITION: i32 = offset_of!(Frame, position) as i32;
pub(super) const FUNCTION: i32 = offset_of!(Frame, function) as i32;
pub(super) const REASONS: i32 = offset_of!(Frame, reasons) as i32;
/// Where a [`DroppedBy`] has its two numbers, and how the code finds the one of a position.
pub(super) const DROPPED_BY_FUNCTION: i32 = offset_of!(DroppedBy, function) as i32;
pub(super) const DROPPED_BY_REASON: i32 = offset_of!(DroppedBy, reason) as i32;
pub(super) const DROPPED_BY_SHIFT: i64 = size_of::<DroppedBy>().ilog2() as i64;
const _: () = assert!(size_of::<DroppedBy>() == 1 << DROPPED_BY_SHIFT);

/// `FUNCTION` when no packet is punted.
pub(super) const NO_FUNCTION: u64 = u64::MAX;

/// Packets, positions, frame; returns the positions that remain.
type Entry = unsafe extern "C" fn(*mut Packet, u64, *mut Frame) -> u64;

/// Machine code in memory of its own, which can be executed and not written.
#[derive(Debug)]
pub(super) struct Text {
    first: NonNull<c_void>,
    length: usize,
}

// SAFETY: the memory is not written any more, and is unmapped once.
unsafe impl Send for Text {}
// SAFETY: as above.
unsafe impl Sync for Text {}

impl Text {
    /// Puts code where it can be executed. The bytes are those of a function of
    /// type [`Entry`] that the emitter made of a verified way.
    pub fn new(bytes: &[u8]) -> io::Result<Text> {
        let length = bytes.len().next_multiple_of(4096).max(4096);
        // SAFETY: new memory, at no particular address.
        let first = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if first == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(first) = NonNull::new(first) else { return Err(io::Error::last_os_error()) };
        let text = Text { first, length };
        // SAFETY: the memory is ours, writable, and at least as long.
        let failed = unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), first.as_ptr().cast(), bytes.len());
            libc::mprotect(first.as_ptr(), length, libc::PROT_READ | libc::PROT_EXEC) != 0
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(text) }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; no thread is inside, as a call borrows the text.
        unsafe { libc::munmap(self.first.as_ptr(), self.length) };
    }
}

/// Calls the code. `selected` names positions of `packets` only, `contexts` has
/// an entry for each function of the way, and `capacity` is a number of contexts
/// that each entry has at least.
#[inline]
pub(super) fn enter(
    text: &Text,
    packets: &mut [Packet],
    contexts: &mut [&mut [u8]],
    (now, capacity): (u64, u64),
    selected: u64,
    verdicts: &mut Verdicts,
) -> Option<Punted> {
    let mut frame = Frame {
        now,
        capacity,
        contexts: [std::ptr::null_mut(); MAX_FUNCTIONS],
        dropped: verdicts.dropped,
        position: 0,
        function: NO_FUNCTION,
        reasons: &raw mut verdicts.reasons,
    };
    for (place, bytes) in frame.contexts.iter_mut().zip(contexts) {
        *place = bytes.as_mut_ptr();
    }
    // SAFETY: `Text` holds a function of this type; packets, contexts, frame and
    // verdicts are borrowed mutably for the time of the call, and what is touched
    // of them is bounded as the head of this file says.
    let remaining = unsafe {
        let entry = std::mem::transmute::<*mut c_void, Entry>(text.first.as_ptr());
        entry(packets.as_mut_ptr(), selected, &raw mut frame)
    };
    verdicts.dropped = frame.dropped;
    (frame.function != NO_FUNCTION).then_some(Punted {
        position: frame.position as usize,
        function: frame.function as usize,
        remaining,
    })
}
