//! Public addresses, cut into blocks of ports, and which blocks are given out.

use weft_dpdk::with_room;

/// No mapping, no block.
pub const NONE: u32 = u32::MAX;

/// Ports below are never given out (RFC 6335 §6).
pub const FIRST_PORT: u16 = 1024;

/// Blocks that may have been given out since the last checkpoint, when a node has died.
const RECENT: usize = 16;

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

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Never,
    Taken,
    Rests,
}

/// A block; those that rest are a list, the longest first.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// When it came back, nanoseconds.
    since: u64,
    next: u32,
    previous: u32,
    is: Use,
}

/// The blocks of a pool.
#[derive(Debug)]
pub struct Blocks {
    pub pool: Pool,
    blocks: Vec<Block>,
    /// Blocks from here on were never given out in their turn.
    fresh: u32,
    /// The ends of the list of those that rest.
    oldest: u32,
    newest: u32,
    hold_down: u64,
}

impl Blocks {
    /// All of a pool's blocks; one is not given out again for `hold_down` nanoseconds.
    pub fn new(pool: Pool, hold_down: u64) -> Blocks {
        let count = pool.blocks() as usize;
        let mut blocks = with_room(count);
        blocks.resize(count, Block { since: 0, next: NONE, previous: NONE, is: Use::Never });
        Blocks { pool, blocks, fresh: 0, oldest: NONE, newest: NONE, hold_down }
    }

    /// That block, if no user has it.
    pub fn take(&mut self, block: u32) -> Option<u32> {
        match self.blocks.get(block as usize)?.is {
            Use::Never => {}
            Use::Rests => self.wake(block),
            Use::Taken => return None,
        }
        self.blocks[block as usize].is = Use::Taken;
        Some(block)
    }

    /// The first that was never given out, or that rests for longest.
    pub fn take_any(&mut self, now: u64) -> Option<u32> {
        while let Some(block) = self.blocks.get(self.fresh as usize) {
            self.fresh += 1;
            if block.is == Use::Never {
                return self.take(self.fresh - 1);
            }
        }
        let rests = self.blocks.get(self.oldest as usize)?;
        let rested = now.saturating_sub(rests.since) >= self.hold_down;
        if rested { self.take(self.oldest) } else { None }
    }

    /// The blocks up to the last one that is taken, and some behind it, may have been in use
    /// until now, as they are given out in turn: those that are not taken rest from now on.
    pub fn hold_down_recent(&mut self, now: u64) {
        let last = self.blocks.iter().rposition(|block| block.is == Use::Taken);
        let end = last.map_or(0, |last| last + 1) + RECENT;
        for block in (self.fresh as usize)..end.min(self.blocks.len()) {
            if self.blocks[block].is == Use::Never {
                self.give_back(block as u32, now);
            }
            self.fresh = block as u32 + 1;
        }
    }

    /// Takes a block back.
    pub fn give_back(&mut self, block: u32, now: u64) {
        let previous = self.newest;
        let Some(place) = self.blocks.get_mut(block as usize) else { return };
        *place = Block { since: now, next: NONE, previous, is: Use::Rests };
        match self.blocks.get_mut(previous as usize) {
            Some(previous) => previous.next = block,
            None => self.oldest = block,
        }
        self.newest = block;
    }

    /// Takes a block out of the list of those that rest.
    fn wake(&mut self, block: u32) {
        let Block { next, previous, .. } = self.blocks[block as usize];
        match self.blocks.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.newest = previous,
        }
        match self.blocks.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.oldest = next,
        }
    }
}
