//! The forwarding information base: the tables of both families, their next hops,
//! and the thread that keeps them as a file says. All workers share one.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU16, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::table::{Full, Table, Writer};
use super::text::{RouteKind, Routes};
use crate::common::file_version::FileVersion;
use crate::common::prefix::Prefix;

/// What a prefix's value says. Others are next hops, or sets of them.
pub const NO_ROUTE: u32 = 0;
pub const BLACKHOLE: u32 = 1;
pub const UNREACHABLE: u32 = 2;
pub const PROHIBIT: u32 = 3;
/// The value of next hop 0.
pub const FIRST_HOP: u32 = 4;
/// The value of set 0.
pub const FIRST_SET: u32 = 1 << 22;

/// Buckets of a set: a flow's hash chooses one (RFC 2992).
pub const BUCKETS: usize = 64;
/// Sets of a chunk, and chunks at most.
const SETS: usize = 1024;
const CHUNKS: usize = 1024;

/// How often a file is looked at.
const PAUSE: Duration = Duration::from_millis(1000);

/// Next hops of equal cost, as buckets that hold numbers of next hops.
#[derive(Debug)]
struct Sets(Box<[OnceLock<Box<[AtomicU16]>>]>);

impl Sets {
    #[inline]
    fn bucket(&self, set: u32, bucket: usize) -> Option<&AtomicU16> {
        let set = set as usize;
        let chunk = self.0.get(set / SETS)?.get()?;
        chunk.get(set % SETS * BUCKETS + bucket % BUCKETS)
    }
}

/// Routes and what became of them, for all workers.
#[derive(Debug)]
pub struct Fib {
    pub ipv4: Table,
    pub ipv6: OnceLock<Table>,
    sets: Sets,
    records: Mutex<RouteRecords>,
    /// Routes in the tables.
    pub routes: AtomicU64,
    /// How often routes were changed while the node ran, and could not be.
    pub reloads: AtomicU64,
    pub refused: AtomicU64,
}

/// What only changes of routes need to know.
#[derive(Debug, Default)]
struct RouteRecords {
    routes: HashMap<Prefix, (RouteKind, u32)>,
    ipv4: Writer,
    ipv6: Writer,
    /// Sets in use: number, and how many prefixes have it.
    sets: HashMap<Vec<(u16, u16)>, (u32, u32)>,
    free: Vec<u32>,
    resting: Vec<u32>,
    made: u32,
}

impl Fib {
    /// The routes, in tables.
    ///
    /// # Errors
    /// [`Full`] when they do not fit.
    pub fn new(routes: Routes) -> Result<Fib, Full> {
        let ipv4 = routes.keys().filter(|prefix| prefix.is_ipv4()).count();
        let fib = Fib {
            ipv4: Table::new(ipv4),
            ipv6: OnceLock::new(),
            sets: Sets((0..CHUNKS).map(|_| OnceLock::new()).collect()),
            records: Mutex::default(),
            routes: AtomicU64::new(0),
            reloads: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        fib.change(routes)?;
        Ok(fib)
    }

    /// The next hop of a set for a flow.
    #[inline]
    pub fn member(&self, value: u32, hash: u64) -> Option<u16> {
        // The highest bits of a product are its best.
        let bucket = (hash >> 58) as usize;
        Some(self.sets.bucket(value - FIRST_SET, bucket)?.load(Relaxed))
    }

    /// Memory of the tables, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let ipv6 = self.ipv6.get().map_or(0, Table::memory_bytes);
        (self.ipv4.memory_bytes() + ipv6) as u64
    }

    /// Makes the tables say what `routes` says, prefix by prefix: a reader
    /// meanwhile finds the route of an address from before or from now.
    ///
    /// # Errors
    /// [`Full`]; some of the changes are made then.
    pub fn change(&self, mut routes: Routes) -> Result<(), Full> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.begin();
        let gone: Vec<_> =
            records.routes.keys().filter(|prefix| !routes.contains_key(prefix)).copied().collect();
        for prefix in gone {
            records.remove(self, prefix);
        }
        let ipv6 = routes.keys().filter(|prefix| !prefix.is_ipv4()).count();
        if ipv6 > 0 {
            self.ipv6.get_or_init(|| Table::new(ipv6));
        }
        routes.retain(|prefix, target| {
            records.routes.get(prefix).is_none_or(|(known, _)| known != target)
        });
        // A change that leaves addresses without a route for a moment would drop
        // packets: the shorter prefixes come first.
        let mut routes: Vec<_> = routes.into_iter().collect();
        routes.sort_unstable_by_key(|(prefix, _)| prefix.length());
        let done = routes.into_iter().try_for_each(|(prefix, to)| records.insert(self, prefix, to));
        self.routes.store(records.routes.len() as u64, Relaxed);
        done
    }
}

