//! Packets of a burst by the state of the rules that they stand in.

use arrayvec::ArrayVec;
use weft_compose::Positions;
use weft_dpdk::Batch;

/// A packet that is sent round a loop of rules is dropped after so many visits
/// beyond those that a way without loops can have.
pub const LOOP_VISITS: usize = 64;

/// Packets by the state they stand in. It is large: to hand it on by value would copy it.
pub type StateGroups = ArrayVec<(u32, Positions), { Batch::CAPACITY }>;

/// Adds packets that wait for a state.
#[inline]
pub fn add_pending(pending: &mut StateGroups, state: u32, positions: Positions) {
    // Few states wait at a time; the next to visit stands at the end.
    let mut at = pending.len();
    while at > 0 && pending[at - 1].0 < state {
        at -= 1;
    }
    match at.checked_sub(1).map(|before| &mut pending[before]) {
        Some((same, waiting)) if *same == state => *waiting = waiting.or(positions),
        // Each entry holds at least one position, so there is room.
        _ => pending.insert(at, (state, positions)),
    }
}
