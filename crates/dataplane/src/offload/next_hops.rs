//! Functions that a packet goes on to by itself, before it comes back.

/// Functions behind the first that a packet takes before it comes back, at most.
pub const HOPS: usize = 3;

/// One of these functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextHop {
    /// Number of the function, as its service path has it.
    pub function: u16,
    /// Number of the last order to it that concerns the packet; once the packet is past it, the
    /// length that the packet came with.
    pub order: u32,
}

/// The functions behind the first, in the order of the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextHops {
    hops: [NextHop; HOPS],
    count: u8,
    /// Slots of tags that these functions may write, one bit for each.
    pub writes: u8,
}

impl NextHops {
    /// The packet comes back from the first.
    pub const NOWHERE: NextHops =
        NextHops { hops: [NextHop { function: 0, order: 0 }; HOPS], count: 0, writes: 0 };

    /// The functions.
    #[inline]
    pub fn hops(&self) -> &[NextHop] {
        &self.hops[..usize::from(self.count)]
    }

    /// The same, to be changed.
    #[inline]
    pub fn hops_mut(&mut self) -> &mut [NextHop] {
        &mut self.hops[..usize::from(self.count)]
    }

    /// Adds one; false where there is no room.
    #[inline]
    pub fn push(&mut self, hop: NextHop) -> bool {
        let Some(place) = self.hops.get_mut(usize::from(self.count)) else { return false };
        *place = hop;
        self.count += 1;
        true
    }

    /// Whether both lead to the same functions.
    #[inline]
    pub fn is_way_of(&self, other: &NextHops) -> bool {
        let functions = |onward: &NextHops| onward.hops.map(|hop| hop.function);
        self.count == other.count && functions(self) == functions(other)
    }
}

/// How far a packet has come that is back, or was dropped there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// How many functions behind the first it has come to.
    pub count: u8,
    /// Their numbers.
    pub functions: [u16; HOPS],
    /// With which length it came to each of them, in bytes.
    pub lengths: [u16; HOPS],
}

impl Past {
    /// The functions, and with which length the packet came to each.
    #[inline]
    pub fn functions(&self) -> impl Iterator<Item = (u16, u16)> {
        self.functions.into_iter().zip(self.lengths).take(self.count.into())
    }

    /// The last of them; none where it has been at the first only.
    #[inline]
    pub fn last(&self) -> Option<u16> {
        self.functions().last().map(|(function, _)| function)
    }
}
