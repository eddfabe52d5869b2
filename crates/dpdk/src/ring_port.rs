//! Memory rings as ports. `ring:NAME` names a pair of rings, one for each
//! direction; whoever opens the name first gets one end, whoever opens it
//! second the other. Each end is an Ethernet device of DPDK's `net_ring` driver.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use weft_dpdk_sys as sys;

use crate::eal::Eal;
use crate::error;
use crate::ring::Ring;

/// Pairs of which at least one end is open.
static PAIRS: Mutex<Option<HashMap<String, Weak<Pair>>>> = Mutex::new(None);

/// Two directions, and what each end has missed because its queue was full.
#[derive(Debug)]
struct Pair {
    /// `towards[end][queue]` leads to that end.
    towards: [Vec<Ring>; 2],
    missed: [AtomicU64; 2],
    taken: Mutex<[bool; 2]>,
}

/// One end of a pair; the name can be opened again when it is dropped.
#[derive(Debug)]
pub(crate) struct RingEnd {
    pair: Arc<Pair>,
    end: usize,
}

impl RingEnd {
    /// Takes an end of the pair `name`, making the pair if there is none, and
    /// makes an Ethernet device of it, whose name on the virtual bus is
    /// returned beside it. The first to open a pair says how many queues it has
    /// and how many packets each holds.
    pub(crate) fn take(
        eal: &Eal,
        name: &str,
        queues: u16,
        capacity: u16,
    ) -> io::Result<(RingEnd, CString)> {
        let mut pairs = lock(&PAIRS);
        let pairs = pairs.get_or_insert_default();
        let pair = match pairs.get(name).and_then(Weak::upgrade) {
            Some(pair) => pair,
            None => {
                let pair = Arc::new(Pair::new(eal, name, queues, capacity)?);
                pairs.retain(|_, pair| pair.strong_count() > 0);
                pairs.insert(name.to_owned(), Arc::downgrade(&pair));
                pair
            }
        };
        let end = {
            let mut taken = lock(&pair.taken);
            let free = taken.iter().position(|taken| !taken).ok_or_else(|| {
                io::Error::new(io::ErrorKind::AddrInUse, "both ends of this ring are open already")
            })?;
            taken[free] = true;
            free
        };
        let ring = RingEnd { pair, end };
        let device = ring.make_device()?;
        Ok((ring, device))
    }

    fn make_device(&self) -> io::Result<CString> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed).to_string();
        let pointers = |rings: &[Ring]| rings.iter().map(|r| r.0.as_ptr()).collect::<Vec<_>>();
        let rx = pointers(&self.pair.towards[self.end]);
        let tx = pointers(&self.pair.towards[1 - self.end]);
        let name = CString::new(serial.as_str())?;
        // SAFETY: the environment stands; the rings outlive the device, because
        // the port that is made of it holds this end.
        let id = unsafe {
            sys::rte_eth_from_rings(
                name.as_ptr(),
                rx.as_ptr(),
                rx.len() as u32,
                tx.as_ptr(),
                tx.len() as u32,
                0,
            )
        };
        if id < 0 {
            return Err(error::last());
        }
        // The driver puts its own name in front.
        Ok(CString::new(format!("net_ring_{serial}"))?)
    }

    /// Packets that found this end's receive queue full.
    pub(crate) fn missed(&self) -> u64 {
        self.pair.missed[self.end].load(Ordering::Relaxed)
    }

    pub(crate) fn count_missed_by_peer(&self, count: u64) {
        self.pair.missed[1 - self.end].fetch_add(count, Ordering::Relaxed);
    }
}

impl Drop for RingEnd {
    fn drop(&mut self) {
        lock(&self.pair.taken)[self.end] = false;
    }
}

impl Pair {
    fn new(eal: &Eal, name: &str, queues: u16, capacity: u16) -> io::Result<Pair> {
        let rings = || {
            (0..queues.max(1))
                .map(|_| Ring::create(eal, name, u32::from(capacity)))
                .collect::<Result<Vec<_>, _>>()
                .map_err(io::Error::other)
        };
        Ok(Pair {
            towards: [rings()?, rings()?],
            missed: Default::default(),
            taken: Mutex::default(),
        })
    }
}

/// What a panicking thread left behind is counters and flags, all valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
