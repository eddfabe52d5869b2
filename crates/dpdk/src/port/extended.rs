//! What a driver counts beyond what all drivers count, by its own names
//! (`rte_eth_xstats`).

use std::ffi::CStr;

use weft_dpdk_sys as sys;

use super::Port;

/// Counters that one driver may have; what stands behind them is left out. The largest
/// drivers of DPDK 22.11 have some hundreds, and some more for each queue.
const MOST: usize = 4096;

impl Port {
    /// What the driver counts, by its own names, in its own order. NICs may take
    /// milliseconds to answer. Empty for a driver that counts nothing.
    pub fn extended_statistics(&self) -> Vec<(String, u64)> {
        let device = self.open.device.id;
        // SAFETY: the port exists; without room the number is told.
        let count = unsafe { sys::rte_eth_xstats_get_names(device, std::ptr::null_mut(), 0) };
        let count = usize::try_from(count).unwrap_or(0);
        let mut names = vec![sys::rte_eth_xstat_name::default(); count];
        let mut values = vec![sys::rte_eth_xstat::default(); count];
        // SAFETY: as above; there is room for `count` names and values.
        let (named, valued) = unsafe {
            (
                sys::rte_eth_xstats_get_names(device, names.as_mut_ptr(), count as u32),
                sys::rte_eth_xstats_get(device, values.as_mut_ptr(), count as u32),
            )
        };
        // A number above what there is room for means that nothing was written.
        let written = |status: i32| usize::try_from(status).ok().filter(|&n| n <= count);
        names.truncate(written(named).unwrap_or(0));
        values.truncate(written(valued).unwrap_or(0));
        let own = values.iter().filter_map(|value| {
            let name = names.get(usize::try_from(value.id).ok()?)?;
            Some((text(&name.name), value.value))
        });
        own.take(MOST).collect()
    }
}

/// A name of fixed room, up to its end.
fn text(room: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = room.iter().map(|&c| c as u8).collect();
    let name = CStr::from_bytes_until_nul(&bytes);
    name.map(CStr::to_string_lossy).unwrap_or_default().into_owned()
}
