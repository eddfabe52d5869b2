//! Blocks of ports and the mappings in them, found by address, port and protocol from
//! the inside, and from the outside. Either table holds all that a packet needs of its
//! mapping, so a packet waits for one cache line; what else there is to know stands in
//! an arena that is made beforehand.

mod connections;
mod moved;

use weft_dpdk::{Table, Value, with_room};

use weft_wire::Protocol;
use weft_wire::tcp::Flags;

use self::connections::Connections;
use super::blocks::{Blocks, NONE, Pool};

pub use self::connections::Far;
pub use self::moved::Moved;

/// What a mapping is found by from the inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    pub address: u32,
    pub port: u16,
    pub protocol: u8,
}

impl Inside {
    #[inline(always)]
    pub fn key(self) -> u64 {
        key(self.address, self.port, self.protocol)
    }
}

/// What the tables find a mapping by.
#[inline(always)]
pub fn key(address: u32, port: u16, protocol: u8) -> u64 {
    u64::from(address) << 32 | u64::from(port) << 16 | u64::from(protocol)
}

/// One endpoint-independent mapping (RFC 4787 §4.1): what packets do not need of it.
#[derive(Clone, Copy, Debug)]
struct Record {
    inside: Inside,
    /// The user's block.
    block: u32,
    /// Public address and port.
    address: u32,
    port: u16,
    /// Its neighbours in the user's list, or the next free one.
    next: u32,
    previous: u32,
    /// Of TCP.
    connections: Connections,
}

const VACANT: Record = Record {
    inside: Inside { address: 0, port: 0, protocol: 0 },
    block: NONE,
    address: 0,
    port: 0,
    next: NONE,
    previous: NONE,
    connections: Connections::NONE,
};

/// A mapping as it is seen from the inside: where it says how things stand.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Which record it has; [`NONE`] where there is no mapping.
    record: u32,
    /// Slot of the user; [`NONE`] until its first packet, here or since its timer failed.
    pub user: u32,
    /// Public address and port.
    pub address: u32,
    pub port: u16,
    /// A far end that the inside has sent to has answered; for TCP.
    pub established: bool,
    /// All connections have ended; for TCP.
    pub closing: bool,
    /// When it ends, nanoseconds.
    pub expires: u64,
}

/// A mapping as it is seen from the outside.
#[derive(Clone, Copy, Debug)]
pub struct OutsideMapping {
    /// Which record it has; [`NONE`] where there is no mapping.
    record: u32,
    /// Slot of the user; [`NONE`] until its first packet here.
    pub user: u32,
    /// Address and port inside.
    pub address: u32,
    pub port: u16,
    /// The mapping does not end before, but perhaps later; nanoseconds.
    until: u64,
}

impl OutsideMapping {
    /// Who has it, inside.
    #[inline(always)]
    pub fn inside(&self, protocol: u8) -> Inside {
        Inside { address: self.address, port: self.port, protocol }
    }
}

impl Mapping {
    /// Whether a connection is open and answered: what only SYN, FIN and RST change.
    #[inline(always)]
    pub fn is_steady(&self) -> bool {
        self.established && !self.closing
    }
}

impl Value for Mapping {
    const MISS: Mapping = Mapping {
        record: NONE,
        user: NONE,
        address: 0,
        port: 0,
        established: false,
        closing: false,
        expires: 0,
    };

    #[inline(always)]
    fn is_miss(&self) -> bool {
        self.record == NONE
    }
}

impl Value for OutsideMapping {
    const MISS: OutsideMapping =
        OutsideMapping { record: NONE, user: NONE, address: 0, port: 0, until: 0 };

    #[inline(always)]
    fn is_miss(&self) -> bool {
        self.record == NONE
    }
}

/// What a user has: its block and the list of its mappings. Given back by
/// [`State::release`].
#[derive(Clone, Copy, Debug)]
pub struct Holding {
    /// Which state it refers to.
    epoch: u32,
    pub block: u32,
    first: u32,
    pub count: u32,
}

impl Default for Holding {
    fn default() -> Holding {
        Holding { epoch: 0, block: NONE, first: NONE, count: 0 }
    }
}

/// Why there is no mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// No block is free.
    Block,
    /// All ports of the user's block are in use.
    Port,
    /// The arena is full.
    Room,
}

/// Blocks and mappings of all users.
#[derive(Debug)]
pub struct State {
    epoch: u32,
    blocks: Blocks,
    records: Vec<Record>,
    free: u32,
    by_inside: Table<u64, Mapping>,
    by_outside: Table<u64, OutsideMapping>,
}

impl State {
    /// Room for so many mappings; a block is not given out again for `hold_down`
    /// nanoseconds.
    pub fn new(pool: Pool, capacity: u32, hold_down: u64) -> State {
        let mut records = with_room(capacity as usize);
        records.resize(capacity as usize, VACANT);
        for (index, record) in records.iter_mut().enumerate() {
            let next = index as u32 + 1;
            record.next = if next < capacity { next } else { NONE };
        }
        State {
            epoch: 1,
            blocks: Blocks::new(pool, hold_down),
            records,
            free: if capacity > 0 { 0 } else { NONE },
            by_inside: Table::with_capacity(capacity as usize),
            by_outside: Table::with_capacity(capacity as usize),
        }
    }

