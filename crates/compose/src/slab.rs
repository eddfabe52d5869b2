//! Contexts, one beside the other.

/// How a slot number becomes an index: slots are dealt out to workers in turn,
/// so the low bits name the worker and the rest is the index there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotShift(pub u32);

impl SlotShift {
    /// For a node with that many workers.
    #[inline]
    pub fn for_workers(workers: usize) -> SlotShift {
        SlotShift(workers.next_power_of_two().trailing_zeros())
    }

    /// The worker that owns `slot`.
    #[inline(always)]
    pub fn worker(self, slot: u32) -> usize {
        (slot & ((1 << self.0) - 1)) as usize
    }

    /// Index of `slot` in its worker's slabs.
    #[inline(always)]
    pub fn index(self, slot: u32) -> usize {
        (slot >> self.0) as usize
    }

    /// The slot with that index at that worker.
    #[inline]
    pub fn slot(self, worker: usize, index: usize) -> u32 {
        (index as u32) << self.0 | worker as u32
    }
}

/// The contexts of one instance: as many as there may ever be, made beforehand.
#[derive(Debug)]
pub struct Slab<C> {
    contexts: Box<[C]>,
    shift: SlotShift,
}

impl<C: Default> Slab<C> {
    /// Room for `capacity` contexts, all fresh.
    pub fn new(capacity: usize, shift: SlotShift) -> Slab<C> {
        let mut contexts = weft_dpdk::with_room(capacity);
        contexts.resize_with(capacity, C::default);
        Slab { contexts: contexts.into_boxed_slice(), shift }
    }

    /// The context of `slot`, if the slot can have one.
    #[inline(always)]
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut C> {
        self.contexts.get_mut(self.shift.index(slot))
    }

    /// The context of `slot`, if the slot can have one.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> Option<&C> {
        self.contexts.get(self.shift.index(slot))
    }

    /// All contexts.
    pub fn all_mut(&mut self) -> &mut [C] {
        &mut self.contexts
    }

    /// Asks the processor for the contexts of `slots` ahead of use: for the cache
    /// lines of the first byte of each and of the last of those that are `hot`.
    #[inline(always)]
    pub fn prefetch(&self, slots: impl Iterator<Item = u32>, hot: usize) {
        // Read once: to the compiler a prefetch may change them.
        let (contexts, shift) = (&*self.contexts, self.shift);
        for slot in slots {
            let index = shift.index(slot);
            weft_dpdk::prefetch(contexts, index);
            if hot > align_of::<C>() {
                weft_dpdk::prefetch_at(contexts, index, hot - 1);
            }
        }
    }

    /// Room for that many contexts.
    pub fn capacity(&self) -> usize {
        self.contexts.len()
    }
}