impl RouteRecords {
    fn begin(&mut self) {
        self.ipv4.begin();
        self.ipv6.begin();
        self.free.append(&mut self.resting);
    }

    fn insert(&mut self, fib: &Fib, prefix: Prefix, target: RouteKind) -> Result<(), Full> {
        let value = match &target {
            RouteKind::Blackhole => BLACKHOLE,
            RouteKind::Unreachable => UNREACHABLE,
            RouteKind::Prohibit => PROHIBIT,
            RouteKind::Throw => NO_ROUTE,
            RouteKind::Hops(hops) => match hops[..] {
                [(hop, _)] => FIRST_HOP + u32::from(hop),
                _ => FIRST_SET + self.set(fib, hops)?,
            },
        };
        let length = prefix.length();
        if let Some(bits) = prefix.v4() {
            self.ipv4.insert(&fib.ipv4, bits.first(), length, value)?;
        } else if let (Some(bits), Some(table)) = (prefix.v6(), fib.ipv6.get()) {
            self.ipv6.insert(table, bits.first(), length, value)?;
        }
        if let Some((before, _)) = self.routes.insert(prefix, (target, value)) {
            self.leave(&before);
        }
        Ok(())
    }

    fn remove(&mut self, fib: &Fib, prefix: Prefix) {
        let Some((target, _)) = self.routes.remove(&prefix) else { return };
        let shorter = (0..prefix.length()).rev().find_map(|length| {
            self.routes.get(&prefix.shortened(length)).map(|(_, value)| (length, *value))
        });
        let (length, shorter) = (prefix.length(), shorter.unwrap_or_default());
        if let Some(bits) = prefix.v4() {
            self.ipv4.remove(&fib.ipv4, bits.first(), length, shorter);
        } else if let (Some(bits), Some(table)) = (prefix.v6(), fib.ipv6.get()) {
            self.ipv6.remove(table, bits.first(), length, shorter);
        }
        self.leave(&target);
    }

    /// The number of the set with these next hops and weights.
    fn set(&mut self, fib: &Fib, hops: &[(u16, u16)]) -> Result<u32, Full> {
        if let Some((set, users)) = self.sets.get_mut(hops) {
            *users += 1;
            return Ok(*set);
        }
        let set = match self.free.pop() {
            Some(set) => set,
            None => {
                let chunk = fib.sets.0.get(self.made as usize / SETS).ok_or(Full)?;
                chunk.get_or_init(|| (0..SETS * BUCKETS).map(|_| AtomicU16::new(0)).collect());
                self.made += 1;
                self.made - 1
            }
        };
        for (bucket, hop) in buckets(hops).into_iter().enumerate() {
            if let Some(place) = fib.sets.bucket(set, bucket) {
                place.store(hop, Release);
            }
        }
        self.sets.insert(hops.to_vec(), (set, 1));
        Ok(set)
    }

    /// A prefix has this target no more.
    fn leave(&mut self, target: &RouteKind) {
        if let RouteKind::Hops(hops) = target
            && let Some((set, users)) = self.sets.get_mut(hops)
        {
            *users -= 1;
            if *users == 0 {
                self.resting.push(*set);
                self.sets.remove(hops);
            }
        }
    }
}

/// Each next hop gets a part of the buckets by its weight, in one piece (RFC 2992).
pub fn buckets(hops: &[(u16, u16)]) -> [u16; BUCKETS] {
    let total: usize = hops.iter().map(|(_, weight)| usize::from(*weight)).sum();
    let mut below = 0;
    let ends: Vec<_> = hops
        .iter()
        .map(|(hop, weight)| {
            below += usize::from(*weight);
            (below, *hop)
        })
        .collect();
    std::array::from_fn(|bucket| {
        // The middle of the bucket decides.
        let at = (2 * bucket + 1) * total;
        ends.iter().find(|(end, _)| at < 2 * BUCKETS * end).map_or(0, |(_, hop)| *hop)
    })
}

