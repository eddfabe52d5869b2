//! Whose turn it is.

use crate::random::Random;

/// How the flow of the next packet is chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// All in turn.
    RoundRobin,
    /// Any, with the same probability.
    Random,
    /// Drawn by Zipf's law: the flow of rank k has a probability in proportion
    /// to k to the power of minus this. Which flow has which rank is drawn from
    /// the seed, so that the busiest are no neighbours in tables.
    Zipf(f64),
    /// In turn, those with a larger weight more often, evenly spread: one weight
    /// for each flow. A flow with weight 0 has no turn.
    Weighted(Vec<u32>),
}

/// A choice that goes on and on.
#[derive(Debug)]
pub(crate) enum Choice {
    Turns { next: u32, count: u32 },
    Any { count: u32 },
    Drawn(Vec<Slice>),
    Round { round: Vec<u32>, next: usize },
}

/// One slice of an alias table (Walker): it belongs to a flow up to a bound, and
/// to another beyond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    bound: u32,
    other: u32,
}

impl Choice {
    /// A choice among `count` flows, or none where no flow would ever have a
    /// turn, or a weight is missing.
    pub fn new(selection: &Selection, count: u32, random: &mut Random) -> Option<Choice> {
        let choice = match selection {
            Selection::RoundRobin => Choice::Turns { next: 0, count },
            Selection::Random => Choice::Any { count },
            Selection::Zipf(exponent) if exponent.is_finite() => {
                Choice::Drawn(alias(&zipf(*exponent, count, random)))
            }
            Selection::Weighted(weights) if weights.len() == count as usize => {
                Choice::Round { round: round(weights), next: 0 }
            }
            _ => return None,
        };
        let is_empty = matches!(&choice, Choice::Round { round, .. } if round.is_empty());
        (count > 0 && !is_empty).then_some(choice)
    }

    /// The flow whose turn it is.
    #[inline]
    pub fn turn(&mut self, random: &mut Random) -> u32 {
        match self {
            Choice::Turns { next, count } => {
                let flow = *next;
                *next = if flow + 1 == *count { 0 } else { flow + 1 };
                flow
            }
            Choice::Any { count } => random.below(*count),
            Choice::Drawn(slices) => {
                let flow = random.below(slices.len() as u32);
                let Slice { bound, other } = slices[flow as usize];
                if random.below(u32::MAX) < bound { flow } else { other }
            }
            Choice::Round { round, next } => {
                let flow = round[*next];
                *next = if *next + 1 == round.len() { 0 } else { *next + 1 };
                flow
            }
        }
    }
}

/// The shortest round in which each flow has turns in proportion to its weight,
/// evenly spread.
fn round(weights: &[u32]) -> Vec<u32> {
    let divisor = weights.iter().copied().fold(0, common_divisor).max(1);
    let turns = (0_u32..).zip(weights).flat_map(|(flow, &weight)| {
        let weight = weight / divisor;
        // The middles of `weight` equal parts of the round.
        let middle = move |turn| (f64::from(turn) + 0.5) / f64::from(weight);
        (0..weight).map(move |turn| (middle(turn), flow))
    });
    let mut turns: Vec<(f64, u32)> = turns.collect();
    turns.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    turns.into_iter().map(|(_, flow)| flow).collect()
}

/// The greatest common divisor (Euclid).
fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The weights of Zipf's law, in random order.
fn zipf(exponent: f64, count: u32, random: &mut Random) -> Vec<f64> {
    let mut weights: Vec<f64> = (1..=count).map(|rank| f64::from(rank).powf(-exponent)).collect();
    for last in (1..weights.len()).rev() {
        weights.swap(last, random.below(last as u32 + 1) as usize);
    }
    weights
}

/// The alias table of weights (Vose, A Linear Algorithm for Generating Random
/// Numbers with a Given Distribution).
fn alias(weights: &[f64]) -> Vec<Slice> {
    let sum: f64 = weights.iter().sum();
    let mut heights: Vec<f64> =
        weights.iter().map(|weight| weight / sum * weights.len() as f64).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|flow| heights[*flow] < 1.0);
    let mut slices = vec![Slice { bound: u32::MAX, other: 0 }; weights.len()];
    while let (Some(low), Some(&high)) = (small.pop(), large.last()) {
        slices[low] =
            Slice { bound: (heights[low] * f64::from(u32::MAX)) as u32, other: high as u32 };
        heights[high] -= 1.0 - heights[low];
        if heights[high] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(selection: Selection, flows: u32, count: usize) -> Vec<u32> {
        let mut random = Random::new(3);
        let mut choice = Choice::new(&selection, flows, &mut random).unwrap();
        (0..count).map(|_| choice.turn(&mut random)).collect()
    }

    fn counts(turns: &[u32], flows: u32) -> Vec<usize> {
        (0..flows).map(|flow| turns.iter().filter(|turn| **turn == flow).count()).collect()
    }

    #[test]
    fn equal_weights_are_round_robin() {
        let expected = [0, 1, 2, 0, 1, 2];
        assert_eq!(round(&[6, 0, 4]), [0, 2, 0, 2, 0]);
        assert_eq!(turns(Selection::RoundRobin, 3, 6), expected);
        assert_eq!(turns(Selection::Weighted(vec![1, 1, 1]), 3, 6), expected);
    }

    #[test]
    fn turns_of_one_flow_are_spread_over_the_round() {
        let turns = turns(Selection::Weighted(vec![1, 4, 0, 3]), 4, 16);
        assert_eq!(counts(&turns, 4), [2, 8, 0, 6]);
        assert!(turns.windows(3).all(|three| three != [1, 1, 1]), "{turns:?}");
    }

    #[test]
    fn random_turns_are_shared_evenly() {
        let counts = counts(&turns(Selection::Random, 4, 40_000), 4);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_first_ranks_have_what_zipf_gives_them() {
        const FLOWS: u32 = 1000;
        let turns = turns(Selection::Zipf(1.0), FLOWS, 100_000);
        let mut counts = counts(&turns, FLOWS);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let harmonic: f64 = (1..=FLOWS).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in 1..=5 {
            let expected = 100_000.0 / harmonic / rank as f64;
            let found = counts[rank - 1] as f64;
            assert!((found / expected - 1.0).abs() < 0.1, "rank {rank}: {found} not {expected}");
        }
        let flat = self::counts(&self::turns(Selection::Zipf(0.0), 4, 40_000), 4);
        assert!(flat.iter().all(|count| (9_500..10_500).contains(count)), "{flat:?}");
    }

    #[test]
    fn no_user_may_be_left() {
        let none = |selection, count| Choice::new(&selection, count, &mut Random::new(1)).is_none();
        assert!(none(Selection::RoundRobin, 0));
        assert!(none(Selection::Weighted(vec![0, 0]), 2));
        assert!(none(Selection::Weighted(vec![1]), 2));
        assert!(none(Selection::Zipf(f64::NAN), 2));
    }
}
