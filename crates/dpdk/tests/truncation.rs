//! FAULTS 54: a function process takes back memory that a ring lies in, of pages of either
//! size. Without containment this program would end with SIGBUS.
#![allow(unsafe_code, reason = "mappings that are accessed once they are gone")]

#[path = "it/common/mod.rs"]
mod common;

use std::ptr::null_mut;

use common::eal;

/// Maps a file of two pages of this size, truncates it and touches both; whether there was
/// such memory.
fn touches_what_is_gone(flags: libc::c_uint, size: usize) -> bool {
    let length = 2 * size;
    // SAFETY: the mapping is this function's own, within its bounds, and touched through a
    // raw pointer only.
    unsafe {
        let file = libc::memfd_create(c"ring".as_ptr(), flags);
        assert!(file >= 0 && libc::ftruncate(file, length as libc::off_t) == 0);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let place = libc::mmap(null_mut(), length, protection, libc::MAP_SHARED, file, 0);
        if place == libc::MAP_FAILED {
            libc::close(file);
            return false;
        }
        let octets = place.cast::<u8>();
        octets.write_volatile(7);
        assert_eq!(libc::ftruncate(file, 0), 0);
        for at in [0, size - 1, size + 100] {
            assert_eq!(octets.add(at).read_volatile(), 0, "an empty page");
            octets.add(at).write_volatile(1);
        }
        libc::munmap(place, length);
        libc::close(file);
    }
    true
}

#[test]
fn fault_54_truncated_memory() {
    let eal = eal();
    eal.contain_truncation().unwrap();
    let before = eal.truncated_pages();
    assert!(touches_what_is_gone(0, 4096));
    assert_eq!(eal.truncated_pages(), before + 2);
}

/// Needs two free huge pages of 2 MiB (`vm.nr_hugepages`), and says so where there are none.
#[test]
fn fault_54_truncated_memory_of_huge_pages() {
    eal().contain_truncation().unwrap();
    if !touches_what_is_gone(libc::MFD_HUGETLB | libc::MFD_HUGE_2MB, 2 << 20) {
        eprintln!("skipped: no huge pages");
    }
}
