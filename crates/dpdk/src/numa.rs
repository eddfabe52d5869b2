//! Sockets of the machine (NUMA nodes): where cores are, and memory near them.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use weft_dpdk_sys as sys;

/// `MPOL_DEFAULT` and `MPOL_PREFERRED` of `set_mempolicy(2)`.
const DEFAULT: libc::c_long = 0;
const PREFERRED: libc::c_long = 1;
/// Sockets that a preference can name.
const MOST: u32 = u64::BITS;

thread_local! {
    static NEAR: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The socket that a core is at; none on a machine that has one.
pub fn socket_of_core(core: usize) -> Option<u32> {
    socket_in(Path::new("/sys/devices/system"), core)
}

/// The socket that a PCI device is at (`0000:03:00.0`); none where the kernel does not say, or
/// the machine has one.
pub fn socket_of_pci(address: &str) -> Option<u32> {
    let domain = if address.matches(':').count() == 1 { "0000:" } else { "" };
    let file = format!("/sys/bus/pci/devices/{domain}{}/numa_node", address.to_lowercase());
    // -1 is none.
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn socket_in(system: &Path, core: usize) -> Option<u32> {
    // A machine of one socket has nothing to choose.
    let known = |folder: &Path, prefix: &str| -> Vec<u32> {
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect()
    };
    if known(&system.join("node"), "node").len() < 2 {
        return None;
    }
    known(&system.join(format!("cpu/cpu{core}")), "node").first().copied()
}

/// The socket where memory for all of a node is best: where most of what uses it is, each once
/// for each time that it is named; of equals the lowest. None where nothing says where it is.
pub fn common_socket(users: impl IntoIterator<Item = Option<u32>>) -> Option<u32> {
    let mut counts = std::collections::BTreeMap::new();
    for socket in users.into_iter().flatten() {
        *counts.entry(socket).or_insert(0_usize) += 1;
    }
    // The last of equals is the greatest for `max_by_key`.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(socket, _)| socket)
}

/// While it lives, pools, rings and all other memory that this thread asks for lie at a socket,
/// as far as there is room.
#[derive(Debug)]
pub struct Near {
    before: Option<u32>,
}

impl Near {
    /// At this socket; anywhere without one.
    pub fn socket(socket: Option<u32>) -> Near {
        let socket = socket.filter(|socket| *socket < MOST);
        Near { before: prefer(socket) }
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        prefer(self.before);
    }
}

/// What pages that are touched first by this thread prefer from now on; returns what they did.
fn prefer(socket: Option<u32>) -> Option<u32> {
    let before = NEAR.replace(socket);
    if before != socket {
        let mask = socket.map_or(0, |socket| 1_u64 << socket);
        let mode = if socket.is_some() { PREFERRED } else { DEFAULT };
        // SAFETY: the kernel reads 64 bits of `mask`. It is a preference: a refusal, as in
        // some containers, costs time and no more.
        unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, &raw const mask, u64::BITS + 1) };
    }
    before
}

/// The socket that DPDK is to take memory from.
pub(crate) fn socket() -> i32 {
    // SAFETY: says where this thread is, or -1 for anywhere.
    NEAR.get().map_or_else(|| unsafe { sys::rte_socket_id() as i32 }, |socket| socket as i32)
}

/// `make` with that socket, and from anywhere where there is no room at it.
pub(crate) fn near_or_anywhere<T>(mut make: impl FnMut(i32) -> *mut T) -> *mut T {
    let at = socket();
    let made = make(at);
    if made.is_null() && at >= 0 { make(-1) } else { made }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lies_where_most_users_are() {
        assert_eq!(common_socket([]), None);
        assert_eq!(common_socket([None, None]), None);
        assert_eq!(common_socket([Some(1), None, Some(0), Some(1)]), Some(1));
        assert_eq!(common_socket([Some(1), Some(0)]), Some(0), "of equals the lowest");
    }

    #[test]
    fn cores_of_a_machine_of_two_sockets_are_told_apart() {
        let system = std::env::temp_dir().join(format!("weft-numa-{}", std::process::id()));
        for folder in ["node/node0", "cpu/cpu0/node0", "cpu/cpu3/node1"] {
            fs::create_dir_all(system.join(folder)).unwrap();
        }
        assert_eq!(socket_in(&system, 3), None, "there is one socket");
        fs::create_dir_all(system.join("node/node1")).unwrap();
        assert_eq!(socket_in(&system, 0), Some(0));
        assert_eq!(socket_in(&system, 3), Some(1));
        assert_eq!(socket_in(&system, 9), None, "no such core");
        fs::remove_dir_all(system).unwrap();
    }

    #[test]
    fn a_preference_ends_and_the_one_before_holds_again() {
        let policy = || NEAR.get();
        {
            let _outer = Near::socket(Some(0));
            assert_eq!((policy(), socket()), (Some(0), 0));
            {
                let _inner = Near::socket(Some(MOST));
                assert_eq!(policy(), None, "no such socket can be named");
            }
            assert_eq!(policy(), Some(0));
        }
        assert_eq!(policy(), None);
    }

    #[test]
    fn without_room_at_a_socket_memory_is_taken_from_anywhere() {
        let _near = Near::socket(Some(7));
        let mut asked = Vec::new();
        let mut place = 5_u8;
        let made = near_or_anywhere(|socket| {
            asked.push(socket);
            if socket < 0 { &raw mut place } else { std::ptr::null_mut() }
        });
        assert!(!made.is_null());
        assert_eq!(asked, [7, -1]);
    }
}
