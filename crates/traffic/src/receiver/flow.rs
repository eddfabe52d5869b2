//! What arrived of one flow's packets.

/// Packets of one flow in one stream, as the receiver saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Different packets that arrived.
    pub received: u64,
    /// Packets that had arrived before. A copy that comes when the packets of a
    /// whole [window](crate::Stream::window) lie between is not told from a late
    /// packet.
    pub duplicated: u64,
    /// Packets that arrived behind one sent after them (RFC 4737 §3.3); they
    /// are also among those received.
    pub reordered: u64,
    /// The largest reordering extent (RFC 4737 §4.2), packets.
    pub extent: u64,
    /// The sequence number behind the highest that arrived.
    next: u32,
}

impl Flow {
    /// Packets that were lost if `sent` were sent: the number that the source
    /// counts for the flow.
    pub fn lost(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.received)
    }
}

/// How a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    InOrder,
    /// How many packets arrived since the first that was sent after this one,
    /// that one included (RFC 4737 §4.2.2); none when that was too long ago to
    /// be known.
    Reordered {
        extent: Option<u64>,
    },
    Duplicated,
}

/// All flows of a stream, and what is remembered of each to tell copies from
/// late packets and how late those are. One budget is shared by all flows, so
/// that few flows, which have many packets on the way, have long memories.
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    pub flows: Vec<Flow>,
    /// Words of 64 bits that each flow has in `arrived`.
    words: usize,
    /// Which of the numbers of the window have arrived: number `n` is bit
    /// `n` modulo the window.
    arrived: Vec<u64>,
    /// Gaps that each flow has in `gaps`.
    most_gaps: usize,
    /// The latest gaps of each flow, a ring for each.
    gaps: Vec<Gap>,
    /// Gaps that each flow has had.
    gap_count: Vec<u32>,
}

/// Numbers that were passed over, and by whom.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    first: u32,
    /// The number behind the last.
    end: u32,
    /// How many packets of the flow had arrived before the one that opened it.
    opened: u64,
}

/// Bits that the windows of all flows share, unless they are many.
const WINDOW_BITS: usize = 1 << 23;
/// Bits of the widest window, and gaps that are remembered of one flow at most.
const MOST_WINDOW: usize = 1 << 16;
/// Gaps that all flows share, unless they are many.
const GAPS: usize = 1 << 18;
const MOST_GAPS: usize = 1 << 12;

impl Flows {
    /// So many flows of which nothing has arrived.
    pub fn new(count: usize) -> Flows {
        let share = |all: usize, most: usize| (all / count.max(1)).clamp(1, most);
        let words = (share(WINDOW_BITS / 64, MOST_WINDOW / 64) + 1).next_power_of_two() / 2;
        let most_gaps = share(GAPS, MOST_GAPS);
        Flows {
            flows: vec![Flow::default(); count],
            words,
            arrived: vec![0; words * count],
            most_gaps,
            gaps: vec![Gap::default(); most_gaps * count],
            gap_count: vec![0; count],
        }
    }

    /// How far behind the highest number of its flow a packet may be so that it
    /// is told from a copy.
    pub fn window(&self) -> usize {
        self.words * 64
    }

    /// Notes the arrival of packet number `sequence` of a flow. Numbers begin
    /// again at 0 behind the last, so the nearer way round tells which is ahead
    /// (RFC 1982).
    #[inline]
    pub fn arrive(&mut self, flow: u32, sequence: u32) -> Arrival {
        let ahead = sequence.wrapping_sub(self.flows[flow as usize].next);
        if ahead == 0 {
            self.mark(flow, sequence, true);
            self.flows[flow as usize].next = sequence.wrapping_add(1);
            self.flows[flow as usize].received += 1;
            return Arrival::InOrder;
        }
        if ahead <= i32::MAX as u32 {
            self.pass_over(flow, sequence, ahead);
            return Arrival::InOrder;
        }
        self.arrive_late(flow, sequence, u32::MAX - ahead)
    }

    /// A packet behind the highest by `behind`.
    #[cold]
    fn arrive_late(&mut self, flow: u32, sequence: u32, behind: u32) -> Arrival {
        let is_told = (behind as usize) < self.window();
        if is_told && self.has(flow, sequence) {
            self.flows[flow as usize].duplicated += 1;
            return Arrival::Duplicated;
        }
        if is_told {
            self.mark(flow, sequence, true);
        }
        let opened = self.gap_of(flow, sequence);
        let counts = &mut self.flows[flow as usize];
        let extent = opened.map(|opened| counts.received - opened);
        counts.received += 1;
        counts.reordered += 1;
        counts.extent = counts.extent.max(extent.unwrap_or(0));
        Arrival::Reordered { extent }
    }

