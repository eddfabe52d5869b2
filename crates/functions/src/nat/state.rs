//! Blocks of ports and the mappings in them: an arena that is made beforehand, found
//! by address, port and protocol from the inside, and from the outside.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use weft_dpdk::{Table, prefetch, with_room};
use weft_function::{ContextError, Fields};
use weft_wire::Protocol;

/// No mapping, no block.
pub const NONE: u32 = u32::MAX;
/// Ports below are never given out (RFC 6335 §6).
pub const FIRST_PORT: u16 = 1024;

/// Public addresses and how their ports are cut into blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// First and last address of each prefix.
    ranges: Vec<(u32, u32)>,
    /// Ports of a block.
    pub size: u16,
    /// Blocks of an address.
    per_address: u32,
    blocks: u32,
}

impl Pool {
    /// A pool of these ranges of addresses, which do not overlap.
    pub fn new(ranges: Vec<(u32, u32)>, size: u16) -> Pool {
        let per_address = (u32::from(u16::MAX) + 1 - u32::from(FIRST_PORT)) / u32::from(size);
        let addresses: u64 = ranges.iter().map(|(a, b)| u64::from(b - a) + 1).sum();
        let blocks = u32::try_from(addresses * u64::from(per_address)).unwrap_or(NONE - 1);
        Pool { ranges, size, per_address, blocks }
    }

    /// Blocks of all addresses.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Whether the address is one of the pool's.
    #[inline]
    pub fn contains(&self, address: u32) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&address))
    }

    /// Address and first port of a block.
    #[inline]
    pub fn place(&self, block: u32) -> (u32, u16) {
        let mut nth = block / self.per_address;
        let port = FIRST_PORT + (block % self.per_address) as u16 * self.size;
        for &(first, last) in &self.ranges {
            if nth <= last - first {
                return (first + nth, port);
            }
            nth -= last - first + 1;
        }
        (0, port)
    }

    /// The block that begins there.
    pub fn block(&self, address: u32, port: u16) -> Option<u32> {
        let mut before = 0;
        for &(first, last) in &self.ranges {
            if (first..=last).contains(&address) {
                let offset = u32::from(port.checked_sub(FIRST_PORT)?);
                let (nth, rest) = (offset / u32::from(self.size), offset % u32::from(self.size));
                let whole = rest == 0 && nth < self.per_address;
                return whole.then(|| (before + address - first) * self.per_address + nth);
            }
            before += last - first + 1;
        }
        None
    }
}

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

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Never,
    Taken,
    Rests,
}

/// Blocks and mappings of all users.
#[derive(Debug)]
pub struct State {
    epoch: u32,
    pub pool: Pool,
    records: Vec<Mapping>,
    free: u32,
    by_inside: Table<u64>,
    by_outside: Table<u64>,
    uses: Vec<Use>,
    /// Blocks from here on were never given out in their turn.
    fresh: u32,
    /// Blocks that were given back, and when.
    rested: VecDeque<(u64, u32)>,
    hold_down: u64,
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
        let blocks = pool.blocks() as usize;
        State {
            epoch: 1,
            pool,
            records,
            free: if capacity > 0 { 0 } else { NONE },
            by_inside: Table::with_capacity(capacity as usize),
            by_outside: Table::with_capacity(capacity as usize),
            uses: vec![Use::Never; blocks],
            fresh: 0,
            rested: VecDeque::with_capacity(blocks),
            hold_down,
        }
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
        has.then(|| self.pool.place(holding.block).0)
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
        holding.block = match wanted {
            Some(block) => self.take(block)?,
            None => self.any_block(now).ok_or(Lack::Block)?,
        };
        self.uses[holding.block as usize] = Use::Taken;
        Ok(true)
    }

    /// That block, if nobody has it.
    fn take(&mut self, block: u32) -> Result<u32, Lack> {
        match self.uses.get(block as usize) {
            Some(Use::Never) => Ok(block),
            Some(Use::Rests) => {
                self.rested.retain(|(_, rests)| *rests != block);
                Ok(block)
            }
            _ => Err(Lack::Block),
        }
    }

    /// The first that was never given out, or that rests for longest.
    fn any_block(&mut self, now: u64) -> Option<u32> {
        while self.fresh < self.pool.blocks() {
            self.fresh += 1;
            if self.uses[self.fresh as usize - 1] == Use::Never {
                return Some(self.fresh - 1);
            }
        }
        let &(since, block) = self.rested.front()?;
        if now.saturating_sub(since) < self.hold_down {
            return None;
        }
        self.rested.pop_front();
        Some(block)
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
        let (address, first) = self.pool.place(holding.block);
        let size = self.pool.size;
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
        let size = self.pool.size;
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
        *self.uses.get_mut(block as usize)? = Use::Rests;
        // Each block rests once, and there is room for all.
        self.rested.push_back((now, block));
        Some(block)
    }

    /// Writes block and mappings, the oldest first.
    pub fn export(&self, holding: &Holding, out: &mut Vec<u8>) {
        let known = self.knows(holding) && holding.block != NONE;
        out.push(known.into());
        if !known {
            return;
        }
        let (address, port) = self.pool.place(holding.block);
        out.extend_from_slice(&address.to_le_bytes());
        out.extend_from_slice(&port.to_le_bytes());
        let mut mappings = Vec::new();
        let mut index = holding.first;
        while let Some(mapping) = self.records.get(index as usize) {
            mappings.push(mapping);
            index = mapping.next;
            if mappings.len() == holding.count as usize {
                break;
            }
        }
        out.extend_from_slice(&(mappings.len() as u32).to_le_bytes());
        for mapping in mappings.into_iter().rev() {
            let Mapping { inside, port, established, closing, expires, .. } = mapping;
            out.extend_from_slice(&inside.address.to_le_bytes());
            out.extend_from_slice(&inside.port.to_le_bytes());
            out.push(inside.protocol);
            out.extend_from_slice(&port.to_le_bytes());
            out.push(u8::from(*established) | u8::from(*closing) << 1);
            out.extend_from_slice(&expires.to_le_bytes());
        }
    }
}

