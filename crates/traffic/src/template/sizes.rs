//! How long packets are.

use crate::random::Random;

/// Simple IMIX as Ethernet frames without their check sequence, shortest first,
/// and how many of each there are in twelve.
const IMIX: [(usize, usize); 3] = [(60, 7), (590, 4), (1514, 1)];

/// Lengths of the frames of a stream, in bytes from the Ethernet header to the
/// end of the IP packet, that is without the frame check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All alike.
    Fixed(usize),
    /// From the first to the last in steps, then again from the first.
    Sweep {
        /// The first length.
        from: usize,
        /// No frame is longer.
        to: usize,
        /// How much longer than the one before each is.
        step: usize,
    },
    /// Drawn at random: of twelve 7 have 60 bytes, 4 have 590 and one has 1514
    /// (simple IMIX). Those that headers and stamp do not fit in are longer.
    Imix,
    /// These, in turn, as in a capture. Those that headers and stamp do not fit
    /// in are longer; those that a buffer has no room for, shorter.
    Listed(Vec<usize>),
}

/// The lengths of a stream's packets, one after the other.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// Every length there is, once.
    pub all: Vec<usize>,
    /// Indices into them: one round.
    round: Vec<u16>,
    next: usize,
    /// Whether they are drawn from the round instead of going round.
    is_drawn: bool,
}

impl Lengths {
    /// The lengths of `sizes`, of which all lie between `least` and `most`, or
    /// none if they cannot.
    pub fn new(sizes: &Sizes, least: usize, most: usize) -> Option<Lengths> {
        let round: Vec<usize> = match sizes {
            Sizes::Fixed(bytes) => vec![*bytes],
            Sizes::Sweep { from, to, step } => {
                (*from..=*to.min(&most)).step_by(*step.max(&1)).collect()
            }
            Sizes::Imix => {
                let each = IMIX.iter().map(|(bytes, count)| vec![*bytes.max(&least); *count]);
                each.flatten().collect()
            }
            Sizes::Listed(all) => all.iter().map(|bytes| *bytes.clamp(&least, &most)).collect(),
        };
        let sweeps_too_far = matches!(sizes, Sizes::Sweep { to, .. } if *to > most);
        let fits = round.iter().all(|bytes| (least..=most).contains(bytes));
        if round.is_empty() || !fits || sweeps_too_far {
            return None;
        }
        let mut all = round.clone();
        all.sort_unstable();
        all.dedup();
        // There are fewer lengths than bytes in a buffer.
        let index = |bytes: &usize| all.binary_search(bytes).unwrap_or(0) as u16;
        let round = round.iter().map(index).collect();
        Some(Lengths { all, round, next: 0, is_drawn: *sizes == Sizes::Imix })
    }

    /// Index of the next packet's length.
    #[inline]
    pub fn turn(&mut self, random: &mut Random) -> u16 {
        if self.is_drawn {
            return self.round[random.below(self.round.len() as u32) as usize];
        }
        let index = self.round[self.next];
        self.next = if self.next + 1 == self.round.len() { 0 } else { self.next + 1 };
        index
    }

    /// Mean of `of` over the lengths.
    pub fn mean(&self, of: impl Fn(usize) -> u64) -> f64 {
        let sum: u64 = self.round.iter().map(|index| of(self.all[usize::from(*index)])).sum();
        sum as f64 / self.round.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(sizes: &Sizes, count: usize) -> Vec<usize> {
        let mut lengths = Lengths::new(sizes, 60, 2048).unwrap();
        let mut random = Random::new(1);
        let turns: Vec<u16> = (0..count).map(|_| lengths.turn(&mut random)).collect();
        turns.into_iter().map(|index| lengths.all[usize::from(index)]).collect()
    }

    #[test]
    fn lengths_come_in_turn() {
        assert_eq!(lengths(&Sizes::Fixed(64), 3), [64; 3]);
        let sweep = Sizes::Sweep { from: 64, to: 70, step: 3 };
        assert_eq!(lengths(&sweep, 5), [64, 67, 70, 64, 67]);
        let listed = Sizes::Listed(vec![1514, 54, 9000]);
        assert_eq!(lengths(&listed, 4), [1514, 60, 2048, 1514]);
    }

    #[test]
    fn imix_has_seven_four_and_one_of_twelve() {
        let drawn = lengths(&Sizes::Imix, 12_000);
        for (bytes, count) in IMIX {
            let found = drawn.iter().filter(|length| **length == bytes).count();
            assert!(found.abs_diff(count * 1000) < 300, "{found} of {bytes}");
        }
        let raised = Lengths::new(&Sizes::Imix, 100, 2048).unwrap();
        assert_eq!(raised.all, [100, 590, 1514]);
        assert_eq!(raised.mean(|bytes| bytes as u64), (700.0 + 2360.0 + 1514.0) / 12.0);
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let refused = |sizes: Sizes| Lengths::new(&sizes, 60, 2048).is_none();
        assert!(refused(Sizes::Fixed(59)) && refused(Sizes::Fixed(2049)));
        assert!(refused(Sizes::Sweep { from: 59, to: 100, step: 1 }));
        assert!(refused(Sizes::Sweep { from: 60, to: usize::MAX, step: 1 }));
        assert!(refused(Sizes::Sweep { from: 70, to: 69, step: 1 }));
        assert!(refused(Sizes::Listed(vec![])));
    }
}