/// Looks at a file once a second and changes the routes when it is another one. Ends
/// when no worker has the routes any more. A file that cannot be read changes nothing.
pub fn follow(
    fib: &Arc<Fib>,
    path: PathBuf,
    mut version: Option<FileVersion>,
    read: impl Fn(&Path) -> Result<Routes, String> + Send + 'static,
) -> std::io::Result<()> {
    let fib: Weak<Fib> = Arc::downgrade(fib);
    let look = move || {
        loop {
            std::thread::sleep(PAUSE);
            let Some(fib) = fib.upgrade() else { return };
            let now = FileVersion::of(&path);
            if now.is_none() || now == version {
                continue;
            }
            version = now;
            let done = read(&path).and_then(|routes| fib.change(routes).map_err(|e| e.to_string()));
            match done {
                Ok(()) => {
                    let routes = fib.routes.load(Relaxed);
                    fib.reloads.fetch_add(1, Relaxed);
                    tracing::info!("{}: {routes} routes", path.display());
                }
                Err(error) => {
                    fib.refused.fetch_add(1, Relaxed);
                    tracing::warn!("{error}; the routes stay as they were");
                }
            }
        }
    };
    std::thread::Builder::new().name("routes".into()).spawn(look).map(drop)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::text;
    use super::*;

    fn routes(text: &str) -> Routes {
        text::read(text, |named| named.device?.strip_prefix('d')?.parse().ok()).expect("routes")
    }

    fn value(fib: &Fib, address: [u8; 4]) -> u32 {
        fib.ipv4.lookup(u32::from_be_bytes(address))
    }

    #[test]
    fn routes_change_as_the_text_does() {
        let fib = Fib::new(routes("10.0.0.0/8 dev d1\n10.1.0.0/16 dev d2\nblackhole 10.1.1.0/24"))
            .expect("there is room");
        assert_eq!(value(&fib, [10, 9, 0, 1]), FIRST_HOP + 1);
        assert_eq!(value(&fib, [10, 1, 0, 1]), FIRST_HOP + 2);
        assert_eq!(value(&fib, [10, 1, 1, 1]), BLACKHOLE);
        assert_eq!(value(&fib, [11, 0, 0, 1]), NO_ROUTE);
        fib.change(routes(
            "default dev d7\n10.0.0.0/8 dev d3\n10.1.1.1 dev d4\n2001:db8::/32 dev d1",
        ))
        .expect("there is room");
        assert_eq!(fib.routes.load(Relaxed), 4);
        assert_eq!(value(&fib, [10, 1, 0, 1]), FIRST_HOP + 3);
        assert_eq!(value(&fib, [10, 1, 1, 1]), FIRST_HOP + 4);
        assert_eq!(value(&fib, [10, 1, 1, 2]), FIRST_HOP + 3);
        assert_eq!(value(&fib, [11, 0, 0, 1]), FIRST_HOP + 7);
        assert_eq!(fib.ipv6.get().map(|table| table.lookup(0x2001_0db8_u128 << 96)), Some(5));
    }

    #[test]
    fn a_set_is_used_again_in_the_round_behind_the_next() {
        let fib = Fib::new(Routes::new()).expect("there is room");
        let of = |n: u32| {
            let (a, b) = (n, n + 1);
            routes(&format!("10.0.0.0/8\n nexthop dev d{a}\n nexthop dev d{b} weight 3"))
        };
        for round in 0..8 {
            fib.change(of(round)).expect("there is room");
            let set = value(&fib, [10, 0, 0, 1]);
            let found: Vec<_> = (0..64).filter_map(|n| fib.member(set, n << 58)).collect();
            let count = |hop: u32| found.iter().filter(|one| u32::from(**one) == hop).count();
            assert_eq!((count(round), count(round + 1)), (16, 48));
        }
        assert_eq!(fib.records.lock().expect("whole").made, 2);
    }

    proptest! {
        #[test]
        fn buckets_are_shared_by_weight(weights in prop::collection::vec(1_u16..256, 1..16)) {
            let hops: Vec<_> = weights.iter().enumerate().map(|(n, w)| (n as u16, *w)).collect();
            let total: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
            let found = buckets(&hops);
            for (hop, weight) in hops {
                let count = found.iter().filter(|one| **one == hop).count();
                let fair = BUCKETS * usize::from(weight) / total;
                prop_assert!(count >= fair.saturating_sub(1) && count <= fair + 2);
            }
        }
    }
}
