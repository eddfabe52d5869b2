//! What arrived of one user's packets.

/// Packets of one user in one stream, as the receiver saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Different packets that arrived.
    pub received: u64,
    /// Packets that had arrived before. A copy that comes when the user's next
    /// 64 packets have arrived is not told from a late packet.
    pub duplicated: u64,
    /// Packets that arrived behind one sent after them (RFC 4737 §3.3); they
    /// are also among those received.
    pub reordered: u64,
    /// The sequence number behind the highest that arrived.
    next: u32,
    /// Which of the 64 numbers below `next` have arrived; bit 0 is `next` - 1.
    arrived: u64,
}

/// How a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    InOrder,
    Reordered,
    Duplicated,
}

impl Flow {
    /// Notes the arrival of packet number `sequence`. Numbers begin again at 0
    /// behind the last, so the nearer way round tells which is ahead (RFC 1982).
    #[inline]
    pub(crate) fn arrive(&mut self, sequence: u32) -> Arrival {
        let ahead = sequence.wrapping_sub(self.next);
        if ahead <= i32::MAX as u32 {
            self.arrived = self.arrived.checked_shl(ahead + 1).unwrap_or(0) | 1;
            self.next = sequence.wrapping_add(1);
            self.received += 1;
            return Arrival::InOrder;
        }
        let behind = u32::MAX - ahead;
        let bit = 1_u64.checked_shl(behind).unwrap_or(0);
        if self.arrived & bit != 0 {
            self.duplicated += 1;
            return Arrival::Duplicated;
        }
        self.arrived |= bit;
        self.received += 1;
        self.reordered += 1;
        Arrival::Reordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Received, duplicated and reordered.
    fn counts(sequences: impl IntoIterator<Item = u32>) -> (u64, u64, u64) {
        let mut flow = Flow::default();
        sequences.into_iter().for_each(|sequence| {
            flow.arrive(sequence);
        });
        (flow.received, flow.duplicated, flow.reordered)
    }

    #[test]
    fn packets_in_order_are_only_counted() {
        assert_eq!(counts(0..1000), (1000, 0, 0));
        assert_eq!(counts([5, 6, 100, 300, 1 << 30]), (5, 0, 0), "gaps are no disorder");
    }

    #[test]
    fn a_packet_is_reordered_once_it_is_overtaken() {
        assert_eq!(counts([0, 2, 1, 3]), (4, 0, 1));
        assert_eq!(counts([0, 3, 2, 1, 4]), (5, 0, 2));
        assert_eq!(counts([3, 0]), (2, 0, 1));
    }

    #[test]
    fn a_copy_is_neither_received_nor_reordered() {
        assert_eq!(counts([0, 0, 0]), (1, 2, 0));
        assert_eq!(counts([0, 2, 1, 1, 0]), (3, 2, 1));
        assert_eq!(counts((0..64).chain([0])), (64, 1, 0), "the oldest that is told");
        assert_eq!(counts((0..65).chain([0])), (66, 0, 1));
    }

    #[test]
    fn numbers_may_begin_again() {
        let mut flow = Flow { next: u32::MAX, ..Default::default() };
        let arrivals = [u32::MAX, 1, 0, 0, u32::MAX].map(|sequence| flow.arrive(sequence));
        use Arrival::*;
        assert_eq!(arrivals, [InOrder, InOrder, Reordered, Duplicated, Duplicated]);
    }

    #[test]
    fn a_gap_of_any_length_forgets_what_lies_behind_it() {
        for gap in [62, 63, 64, 65, 1_000_000] {
            let told = gap < 64;
            let (received, duplicated, _) = counts([0, gap, 0]);
            assert_eq!((received, duplicated), if told { (2, 1) } else { (3, 0) }, "{gap}");
            assert_eq!(counts([0, gap, gap]), (2, 1, 0), "{gap}");
        }
    }
}