    /// The public addresses.
    #[inline(always)]
    pub fn pool(&self) -> &Pool {
        &self.blocks.pool
    }

    /// Holdings of `before` mean nothing to this one.
    pub fn succeed(&mut self, before: &State) {
        self.epoch = before.epoch + 1;
    }

    /// Whether the holding is of this state, and not of one before it.
    pub fn knows(&self, holding: &Holding) -> bool {
        holding.epoch == self.epoch
    }

    fn renew(&self, holding: &mut Holding) {
        if !self.knows(holding) {
            *holding = Holding { epoch: self.epoch, ..Holding::default() };
        }
    }

    /// Asks the processor for the mapping with this key from the inside.
    #[inline(always)]
    pub fn ask_inside(&self, key: u64) {
        self.by_inside.prefetch(&key);
    }

    /// The same from the outside.
    #[inline(always)]
    pub fn ask_outside(&self, key: u64) {
        self.by_outside.prefetch(&key);
    }

    /// Asks for the mapping behind what was asked for from the outside.
    #[inline(always)]
    pub fn ask_behind(&self, key: u64) {
        if let Some(target) = self.by_outside.get(&key) {
            self.by_inside.prefetch(&target.inside(key as u8).key());
        }
    }

    /// The mapping of an address and port inside, which may have ended.
    #[inline]
    pub fn find_inside(&mut self, key: u64) -> Option<&mut Mapping> {
        self.by_inside.get_mut(&key)
    }

    /// Who has a public address and port.
    #[inline]
    pub fn find_outside(&mut self, key: u64, now: u64) -> Option<OutsideMapping> {
        let target = self.by_outside.get(&key)?;
        if target.until > now {
            return Some(target);
        }
        // It was used since, or has ended.
        let protocol = key as u8;
        let expires = self.mapping(target.record, target.inside(protocol))?.expires;
        // A TCP mapping may end earlier than it once would have.
        if protocol != Protocol::TCP.0
            && let Some(target) = self.by_outside.get_mut(&key)
        {
            target.until = expires;
        }
        (expires > now).then_some(target)
    }

    /// The mapping that has this record; none where another user has its place by now.
    fn mapping(&self, record: u32, inside: Inside) -> Option<Mapping> {
        self.by_inside.get(&inside.key()).filter(|mapping| mapping.record == record)
    }

    /// Notes a TCP segment of the inside to `far`. The mapping as it stands then.
    #[cold]
    pub fn sent(&mut self, key: u64, far: Far, flags: Flags) -> Option<&mut Mapping> {
        let mapping = self.by_inside.get_mut(&key)?;
        let connections = &mut self.records.get_mut(mapping.record as usize)?.connections;
        connections.sent(far, flags);
        mapping.established = connections.is_established();
        mapping.closing = connections.is_closing();
        Some(mapping)
    }

    /// Notes a TCP segment from `far`, which may end the mapping earlier than it would,
    /// at `transitory`, but never later.
    #[cold]
    pub fn received(&mut self, key: u64, far: Far, flags: Flags, transitory: u64) {
        let Some(mapping) = self.by_inside.get_mut(&key) else { return };
        let Some(record) = self.records.get_mut(mapping.record as usize) else { return };
        if !record.connections.received(far, flags) {
            return;
        }
        mapping.established = record.connections.is_established();
        mapping.closing = record.connections.is_closing();
        if mapping.closing {
            mapping.expires = mapping.expires.min(transitory);
        }
    }

    /// The block that a mapping's port is of.
    pub fn block_of(&self, mapping: &Mapping) -> Option<u32> {
        self.records.get(mapping.record as usize).map(|record| record.block)
    }

    /// The mapping is this user's, whose timer is set or could not be.
    pub fn settle_user(&mut self, key: u64, user: u32, timer: bool) {
        let Some(mapping) = self.by_inside.get_mut(&key) else { return };
        mapping.user = if timer { user } else { NONE };
        let outside = self::key(mapping.address, mapping.port, key as u8);
        if let Some(target) = self.by_outside.get_mut(&outside) {
            target.user = user;
        }
    }

    /// The user's mappings are found by packets from inside as if they were the first.
    pub fn forget_user(&mut self, holding: &Holding) {
        let mut index = holding.first;
        for _ in 0..holding.count {
            let Some(record) = self.records.get(index as usize) else { return };
            if let Some(mapping) = self.by_inside.get_mut(&record.inside.key()) {
                mapping.user = NONE;
            }
            index = record.next;
        }
    }

    /// Public address of the user's block.
    #[inline]
    pub fn address(&self, holding: &Holding) -> Option<u32> {
        let has = self.knows(holding) && holding.block != NONE;
        has.then(|| self.pool().place(holding.block).0)
    }