    /// A packet ahead of the one that was next: a gap begins.
    #[cold]
    fn pass_over(&mut self, flow: u32, sequence: u32, ahead: u32) {
        let next = self.flows[flow as usize].next;
        if ahead as usize >= self.window() {
            let words = self.words;
            self.arrived[flow as usize * words..][..words].fill(0);
        } else {
            (0..ahead).for_each(|step| self.mark(flow, next.wrapping_add(step), false));
        }
        self.mark(flow, sequence, true);
        let counts = &mut self.flows[flow as usize];
        let gap = Gap { first: next, end: sequence, opened: counts.received };
        counts.next = sequence.wrapping_add(1);
        counts.received += 1;
        let count = &mut self.gap_count[flow as usize];
        let place = *count as usize % self.most_gaps;
        self.gaps[flow as usize * self.most_gaps + place] = gap;
        *count = count.wrapping_add(1);
    }

    /// How many packets had arrived when `sequence` was passed over.
    fn gap_of(&self, flow: u32, sequence: u32) -> Option<u64> {
        let known = (self.gap_count[flow as usize] as usize).min(self.most_gaps);
        let gaps = &self.gaps[flow as usize * self.most_gaps..][..known];
        let holds = |gap: &&Gap| sequence.wrapping_sub(gap.first) < gap.end.wrapping_sub(gap.first);
        gaps.iter().find(holds).map(|gap| gap.opened)
    }

    #[inline]
    fn place(&self, flow: u32, sequence: u32) -> (usize, u64) {
        let bit = sequence as usize & (self.window() - 1);
        (flow as usize * self.words + bit / 64, 1 << (bit % 64))
    }

    #[inline]
    fn mark(&mut self, flow: u32, sequence: u32, has_arrived: bool) {
        let (word, bit) = self.place(flow, sequence);
        match has_arrived {
            true => self.arrived[word] |= bit,
            false => self.arrived[word] &= !bit,
        }
    }

    #[inline]
    fn has(&self, flow: u32, sequence: u32) -> bool {
        let (word, bit) = self.place(flow, sequence);
        self.arrived[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Received, duplicated and reordered, with a window of 64.
    fn counts(sequences: impl IntoIterator<Item = u32>) -> (u64, u64, u64) {
        let mut flows = Flows::new(1 << 18);
        assert_eq!(flows.window(), 64);
        sequences.into_iter().for_each(|sequence| {
            flows.arrive(9, sequence);
        });
        let flow = flows.flows[9];
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
    fn the_fewer_flows_the_longer_the_memory() {
        for (count, window) in [(0, 1 << 16), (1, 1 << 16), (1000, 1 << 13), (1_000_000, 64)] {
            assert_eq!(Flows::new(count).window(), window, "{count}");
        }
        let mut flows = Flows::new(1);
        (1..5000).for_each(|sequence| {
            flows.arrive(0, sequence);
        });
        assert_eq!(flows.arrive(0, 0), Arrival::Reordered { extent: Some(4999) });
        assert_eq!(flows.arrive(0, 0), Arrival::Duplicated);
    }

    #[test]
    fn the_extent_is_counted_from_the_first_that_passed() {
        let extents = |sequences: &[u32]| -> Vec<Option<u64>> {
            let mut flows = Flows::new(1);
            let arrivals = sequences.iter().map(|sequence| flows.arrive(0, *sequence));
            let extent = |arrival| match arrival {
                Arrival::Reordered { extent } => Some(extent.unwrap()),
                _ => None,
            };
            arrivals.map(extent).collect()
        };
        // The example of RFC 4737 §4.2 and its like.
        assert_eq!(extents(&[0, 2, 3, 1]), [None, None, None, Some(2)]);
        assert_eq!(extents(&[3, 0, 1, 2]), [None, Some(1), Some(2), Some(3)]);
        assert_eq!(extents(&[1, 1, 4, 0, 3]), [None, None, None, Some(2), Some(2)]);
    }

    #[test]
    fn numbers_may_begin_again() {
        let mut flows = Flows::new(1);
        flows.flows[0].next = u32::MAX;
        let arrivals = [u32::MAX, 1, 0, 0, u32::MAX].map(|sequence| flows.arrive(0, sequence));
        use Arrival::*;
        let late = Reordered { extent: Some(1) };
        assert_eq!(arrivals, [InOrder, InOrder, late, Duplicated, Duplicated]);
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
