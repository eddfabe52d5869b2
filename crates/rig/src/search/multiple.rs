//! Multiple loss ratio search (RFC 9971).
//!
//! Several goals are searched for at once, as trials made for one speak for the
//! others. A load is judged by many short trials rather than by one long: it is a
//! lower bound for a goal when no more than the goal's *exceed ratio* of their time
//! lost too much. The search first looks with short trials and coarse widths, then
//! with longer and finer ones, and looks outside of the interval it expected when
//! a bound does not hold any longer.

use std::time::Duration;

use super::record::{Class, Record, SearchGoal};
use super::{SystemUnderTest, Trial};
use crate::Rig;

/// One goal of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Its name: `NDR`, `PDR`.
    pub name: String,
    /// The share of packets that a good trial may lose.
    pub loss_ratio: f64,
    /// The share of trial time that may be bad at a load that is still carried;
    /// at least 0 and below 1.
    pub exceed_ratio: f64,
    /// The width, relative to the upper bound, at which the search ends.
    pub width: f64,
    /// How long the first trials last.
    pub initial_trial: Duration,
    /// How long the trials last that count.
    pub final_trial: Duration,
    /// How much trial time a load needs to be judged.
    pub sum: Duration,
}

/// A search over a range of loads.
#[derive(Clone, Debug, PartialEq)]
pub struct MultipleLossRatioSearch {
    /// The least load that is tried, in packets per second.
    pub least: f64,
    /// The highest.
    pub most: f64,
    /// What to search for.
    pub goals: Vec<Goal>,
    /// The trial time after which the search gives up.
    pub limit: Duration,
}

/// What was found for one goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The goal's name.
    pub goal: String,
    /// The relevant lower bound, in packets per second; none where even the least
    /// load was not carried.
    pub lower: Option<f64>,
    /// The relevant upper bound; none where the highest load was carried.
    pub upper: Option<f64>,
    /// The rate that the lower bound forwards in the trial that the exceed ratio
    /// selects: RFC 9971's result.
    pub conditional_throughput: Option<f64>,
    /// Whether the bounds lie within the goal's width, or an end of the range is
    /// the bound: false when the time did not suffice.
    pub complete: bool,
    /// Whether at the upper bound it was the generator that fell short.
    pub limited_by_generator: bool,
}

/// A search's results.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// One for each goal, in their order.
    pub found: Vec<Found>,
    /// Trials made.
    pub trials: usize,
    /// Their time.
    pub spent: Duration,
}

impl Outcome {
    /// Counts the search in the account of the rig.
    pub fn count(&self, rig: &Rig) {
        rig.count(|account| {
            account.searches += 1;
            account.search_trials += u32::try_from(self.trials).unwrap_or(u32::MAX);
            let given_up = self.found.iter().any(|found| !found.complete);
            account.searches_given_up += u32::from(given_up);
        });
    }
}

/// Coarser targets before the final one, each twice as wide as the next.
const PRECEDING: u32 = 2;

impl Goal {
    /// No packet lost: NDR, with the defaults of FD.io's CSIT (trials of one
    /// second, 21 seconds to judge a load, half of the time may be bad, 0.5 %).
    pub fn ndr() -> Goal {
        Goal {
            name: "NDR".to_owned(),
            loss_ratio: 0.0,
            exceed_ratio: 0.5,
            width: 0.005,
            initial_trial: Duration::from_secs(1),
            final_trial: Duration::from_secs(1),
            sum: Duration::from_secs(21),
        }
    }

    /// At most 0.5 % of packets lost: PDR.
    pub fn pdr() -> Goal {
        Goal { name: "PDR".to_owned(), loss_ratio: 0.005, ..Goal::ndr() }
    }

    /// The same goal with all its durations multiplied.
    pub fn scaled(mut self, by: f64) -> Goal {
        for duration in [&mut self.initial_trial, &mut self.final_trial, &mut self.sum] {
            *duration = duration.mul_f64(by.max(0.0));
        }
        self
    }

