//! The time-stamp counter.

/// Cycles of the time-stamp counter since the machine started.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Cycles per second, as DPDK measured them when the environment started.
pub fn hz() -> u64 {
    // SAFETY: reads a variable that is constant once the environment stands.
    unsafe { weft_dpdk_sys::rte_get_tsc_hz() }
}
