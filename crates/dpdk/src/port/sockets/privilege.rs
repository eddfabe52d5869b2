//! What this thread may do, as the kernel says, to explain a refusal.

use std::fs;

// capabilities(7)
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_NET_RAW: u64 = 1 << 13;
const CAP_IPC_LOCK: u64 = 1 << 14;

/// Whether this thread may open raw sockets and change interfaces.
pub(crate) fn may_use_interfaces() -> bool {
    has(CAP_NET_ADMIN | CAP_NET_RAW)
}

/// Whether this process may lock `bytes` of memory.
pub(crate) fn may_lock(bytes: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } == 0;
    !known || limit.rlim_cur >= bytes || has(CAP_IPC_LOCK)
}

/// Whether this thread has all of `capabilities`; what the kernel does not say
/// is not known to be missing.
fn has(capabilities: u64) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    effective.is_none_or(|set| set & capabilities == capabilities)
}