    /// What is aimed at `preceding` targets before the end.
    fn target(&self, preceding: u32) -> SearchGoal {
        let share = f64::from(preceding) / f64::from(PRECEDING);
        let between = |first: Duration, last: Duration| {
            let (first, last) = (first.as_secs_f64(), last.as_secs_f64());
            Duration::from_secs_f64(last * (first / last).powf(share))
        };
        let trial = match preceding {
            0 => self.final_trial,
            _ => between(self.initial_trial, self.final_trial),
        };
        let sum = match preceding {
            0 => self.sum,
            _ => between(self.initial_trial, self.sum),
        };
        SearchGoal {
            loss_ratio: self.loss_ratio,
            exceed_ratio: self.exceed_ratio,
            width: (self.width * f64::from(1 << preceding)).min(0.5),
            trial,
            sum,
        }
    }
}

impl MultipleLossRatioSearch {
    /// Searches for all goals.
    ///
    /// # Errors
    /// The first that the system gives.
    pub fn run<S: SystemUnderTest>(&self, system: &mut S) -> Result<Outcome, S::Error> {
        let mut search =
            Search { settings: self, system, record: Record::default(), spent: Duration::ZERO };
        if let Some(goal) = self.goals.iter().min_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio)) {
            let mut hint = search.begin(goal)?;
            for preceding in (0..=PRECEDING).rev() {
                for goal in &self.goals {
                    hint = search.narrow(&goal.target(preceding), hint)?;
                }
            }
        }
        let found = self.goals.iter().map(|goal| search.found(goal)).collect();
        Ok(Outcome { found, trials: search.record.trials(), spent: search.spent })
    }
}

/// A search on its way.
struct Search<'a, S> {
    settings: &'a MultipleLossRatioSearch,
    system: &'a mut S,
    record: Record,
    spent: Duration,
}

impl<S: SystemUnderTest> Search<'_, S> {
    /// A first guess: the rate forwarded when all is offered, and the rate
    /// forwarded when that is.
    fn begin(&mut self, goal: &Goal) -> Result<f64, S::Error> {
        let mut rate = self.settings.most;
        for _ in 0..2 {
            let trial = self.measure(rate, goal.initial_trial)?;
            let forwarded = rate * (1.0 - trial.loss_ratio());
            rate = forwarded.clamp(self.settings.least, self.settings.most);
        }
        Ok(rate)
    }

    /// Narrows the bounds of a target to its width; starts at `hint` where there
    /// are none. Returns the lower bound, or the least load.
    fn narrow(&mut self, target: &SearchGoal, hint: f64) -> Result<f64, S::Error> {
        let mut stride = target.width;
        while self.spent < self.settings.limit {
            let rate = match self.record.bounds(target) {
                (Some(lower), Some(upper)) if is_narrow(lower, upper, target.width) => break,
                (Some(lower), Some(upper)) => (lower * upper).sqrt(),
                (Some(lower), None) if lower >= self.settings.most => break,
                (None, Some(upper)) if upper <= self.settings.least => break,
                (Some(lower), None) => lower / (1.0 - stride),
                (None, Some(upper)) => upper * (1.0 - stride),
                (None, None) => hint,
            };
            // Looking outside, each step is twice as far as the one before.
            stride = (2.0 * stride).min(0.5);
            self.judge(rate.clamp(self.settings.least, self.settings.most), target)?;
        }
        Ok(self.record.bounds(target).0.unwrap_or(self.settings.least))
    }

    /// Makes trials until it is clear what a load is to a target.
    fn judge(&mut self, rate: f64, target: &SearchGoal) -> Result<(), S::Error> {
        while self.record.class(rate, target) == Class::Undecided
            && self.spent < self.settings.limit
        {
            self.measure(rate, target.trial)?;
        }
        Ok(())
    }

    fn measure(&mut self, rate: f64, duration: Duration) -> Result<Trial, S::Error> {
        let trial = self.system.offer(rate, duration)?;
        self.spent += duration;
        // What the system makes of the request does not move it on the axis.
        self.record.add(Trial { rate, duration, ..trial });
        Ok(trial)
    }

    fn found(&self, goal: &Goal) -> Found {
        let target = goal.target(0);
        let (lower, upper) = self.record.bounds(&target);
        let complete = match (lower, upper) {
            (Some(lower), Some(upper)) => is_narrow(lower, upper, goal.width),
            (Some(lower), None) => lower >= self.settings.most,
            (None, Some(upper)) => upper <= self.settings.least,
            (None, None) => false,
        };
        Found {
            goal: goal.name.clone(),
            lower,
            upper,
            conditional_throughput: lower
                .map(|rate| self.record.conditional_throughput(rate, &target)),
            complete,
            limited_by_generator: upper
                .is_some_and(|rate| self.record.is_limited_by_generator(rate)),
        }
    }
}