    /// Gives the user a block, if it has none: `wanted`, or any. True when it is new.
    ///
    /// # Errors
    /// [`Lack::Block`].
    pub fn claim(
        &mut self,
        holding: &mut Holding,
        wanted: Option<u32>,
        now: u64,
    ) -> Result<bool, Lack> {
        self.renew(holding);
        if holding.block != NONE {
            return Ok(false);
        }
        let block = match wanted {
            Some(block) => self.blocks.take(block),
            None => self.blocks.take_any(now),
        };
        holding.block = block.ok_or(Lack::Block)?;
        Ok(true)
    }

    /// A new mapping of the user, whose block is there. The search for a port begins
    /// where `hash` says (RFC 6056 §3.3.3).
    ///
    /// # Errors
    /// [`Lack`].
    pub fn map(
        &mut self,
        holding: &mut Holding,
        inside: Inside,
        expires: u64,
        hash: u64,
        now: u64,
    ) -> Result<(), Lack> {
        let (address, first) = self.pool().place(holding.block);
        let size = self.pool().size;
        let start = (hash % u64::from(size)) as u16;
        let port = self.free_port(address, first, start, inside.protocol, now);
        let (port, ended) = port.ok_or(Lack::Port)?;
        if let Some(index) = ended {
            self.unlink(holding, index);
        }
        let record = self.free;
        let Some(&Record { next, .. }) = self.records.get(record as usize) else {
            return Err(Lack::Room);
        };
        let mapping = Mapping { record, address, port, expires, ..Mapping::MISS };
        if self.by_inside.insert(inside.key(), mapping).is_err() {
            return Err(Lack::Room);
        }
        // As many keys in one table as in the other.
        let target = OutsideMapping {
            record,
            address: inside.address,
            port: inside.port,
            ..OutsideMapping::MISS
        };
        let _ = self.by_outside.insert(key(address, port, inside.protocol), target);
        self.free = next;
        let (index, first) = (record, holding.first);
        let block = holding.block;
        self.records[index as usize] =
            Record { inside, block, address, port, next: first, ..VACANT };
        if let Some(first) = self.records.get_mut(first as usize) {
            first.previous = index;
        }
        (holding.first, holding.count) = (index, holding.count + 1);
        Ok(())
    }

    /// A port of the block without a mapping, or with one that has ended.
    fn free_port(
        &self,
        address: u32,
        first: u16,
        start: u16,
        protocol: u8,
        now: u64,
    ) -> Option<(u16, Option<u32>)> {
        let size = self.pool().size;
        let mut ports =
            (0..size).map(|n| first + ((u32::from(start) + u32::from(n)) % u32::from(size)) as u16);
        ports.find_map(|port| match self.by_outside.get(&key(address, port, protocol)) {
            None => Some((port, None)),
            Some(target) => {
                let mapping = self.mapping(target.record, target.inside(protocol));
                let ended = mapping.is_none_or(|mapping| mapping.expires <= now);
                ended.then_some((port, Some(target.record)))
            }
        })
    }

    /// Ends a mapping of the user.
    pub fn end(&mut self, holding: &mut Holding, mapping: &Mapping) {
        self.unlink(holding, mapping.record);
    }

    /// Ends the mapping of the user that has this record.
    fn unlink(&mut self, holding: &mut Holding, index: u32) {
        let Some(&Record { inside, address, port, next, previous, .. }) =
            self.records.get(index as usize)
        else {
            return;
        };
        if self.mapping(index, inside).is_some() {
            self.by_inside.remove(&inside.key());
        }
        self.by_outside.remove(&key(address, port, inside.protocol));
        if let Some(next) = self.records.get_mut(next as usize) {
            next.previous = previous;
        }
        match self.records.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => holding.first = next,
        }
        self.records[index as usize] = Record { next: self.free, ..VACANT };
        self.free = index;
        holding.count = holding.count.saturating_sub(1);
    }

    /// Ends what has run out of time. When the next one does, if any is left.
    pub fn expire(&mut self, holding: &mut Holding, now: u64) -> Option<u64> {
        if !self.knows(holding) {
            return None;
        }
        let (mut index, mut earliest) = (holding.first, None);
        for _ in 0..holding.count {
            let Some(&Record { inside, next, .. }) = self.records.get(index as usize) else {
                break;
            };
            match self.mapping(index, inside).map(|mapping| mapping.expires) {
                Some(expires) if expires > now => {
                    earliest = Some(earliest.map_or(expires, |before: u64| before.min(expires)));
                }
                _ => self.unlink(holding, index),
            }
            index = next;
        }
        earliest
    }

    /// Takes back block and mappings. The block, if there was one.
    pub fn release(&mut self, holding: &mut Holding, now: u64) -> Option<u32> {
        if !self.knows(holding) {
            return None;
        }
        for _ in 0..holding.count {
            let first = holding.first;
            self.unlink(holding, first);
        }
        let block = std::mem::take(holding).block;
        if block == NONE {
            return None;
        }
        self.blocks.give_back(block, now);
        Some(block)
    }
}
