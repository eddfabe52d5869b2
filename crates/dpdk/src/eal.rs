//! DPDK's environment (EAL), started once per process.

use std::ffi::{CStr, CString};
use std::io;
use std::marker::PhantomData;
use std::sync::{Mutex, OnceLock};
use std::{fs, thread};

use weft_dpdk_sys as sys;

use crate::error::{Error, Result};
use crate::lock;

mod huge_pages;
pub(crate) mod log;
mod truncation;

/// Held while pools and devices come and go, and while a thread that leaves walks all of
/// them: DPDK itself does not keep a pool from being freed under the walk.
pub(crate) static LISTED: Mutex<()> = Mutex::new(());

/// How to start the environment.
#[derive(Clone, Debug)]
pub struct EalOptions {
    /// Megabytes for all pools and rings. Huge pages are taken at once, small
    /// ones as pools are made.
    pub memory_megabytes: u32,
    /// PCI devices to look at, by address (`0000:03:00.0`). The bus is left
    /// alone when there is none.
    pub pci: Vec<String>,
    /// Take huge pages when enough of them are free.
    pub huge_pages: bool,
}

impl Default for EalOptions {
    fn default() -> Self {
        EalOptions { memory_megabytes: 256, pci: Vec::new(), huge_pages: true }
    }
}

/// Proof that the environment stands. It lives as long as the process.
#[derive(Debug)]
pub struct Eal {
    huge_pages: bool,
}

/// Memory that pools, rings and devices are made of, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub total_bytes: usize,
    /// What nothing uses.
    pub free_bytes: usize,
}

static EAL: OnceLock<Eal> = OnceLock::new();
static STARTING: Mutex<()> = Mutex::new(());

impl Eal {
    /// Starts the environment, or returns the one that stands already; the
    /// options of later calls are not looked at.
    ///
    /// # Errors
    /// [`Error::Start`] with what DPDK said, for example when the memory asked
    /// for is not there.
    pub fn start(options: &EalOptions) -> Result<&'static Eal> {
        let _one_at_a_time = lock(&STARTING);
        if let Some(eal) = EAL.get() {
            return Ok(eal);
        }
        let turn = huge_pages::Turn::wait();
        let huge_pages = options.huge_pages && huge_pages::are_enough(options.memory_megabytes);
        let arguments = arguments(options, huge_pages);
        let log = log::listen();
        // Initialisation binds its thread to one core, so it gets one of its own.
        thread::spawn(move || initialise(&arguments))
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("initialisation panicked")))
            .map_err(|reason| Error::Start { reason, log: log.said() })?;
        drop(turn);
        Ok(EAL.get_or_init(|| Eal { huge_pages }))
    }

    /// The environment, if it stands.
    pub fn standing() -> Option<&'static Eal> {
        EAL.get()
    }

    /// Whether the pools lie in huge pages.
    pub fn has_huge_pages(&self) -> bool {
        self.huge_pages
    }

    /// How much memory the environment has, on all sockets of the machine.
    pub fn memory(&self) -> Memory {
        let mut memory = Memory { total_bytes: 0, free_bytes: 0 };
        // SAFETY: the environment stands; `stats` is writable, and stays zero
        // for a socket that has no memory.
        unsafe {
            for index in 0..sys::rte_socket_count() {
                let mut stats = sys::rte_malloc_socket_stats::default();
                let socket = sys::rte_socket_id_by_idx(index);
                sys::rte_malloc_get_socket_stats(socket, &mut stats);
                memory.total_bytes += stats.heap_totalsz_bytes;
                memory.free_bytes += stats.heap_freesz_bytes;
            }
        }
        memory
    }

    /// Version of the DPDK that is linked, such as `DPDK 22.11.11`.
    pub fn version(&self) -> String {
        // SAFETY: returns a static C string.
        unsafe { CStr::from_ptr(sys::rte_version()) }.to_string_lossy().into_owned()
    }

    /// Makes the calling thread known to DPDK, so that pools give it a cache of
    /// its own. When the registration is dropped the thread is forgotten, and
    /// what it had cached is free for all. A second registration of a thread
    /// does nothing.
    pub fn register_thread(&self) -> Registration {
        // SAFETY: the environment stands.
        let registered = unsafe { sys::weft_thread_register() } == 0;
        Registration { registered, _stays_on_its_thread: PhantomData }
    }
}

/// A thread known to DPDK; see [`Eal::register_thread`].
#[derive(Debug)]
pub struct Registration {
    registered: bool,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.registered {
            let _listed = lock(&LISTED);
            // SAFETY: this thread registered itself and is not an EAL thread.
            unsafe { sys::weft_thread_unregister() };
        }
    }
}

/// The cores that this process may use, such as `0-3,8`.
fn allowed_cores() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or("0", str::trim).to_owned()
}

fn arguments(options: &EalOptions, has_huge_pages: bool) -> Vec<CString> {
    let memory = options.memory_megabytes.to_string();
    // One lcore that may run wherever we may: workers are our own threads.
    let lcore = format!("0@({})", allowed_cores());
    let limit = huge_pages::limit(options.memory_megabytes);
    let mut words = vec!["weft", "--no-telemetry", "--log-level=warning"];
    words.extend(["-m", &memory, "--lcores", &lcore]);
    words.extend(match has_huge_pages {
        true => vec!["--in-memory", "--single-file-segments", "--socket-limit", &limit],
        false => vec!["--no-huge", "--no-shconf"],
    });
    if options.pci.is_empty() {
        words.push("--no-pci");
    }
    words.extend(options.pci.iter().flat_map(|address| ["-a", address]));
    words.into_iter().map(|word| CString::new(word).unwrap_or_default()).collect()
}

fn initialise(arguments: &[CString]) -> io::Result<()> {
    log::capture();
    let mut pointers: Vec<_> = arguments.iter().map(|text| text.as_ptr().cast_mut()).collect();
    // SAFETY: the strings outlive the call, and DPDK keeps copies of its own.
    let status = unsafe { sys::rte_eal_init(pointers.len() as i32, pointers.as_mut_ptr()) };
    if status < 0 {
        return Err(crate::error::last());
    }
    // SAFETY: the libraries that it speaks to were loaded with DPDK.
    unsafe { sys::weft_quiet_xdp() };
    Ok(())
}

/// Binds the calling thread to one processor core.
///
/// # Errors
/// When there is no such core, or the process may not use it.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of zero bytes is the empty set; CPU_SET is within its
    // bounds, and the call reads `size` bytes of it.
    let status = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if core >= size * 8 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size, &set)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets the calling thread, and those that it starts from now on, run on every core that it may
/// use but `core`, until the answer is dropped.
///
/// # Errors
/// When the calling thread may use no other core.
pub fn keep_off_core(core: usize) -> io::Result<KeptOff> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of zero bytes is the empty set; the calls read and write `size` bytes of
    // it, and CPU_CLR is within its bounds.
    unsafe {
        let mut before: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size, &mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut others = before;
        if core < size * 8 {
            libc::CPU_CLR(core, &mut others);
        }
        match libc::sched_setaffinity(0, size, &others) {
            0 => Ok(KeptOff { before, _stays_on_its_thread: PhantomData }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A thread that is kept off a core; see [`keep_off_core`].
pub struct KeptOff {
    before: libc::cpu_set_t,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for KeptOff {
    fn drop(&mut self) {
        // SAFETY: the call reads a set that the kernel has written. The thread stays where it
        // is if it is refused.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.before) };
    }
}