fn is_narrow(lower: f64, upper: f64, width: f64) -> bool {
    let middle = (lower * upper).sqrt();
    // Where there is no number between them they are as narrow as can be.
    lower >= upper * (1.0 - width) || middle <= lower || middle >= upper
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::*;

    fn search() -> MultipleLossRatioSearch {
        MultipleLossRatioSearch {
            least: 1e4,
            most: 2e7,
            goals: vec![Goal::ndr(), Goal::pdr()],
            limit: Duration::from_secs(3600),
        }
    }

    #[test]
    fn a_thousand_noisy_systems_within_width() {
        let search = search();
        let (mut ndr, mut pdr) = (0, 0);
        for seed in 0..1000 {
            // Interruptions in 20 of 100 trials; the limit itself wanders by a
            // fifth of the width.
            let mut system = Simulated::random(seed, 0.2, 0.001);
            let outcome = search.run(&mut system).unwrap();
            let near = |found: &Found, limit: f64| {
                let width = limit * search.goals[0].width;
                found.complete
                    && (found.lower.unwrap() - limit).abs() <= width
                    && (found.upper.unwrap() - limit).abs() <= width
            };
            ndr += usize::from(near(&outcome.found[0], system.limit));
            // At this load 0.5 % of packets exceed the limit.
            pdr += usize::from(near(&outcome.found[1], system.limit / 0.995));
        }
        assert!(ndr >= 950 && pdr >= 950, "NDR {ndr}, PDR {pdr} of 1000");
    }

    #[test]
    fn conditional_throughput_is_what_is_forwarded() {
        let mut system = Simulated::quiet(1e6);
        let outcome = search().run(&mut system).unwrap();
        for found in &outcome.found {
            let forwarded = found.conditional_throughput.unwrap();
            assert!((0.995e6..1.000_001e6).contains(&forwarded), "{found:?}");
        }
        assert!(outcome.found[1].lower > outcome.found[0].lower);
        assert_eq!(outcome.spent, system.spent);
    }

    #[test]
    fn limits_outside_of_the_range_are_told() {
        let fast = search().run(&mut Simulated::quiet(1e9)).unwrap().found;
        assert_eq!((fast[0].lower, fast[0].upper), (Some(2e7), None));
        let slow = search().run(&mut Simulated::quiet(10.0)).unwrap().found;
        assert_eq!((slow[0].lower, slow[0].upper), (None, Some(1e4)));
        assert_eq!(slow[0].conditional_throughput, None);
        assert!(fast[0].complete && slow[0].complete);
    }

    #[test]
    fn a_search_that_may_not_last_ends_and_says_so() {
        let mut hasty = search();
        hasty.limit = Duration::from_secs(10);
        let outcome = hasty.run(&mut Simulated::random(7, 0.0, 0.0)).unwrap();
        assert!(outcome.spent <= Duration::from_secs(11));
        assert!(!outcome.found[0].complete);
    }
}
