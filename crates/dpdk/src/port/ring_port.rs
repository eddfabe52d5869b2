//! Memory rings as ports. `ring:NAME` names a pair of rings, one for each
//! direction, and behaves as a wire: the first opener of the name gets one end,
//! the second opener the other; what is sent while there is no other end
//! is lost. Each end is an Ethernet device of DPDK's `net_ring` driver.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use weft_dpdk_sys as sys;

use super::bus::OPEN;
use crate::eal::Eal;
use crate::error::{self, invalid};
use crate::lock;
use crate::ring::Ring;

/// Queues per direction that the driver can take.
const MOST_QUEUES: u16 = 16;

/// Pairs of which at least one end is open.
static PAIRS: Mutex<Option<HashMap<String, Weak<Pair>>>> = Mutex::new(None);

type Pair = [Side; 2];

/// What leads to one end of a pair. Only the sender, at the other end, looks
/// here for each burst: a line of its own keeps the two ends apart.
#[derive(Debug)]
#[repr(align(128))]
struct Side {
    open: AtomicBool,
    /// Packets that found the queues full since this end was opened.
    missed: AtomicU64,
    queues: Vec<Ring>,
}

/// One end of a pair; the name can be opened again when it is dropped.
#[derive(Debug)]
pub(crate) struct RingEnd {
    pair: Arc<Pair>,
    end: usize,
    /// Packets sent from here that found the other end's queue full.
    missed_by_peer: AtomicU64,
    /// Packets sent from here while there was no other end.
    unconnected: AtomicU64,
}

/// What an end has counted beside its device; packets.
#[derive(Default)]
pub(crate) struct RingCounters {
    pub(crate) missed: u64,
    pub(crate) missed_by_peer: u64,
    pub(crate) unconnected: u64,
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
        if name.is_empty() {
            return Err(invalid("a memory ring has a name, as in ring:north"));
        }
        if queues > MOST_QUEUES {
            return Err(invalid(format!("a memory ring has at most {MOST_QUEUES} queues")));
        }
        let ring = RingEnd::of(pair(eal, name, queues, capacity)?)?;
        let device = ring.make_device()?;
        Ok((ring, device))
    }

    /// The end of `pair` that is free.
    fn of(pair: Arc<Pair>) -> io::Result<RingEnd> {
        let free = pair.iter().position(|side| !side.open.swap(true, Ordering::Acquire));
        let end = free.ok_or_else(|| {
            io::Error::new(io::ErrorKind::AddrInUse, "both ends of this ring are open already")
        })?;
        // What was on its way when this end was closed.
        pair[end].queues.iter().for_each(Ring::drain);
        pair[end].missed.store(0, Ordering::Relaxed);
        Ok(RingEnd { pair, end, missed_by_peer: 0.into(), unconnected: 0.into() })
    }

    fn make_device(&self) -> io::Result<CString> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed).to_string();
        let name = CString::new(serial.as_str())?;
        let pointers = |side: &Side| side.queues.iter().map(Ring::as_ptr).collect::<Vec<_>>();
        let (rx, tx) = (pointers(&self.pair[self.end]), pointers(self.peer()));
        let count = rx.len() as u32;
        let _open = lock(&OPEN);
        // SAFETY: the environment stands; the rings outlive the device, because
        // the port that is made of it holds this end.
        let id = unsafe {
            sys::rte_eth_from_rings(name.as_ptr(), rx.as_ptr(), count, tx.as_ptr(), count, 0)
        };
        if id < 0 {
            return Err(error::last());
        }
        // The driver puts its own name in front.
        Ok(CString::new(format!("net_ring_{serial}"))?)
    }

    fn peer(&self) -> &Side {
        &self.pair[1 - self.end]
    }

    /// Whether the other end is open.
    #[inline]
    pub(crate) fn is_connected(&self) -> bool {
        self.peer().open.load(Ordering::Relaxed)
    }

    pub(crate) fn count_missed_by_peer(&self, count: u64) {
        self.missed_by_peer.fetch_add(count, Ordering::Relaxed);
        self.peer().missed.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count_unconnected(&self, count: u64) {
        self.unconnected.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn counters(&self) -> RingCounters {
        RingCounters {
            missed: self.pair[self.end].missed.load(Ordering::Relaxed),
            missed_by_peer: self.missed_by_peer.load(Ordering::Relaxed),
            unconnected: self.unconnected.load(Ordering::Relaxed),
        }
    }
}

impl Drop for RingEnd {
    fn drop(&mut self) {
        let side = &self.pair[self.end];
        // While the end is still taken, no other end takes packets out.
        side.queues.iter().for_each(Ring::drain);
        side.open.store(false, Ordering::Release);
    }
}

/// The pair `name`, made if no end of it is open.
fn pair(eal: &Eal, name: &str, queues: u16, capacity: u16) -> io::Result<Arc<Pair>> {
    let mut pairs = lock(&PAIRS);
    let pairs = pairs.get_or_insert_default();
    if let Some(pair) = pairs.get(name).and_then(Weak::upgrade) {
        return Ok(pair);
    }
    let side = || {
        let queues = (0..queues.max(1)).map(|_| Ring::create(eal, name, u32::from(capacity)));
        let queues = queues.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        Ok::<_, io::Error>(Side { open: false.into(), missed: 0.into(), queues })
    };
    let pair = Arc::new([side()?, side()?]);
    pairs.retain(|_, pair| pair.strong_count() > 0);
    pairs.insert(name.to_owned(), Arc::downgrade(&pair));
    Ok(pair)
}
