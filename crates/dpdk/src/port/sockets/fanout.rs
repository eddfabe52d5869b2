//! The AF_PACKET driver of DPDK lets the kernel spread packets over its sockets by a hash, and
//! put fragments together before that, which come longer than a buffer then. A socket cannot
//! change either once it has joined the others (`PACKET_FANOUT`, packet(7)). So the call by
//! which it joins is led through here: fragments stay what they are, and a program chooses the
//! socket where that is asked for. The entry of the driver's own table of functions is changed
//! while a device is made, and the calls of nothing else go this way.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;

use crate::lock;

const DRIVER: &[u8] = b"librte_net_af_packet.so";

// elf(5), and the x86-64 supplement to the System V ABI for the type of a relocation.
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const PAGE: usize = 4096;

/// How the sockets of one device join each other.
#[derive(Clone, Copy)]
struct Joining {
    by_program: bool,
    /// Sockets that have.
    joined: usize,
}

thread_local! {
    /// Of the device that this thread makes.
    static JOINING: Cell<Option<Joining>> = const { Cell::new(None) };
}

/// The driver's table is changed by one thread at a time.
static TABLE: Mutex<()> = Mutex::new(());

/// Makes a device; the AF_PACKET sockets that this thread's driver makes for it join each other
/// by the kernel's hash, or else by a program, which is to be given to one of them. Returns how
/// many did: none where the driver is not found, so that it does as it likes.
pub(in crate::port) fn joining<T>(by_program: bool, make: impl FnOnce() -> T) -> (T, usize) {
    let _turn = lock(&TABLE);
    let Some(entry) = find_entry() else { return (make(), 0) };
    let Some(before) = entry.replace(join as *const () as usize) else { return (make(), 0) };
    JOINING.set(Some(Joining { by_program, joined: 0 }));
    let made = make();
    let joined = JOINING.take().map_or(0, |joining| joining.joined);
    entry.replace(before);
    (made, joined)
}

/// What sockets ask for that the driver lets join each other as `asked`: the group in the lower
/// half; above it the way, and flags (packet(7)).
fn own_way(asked: u32, by_program: bool) -> u32 {
    let way = match by_program {
        true => libc::PACKET_FANOUT_CBPF << 16,
        false => asked & 0x00ff_0000,
    };
    asked & 0xff00_ffff & !(libc::PACKET_FANOUT_FLAG_DEFRAG << 16) | way
}

/// As setsockopt(2); what joins sockets joins them in our own way.
unsafe extern "C" fn join(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    let is_join = level == libc::SOL_PACKET && name == libc::PACKET_FANOUT && length == 4;
    if let Some(joining) = JOINING.get().filter(|_| is_join) {
        // SAFETY: the caller gives four octets.
        let asked = unsafe { value.cast::<u32>().read_unaligned() };
        let own = own_way(asked, joining.by_program);
        // SAFETY: four octets are read.
        let status =
            unsafe { libc::setsockopt(socket, level, name, (&raw const own).cast(), length) };
        let joined = joining.joined + usize::from(status == 0);
        JOINING.set(Some(Joining { joined, ..joining }));
        return status;
    }
    // SAFETY: as the caller promises.
    unsafe { libc::setsockopt(socket, level, name, value, length) }
}

/// The place of one function in the table of a library.
#[derive(Clone, Copy)]
struct Entry {
    at: usize,
    /// Whether the loader has made the table read-only (`PT_GNU_RELRO`).
    is_read_only: bool,
}

impl Entry {
    /// Puts another function there; returns the one before. None where the kernel refuses to
    /// make the table writable. One that was read-only is so again behind it.
    fn replace(self, function: usize) -> Option<usize> {
        let page = (self.at & !(PAGE - 1)) as *mut c_void;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the entry lies in a loaded library's table of addresses, which is data; it is
        // aligned and lies in one page. Readers see the old or the new address.
        unsafe {
            if libc::mprotect(page, PAGE, access) != 0 {
                return None;
            }
            let entry = &*(self.at as *const std::sync::atomic::AtomicUsize);
            let before = entry.swap(function, std::sync::atomic::Ordering::SeqCst);
            if self.is_read_only {
                libc::mprotect(page, PAGE, libc::PROT_READ);
            }
            Some(before)
        }
    }
}

/// The driver's entry for setsockopt(2); none where the driver is not loaded as a library.
fn find_entry() -> Option<Entry> {
    let mut found = None;
    // SAFETY: `visit` gets what it is made for, and the call ends before `found` does.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader gives a library that stays loaded, and `find_entry` its own variable.
    unsafe {
        let (info, found) = (&*info, &mut *found.cast::<Option<Entry>>());
        if info.dlpi_name.is_null() {
            return 0;
        }
        let name = CStr::from_ptr(info.dlpi_name).to_bytes();
        if !name.windows(DRIVER.len()).any(|part| part == DRIVER) {
            return 0;
        }
        *found = entry_of(info);
    }
    1
}

/// # Safety
/// `info` is of a loaded library.
unsafe fn entry_of(info: &libc::dl_phdr_info) -> Option<Entry> {
    let base = info.dlpi_addr as usize;
    // SAFETY: as the caller promises; the loader has put addresses into the dynamic section,
    // and its tables are as long as it says (elf(5)).
    unsafe {
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let mut at = (base + dynamic.p_vaddr as usize) as *const [i64; 2];
        let mut value = [0_usize; 24];
        while (*at)[0] != 0 {
            let [tag, what] = *at;
            if let Some(value) = usize::try_from(tag).ok().and_then(|tag| value.get_mut(tag)) {
                *value = what as usize;
            }
            at = at.add(1);
        }
        let of = |tag: i64| value[tag as usize];
        for (table, size) in [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)] {
            let relocations = of(table) as *const [u64; 3];
            for number in 0..of(size) / size_of::<[u64; 3]>() {
                let [offset, kind, _] = *relocations.add(number);
                let symbol = (of(DT_SYMTAB) as *const libc::Elf64_Sym).add((kind >> 32) as usize);
                let name = (of(DT_STRTAB) as *const c_char).add((*symbol).st_name as usize);
                if kind >> 32 != 0 && CStr::from_ptr(name) == c"setsockopt" {
                    let at = base + offset as usize;
                    return Some(Entry { at, is_read_only: is_read_only(headers, base, at) });
                }
            }
        }
    }
    None
}

/// Whether the loader has taken the right to write away from the whole page of an address.
fn is_read_only(headers: &[libc::Elf64_Phdr], base: usize, at: usize) -> bool {
    let page = at & !(PAGE - 1);
    let relro = headers.iter().filter(|header| header.p_type == libc::PT_GNU_RELRO);
    relro
        .map(|header| {
            base + header.p_vaddr as usize..base + (header.p_vaddr + header.p_memsz) as usize
        })
        .any(|range| (range.start & !(PAGE - 1)..range.end & !(PAGE - 1)).contains(&page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_stay_what_they_are_whatever_chooses_the_socket() {
        let flags = libc::PACKET_FANOUT_FLAG_ROLLOVER << 16;
        let hash = libc::PACKET_FANOUT_HASH << 16 | flags | 0x1234;
        let asked = hash | libc::PACKET_FANOUT_FLAG_DEFRAG << 16;
        assert_eq!(own_way(asked, false), hash);
        assert_eq!(own_way(asked, true), libc::PACKET_FANOUT_CBPF << 16 | flags | 0x1234);
    }
}
