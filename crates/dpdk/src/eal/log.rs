//! DPDK explains a failure only in its log. The log is kept here, its last
//! lines at least, so that an error can carry the explanation in one line.

use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, MutexGuard};

use weft_dpdk_sys as sys;

use crate::lock;

const KEPT_LINES: usize = 16;
/// `RTE_LOG_WARNING` of rte_log.h: what is worth keeping.
const LEVEL_WARNING: u32 = 5;

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
static LISTENING: Mutex<()> = Mutex::new(());

/// Sends DPDK's log here instead of to standard error.
pub(crate) fn capture() {
    // SAFETY: `write` has the signature that the C library calls.
    unsafe {
        sys::weft_log_to(Some(write));
        sys::rte_log_set_global_level(LEVEL_WARNING);
    }
}

unsafe extern "C" fn write(_: *mut c_void, text: *const c_char, length: usize) -> isize {
    // SAFETY: the C library passes its buffer and the buffer's length.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
    let mut lines = lock(&LINES);
    for line in String::from_utf8_lossy(bytes).lines().filter(|line| !line.trim().is_empty()) {
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line.trim().to_owned());
    }
    length as isize
}

/// What DPDK logs about one operation; one operation at a time is listened to.
pub(crate) struct Listener(#[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

/// Forgets what was logged so far and listens from here on.
pub(crate) fn listen() -> Listener {
    let guard = lock(&LISTENING);
    lock(&LINES).clear();
    Listener(guard)
}

impl Listener {
    /// The first line that was logged: the cause comes first, its consequences
    /// after it. The name of the C function that said it is left out.
    pub(crate) fn said(&self) -> Option<String> {
        let lines = lock(&LINES);
        let line = lines.front()?;
        Some(line.split_once("(): ").map_or(line.as_str(), |(_, text)| text).to_owned())
    }
}
