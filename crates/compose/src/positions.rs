//! Sets of positions in a burst.

/// Which packets of a burst are meant: one bit for each position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positions(pub u64);

impl Positions {
    /// No packet.
    pub const NONE: Positions = Positions(0);

    /// The first `count` packets.
    #[inline(always)]
    pub fn first(count: usize) -> Positions {
        Positions(if count >= 64 { u64::MAX } else { (1 << count) - 1 })
    }

    /// Whether no packet is meant.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many packets are meant.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the packet at `position` is meant.
    #[inline(always)]
    pub fn contains(self, position: usize) -> bool {
        self.0 >> position & 1 == 1
    }

    /// Adds the packet at `position`.
    #[inline(always)]
    pub fn insert(&mut self, position: usize) {
        self.0 |= 1 << position;
    }

    /// Takes the packet at `position` out.
    #[inline(always)]
    pub fn remove(&mut self, position: usize) {
        self.0 &= !(1 << position);
    }

    /// The lowest position.
    #[inline(always)]
    pub fn lowest(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// Those behind `position`.
    #[inline]
    pub fn behind(self, position: usize) -> Positions {
        self.without(Positions::first(position + 1))
    }

    /// Those of `self` that are not in `other`.
    #[inline(always)]
    pub fn without(self, other: Positions) -> Positions {
        Positions(self.0 & !other.0)
    }

    /// Those in both.
    #[inline(always)]
    pub fn and(self, other: Positions) -> Positions {
        Positions(self.0 & other.0)
    }

    /// Those in either.
    #[inline(always)]
    pub fn or(self, other: Positions) -> Positions {
        Positions(self.0 | other.0)
    }
}

impl Iterator for Positions {
    type Item = usize;

    /// Takes the lowest position out.
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let position = self.lowest()?;
        self.0 &= self.0 - 1;
        Some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_walked_in_order() {
        let mut set = Positions::first(64);
        assert_eq!(set.len(), 64);
        set = set.without(Positions::first(61));
        set.remove(62);
        assert_eq!(set.collect::<Vec<_>>(), [61, 63]);
        assert!(set.contains(63) && !set.contains(62));
        assert_eq!(Positions::first(0), Positions::NONE);
    }
}
