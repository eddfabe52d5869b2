//! Blocks of ports and the mappings in them: an arena that is made beforehand, found
//! by address, port and protocol from the inside, and from the outside.

mod moved;

use weft_dpdk::{Table, prefetch, with_room};

use super::blocks::{Blocks, Pool};

pub use self::moved::Moved;

/// No mapping, no block.
pub const NONE: u32 = u32::MAX;

/// What a mapping is found by from the inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    pub address: u32,
    pub port: u16,
    pub protocol: u8,
}

impl Inside {
    #[inline(always)]
    fn key(self) -> u64 {
        key(self.address, self.port, self.protocol)
    }
}

/// What the tables find a mapping by.
#[inline(always)]
fn key(address: u32, port: u16, protocol: u8) -> u64 {
    u64::from(address) << 32 | u64::from(port) << 16 | u64::from(protocol)
}

/// One endpoint-independent mapping (RFC 4787 §4.1): 64 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Mapping {
    pub inside: Inside,
    /// Slot of the user; [`NONE`] until its first packet here.
    pub user: u32,
    /// The user's block.
    pub block: u32,
    /// Public address and port.
    pub address: u32,
    pub port: u16,
    /// An answer has come from outside; for TCP.
    pub established: bool,
    /// A FIN or RST was seen since the last SYN; for TCP.
    pub closing: bool,
    /// When it ends, nanoseconds.
    pub expires: u64,
    /// Its neighbours in the user's list, or the next free one.
    next: u32,
    previous: u32,
}

const VACANT: Mapping = Mapping {
    inside: Inside { address: 0, port: 0, protocol: 0 },
    user: NONE,
    block: NONE,
    address: 0,
    port: 0,
    established: false,
    closing: false,
    expires: 0,
    next: NONE,
    previous: NONE,
};

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
    records: Vec<Mapping>,
    free: u32,
    by_inside: Table<u64>,
    by_outside: Table<u64>,
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

    /// Asks the processor for what looking up a packet will need: the place in the
    /// table (stage 0), and the mapping (stage 1).
    #[inline(always)]
    pub fn ask_inside(&self, inside: Inside, stage: usize) {
        match stage {
            0 => self.by_inside.prefetch(&inside.key()),
            _ => self.ask(self.by_inside.get(&inside.key())),
        }
    }

    /// The same from the outside.
    #[inline(always)]
    pub fn ask_outside(&self, address: u32, port: u16, protocol: u8, stage: usize) {
        let key = key(address, port, protocol);
        match stage {
            0 => self.by_outside.prefetch(&key),
            _ => self.ask(self.by_outside.get(&key)),
        }
    }

    #[inline(always)]
    fn ask(&self, index: Option<u32>) {
        if let Some(index) = index {
            prefetch(&self.records, index as usize);
        }
    }

    /// The mapping of an address and port inside.
    #[inline]
    pub fn find_inside(&self, inside: Inside) -> Option<u32> {
        self.by_inside.get(&inside.key())
    }

    /// The mapping of a public address and port that has not ended.
    #[inline]
    pub fn find_outside(&self, address: u32, port: u16, protocol: u8, now: u64) -> Option<u32> {
        let index = self.by_outside.get(&key(address, port, protocol))?;
        (self.records.get(index as usize)?.expires > now).then_some(index)
    }

    /// A mapping.
    #[inline]
    pub fn get(&mut self, index: u32) -> Option<&mut Mapping> {
        self.records.get_mut(index as usize)
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
    ) -> Result<u32, Lack> {
        let (address, first) = self.pool().place(holding.block);
        let size = self.pool().size;
        let start = (hash % u64::from(size)) as u16;
        let port = self.free_port(address, first, start, inside.protocol, now);
        let (port, ended) = port.ok_or(Lack::Port)?;
        if let Some(index) = ended {
            self.unlink(holding, index);
        }
        let index = self.free;
        let Some(&Mapping { next, .. }) = self.records.get(index as usize) else {
            return Err(Lack::Room);
        };
        let outside = key(address, port, inside.protocol);
        if self.by_inside.insert(inside.key(), index).is_err() {
            return Err(Lack::Room);
        }
        // As many keys in one table as in the other.
        let _ = self.by_outside.insert(outside, index);
        self.free = next;
        let first = holding.first;
        self.records[index as usize] =
            Mapping { inside, block: holding.block, address, port, expires, next: first, ..VACANT };
        if let Some(first) = self.records.get_mut(first as usize) {
            first.previous = index;
        }
        (holding.first, holding.count) = (index, holding.count + 1);
        Ok(index)
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
            Some(index) if self.records[index as usize].expires <= now => Some((port, Some(index))),
            Some(_) => None,
        })
    }

    /// Ends one mapping of the user.
    pub fn unlink(&mut self, holding: &mut Holding, index: u32) {
        let Some(&Mapping { inside, address, port, next, previous, .. }) =
            self.records.get(index as usize)
        else {
            return;
        };
        if self.by_inside.get(&inside.key()) == Some(index) {
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
        self.records[index as usize] = Mapping { next: self.free, ..VACANT };
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
            let Some(&Mapping { expires, next, .. }) = self.records.get(index as usize) else {
                break;
            };
            if expires <= now {
                self.unlink(holding, index);
            } else {
                earliest = Some(earliest.map_or(expires, |before: u64| before.min(expires)));
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
