//! Calls of a driver that are led through here. Drivers of DPDK know no way to be told what the
//! kernel should do otherwise. So the entry of the driver's own table of functions is changed while
//! a device is made, and the calls of nothing else go this way.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Mutex;

use crate::lock;

// elf(5), and the x86-64 supplement to the System V ABI for the type of a relocation.
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const PAGE: usize = 4096;

/// Tables are changed by one thread at a time.
static TABLES: Mutex<()> = Mutex::new(());

/// Makes a device, while the calls that its driver (a part of the name of its library) makes of a
/// function come to the one at `to`, which must take the same arguments. Where the driver is not
/// found, it calls what it likes.
pub(in crate::port) fn redirected<T>(
    (library, function): (&[u8], &CStr),
    to: usize,
    make: impl FnOnce() -> T,
) -> T {
    let _turn = lock(&TABLES);
    let Some(entry) = find_entry(library, function) else { return make() };
    let Some(before) = entry.replace(to) else { return make() };
    let made = make();
    entry.replace(before);
    made
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

/// A function that a library calls, and its entry once it is found.
struct Search<'a> {
    library: &'a [u8],
    function: &'a CStr,
    found: Option<Entry>,
}

/// The driver's entry for a function; none where the driver is not loaded as a library.
fn find_entry(library: &[u8], function: &CStr) -> Option<Entry> {
    let mut search = Search { library, function, found: None };
    // SAFETY: `visit` gets what it is made for, and the call ends before `search` does.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader gives a library that stays loaded, and `find_entry` its own variable.
    unsafe {
        let (info, search) = (&*info, &mut *search.cast::<Search<'_>>());
        if info.dlpi_name.is_null() {
            return 0;
        }
        let name = CStr::from_ptr(info.dlpi_name).to_bytes();
        if !name.windows(search.library.len()).any(|part| part == search.library) {
            return 0;
        }
        search.found = entry_of(info, search.function);
    }
    1
}

/// # Safety
/// `info` is of a loaded library.
unsafe fn entry_of(info: &libc::dl_phdr_info, function: &CStr) -> Option<Entry> {
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
                if kind >> 32 != 0 && CStr::from_ptr(name) == function {
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