/// Block and mappings as they came from another node.
#[derive(Debug, Default)]
pub struct Moved {
    /// Address and first port of the block.
    pub block: Option<(Ipv4Addr, u16)>,
    mappings: Vec<Mapping>,
}

impl Moved {
    /// Reads what [`State::export`] wrote.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn read(fields: &mut Fields<'_>) -> Result<Moved, ContextError> {
        match fields.u8()? {
            0 => return Ok(Moved::default()),
            1 => {}
            _ => return Err(ContextError::Damaged),
        }
        let block = Some((Ipv4Addr::from_bits(fields.u32()?), fields.u16()?));
        let count = fields.u32()?;
        let mut mappings = Vec::new();
        for _ in 0..count {
            let inside =
                Inside { address: fields.u32()?, port: fields.u16()?, protocol: fields.u8()? };
            let (port, flags, expires) = (fields.u16()?, fields.u8()?, fields.u64()?);
            let known = [Protocol::TCP, Protocol::UDP, Protocol::ICMP];
            if flags > 3 || !known.contains(&Protocol(inside.protocol)) {
                return Err(ContextError::Damaged);
            }
            let (established, closing) = (flags & 1 != 0, flags & 2 != 0);
            mappings.push(Mapping { inside, port, established, closing, expires, ..VACANT });
        }
        Ok(Moved { block, mappings })
    }

    /// Takes the block and the mappings into `state`, as far as they are free there:
    /// another pool, or one whose block is somebody else's, leaves the user without.
    pub fn settle(self, state: &mut State) -> Holding {
        let mut holding = Holding::default();
        let block =
            self.block.and_then(|(address, port)| state.pool.block(address.to_bits(), port));
        if block.is_none() || state.claim(&mut holding, block, 0).is_err() {
            return holding;
        }
        let (_, first) = state.pool.place(holding.block);
        for mapping in self.mappings {
            let offset = mapping.port.wrapping_sub(first);
            let twice = state.find_inside(mapping.inside).is_some();
            if offset >= state.pool.size || twice {
                continue;
            }
            // A port that is taken gives way to the next one: never for what was
            // exported.
            if let Ok(index) =
                state.map(&mut holding, mapping.inside, mapping.expires, offset.into(), 0)
                && let Some(record) = state.get(index)
            {
                (record.established, record.closing) = (mapping.established, mapping.closing);
            }
        }
        holding
    }
}

impl State {
    /// Moves the ends of the user's mappings from another clock to this one.
    pub fn rebase(&mut self, holding: &Holding, then: u64, now: u64) {
        let mut index = holding.first;
        for _ in 0..holding.count {
            let Some(record) = self.records.get_mut(index as usize) else { return };
            record.expires = now.saturating_add(record.expires.saturating_sub(then));
            index = record.next;
        }
    }
}
