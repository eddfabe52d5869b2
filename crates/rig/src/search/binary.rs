//! Binary search with loss verification (ETSI GS NFV-TST 009, clause 12.3.3).
//!
//! A trial with loss is not believed at once: what else runs on the machine may
//! have caused it. It is repeated at the same rate, and one repetition without
//! loss clears the rate (the standard's annex on loss verification says why: loss
//! by a limit repeats, loss by an interruption seldom does).

use std::time::Duration;

use super::SystemUnderTest;
use crate::Rig;

/// What to search for, and how hard to look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BinarySearch {
    /// The least rate that is tried, in packets per second.
    pub least: f64,
    /// The highest.
    pub most: f64,
    /// The share of packets that may be lost; 0 for throughput as RFC 2544 has it.
    pub loss_ratio: f64,
    /// The width, relative to the upper bound, at which the search ends.
    pub width: f64,
    /// How long a trial lasts.
    pub trial: Duration,
    /// How often a trial with loss is repeated before it is believed.
    pub repeats: u32,
}

/// Where the search ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The highest rate that was carried, in packets per second; none where even
    /// the least was not.
    pub lower: Option<f64>,
    /// The least rate above it that was not carried; none where the highest was.
    pub upper: Option<f64>,
    /// Trials made.
    pub trials: u32,
    /// Trials with loss that a repetition cleared.
    pub cleared: u32,
    /// Whether the generator could not send all at the rate above: then it is the
    /// generator that was measured.
    pub limited_by_generator: bool,
}

impl Bracket {
    /// Counts the search and its retries in the account of the rig.
    pub fn count(&self, rig: &Rig) {
        rig.count(|account| {
            account.searches += 1;
            account.search_cleared += self.cleared;
            account.searches_given_up += u32::from(self.lower.is_none());
        });
    }
}

impl BinarySearch {
    /// How many rates are tried at most, repetitions not counted.
    pub fn steps(&self) -> u32 {
        // The interval shrinks to half of its logarithm with each step.
        let ratio = (self.most / self.least).ln() / -(1.0 - self.width).ln();
        2 + ratio.max(1.0).log2().ceil() as u32
    }

    /// How likely the bracket holds the limit of a system that loses packets in
    /// `transient` of its trials (0 to 1) for reasons other than load.
    pub fn confidence(&self, transient: f64) -> f64 {
        let deceived = transient.powi(self.repeats as i32 + 1);
        (1.0 - deceived).powi(self.steps() as i32)
    }

    /// Searches.
    ///
    /// # Errors
    /// The first that the system gives.
    pub fn run<S: SystemUnderTest>(&self, system: &mut S) -> Result<Bracket, S::Error> {
        let mut bracket = Bracket {
            lower: None,
            upper: None,
            trials: 0,
            cleared: 0,
            limited_by_generator: false,
        };
        if self.carries(self.most, system, &mut bracket)? {
            bracket.lower = Some(self.most);
            return Ok(bracket);
        }
        let mut upper = self.most;
        bracket.upper = Some(upper);
        if !self.carries(self.least, system, &mut bracket)? {
            bracket.upper = Some(self.least);
            return Ok(bracket);
        }
        let mut lower = self.least;
        // A width too fine for numbers ends the search as well.
        while lower < upper * (1.0 - self.width) {
            let middle = (lower * upper).sqrt();
            if middle <= lower || middle >= upper {
                break;
            }
            match self.carries(middle, system, &mut bracket)? {
                true => lower = middle,
                false => upper = middle,
            }
        }
        bracket.lower = Some(lower);
        bracket.upper = Some(upper);
        Ok(bracket)
    }

    fn carries<S: SystemUnderTest>(
        &self,
        rate: f64,
        system: &mut S,
        bracket: &mut Bracket,
    ) -> Result<bool, S::Error> {
        for repeat in 0..=self.repeats {
            let trial = system.offer(rate, self.trial)?;
            bracket.trials += 1;
            if trial.loss_ratio() <= self.loss_ratio {
                bracket.cleared += u32::from(repeat > 0);
                return Ok(true);
            }
            bracket.limited_by_generator = trial.unsent > trial.lost;
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::*;

    const SEARCH: BinarySearch = BinarySearch {
        least: 1e4,
        most: 2e7,
        loss_ratio: 0.0,
        width: 0.01,
        trial: Duration::from_secs(1),
        repeats: 2,
    };

    #[test]
    fn a_thousand_noisy_systems_within_width_at_the_stated_confidence() {
        let transient = 0.1;
        let right = (0..1000)
            .filter(|&seed| {
                let mut system = Simulated::random(seed, transient, 0.0);
                let found = SEARCH.run(&mut system).unwrap();
                let (Some(lower), Some(upper)) = (found.lower, found.upper) else { return false };
                assert!(lower >= upper * (1.0 - SEARCH.width));
                lower <= system.limit && system.limit < upper
            })
            .count();
        // Three standard deviations of a binomial below what is stated.
        let stated = SEARCH.confidence(transient);
        let least = 1000.0 * stated - 3.0 * (1000.0 * stated * (1.0 - stated)).sqrt();
        assert!(stated > 0.98 && right as f64 >= least, "{right} of 1000, stated {stated}");
    }

    #[test]
    fn without_verification_the_same_noise_deceives() {
        let hasty = BinarySearch { repeats: 0, ..SEARCH };
        let right = (0..1000)
            .filter(|&seed| {
                let mut system = Simulated::random(seed, 0.1, 0.0);
                let found = hasty.run(&mut system).unwrap();
                found.lower.is_some_and(|lower| lower >= system.limit * (1.0 - hasty.width))
            })
            .count();
        assert!(right < 900, "{right}: the noise of the test above is no challenge");
    }

    #[test]
    fn limits_outside_of_the_range_are_told() {
        let mut fast = Simulated::quiet(1e9);
        let found = SEARCH.run(&mut fast).unwrap();
        assert_eq!((found.lower, found.upper, found.trials), (Some(2e7), None, 1));
        let mut slow = Simulated::quiet(10.0);
        let found = SEARCH.run(&mut slow).unwrap();
        assert_eq!((found.lower, found.upper), (None, Some(1e4)));
    }

    #[test]
    fn a_slow_generator_is_told() {
        let mut system = Simulated::quiet(1e9);
        system.generator = 1e6;
        let found = SEARCH.run(&mut system).unwrap();
        assert!(found.limited_by_generator);
        assert!((found.lower.unwrap() / 1e6 - 1.0).abs() <= SEARCH.width);
    }
}
