//! DPDK explains a failure only in its log. The log is kept here, its last
//! lines at least, so that an error can carry the explanation in one line.

use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::sync::Mutex;

use weft_dpdk_sys as sys;

const KEPT_LINES: usize = 16;
/// `RTE_LOG_WARNING` of rte_log.h: what is worth keeping.
const LEVEL_WARNING: u32 = 5;

static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

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
    if let Ok(mut lines) = LINES.lock() {
        for line in String::from_utf8_lossy(bytes).lines().filter(|line| !line.trim().is_empty()) {
            if lines.len() == KEPT_LINES {
                lines.pop_front();
            }
            lines.push_back(line.trim().to_owned());
        }
    }
    length as isize
}

/// Forgets what was logged so far, so that [`said`] speaks of one operation.
pub(crate) fn clear() {
    if let Ok(mut lines) = LINES.lock() {
        lines.clear();
    }
}

/// The first line that DPDK logged since [`clear`]: the cause comes first, its
/// consequences after it.
pub(crate) fn said() -> Option<String> {
    LINES.lock().ok().and_then(|lines| lines.front().cloned())
}
