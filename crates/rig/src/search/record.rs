//! The trials made so far, and what they say of a load (RFC 9971, its appendices
//! on load classification and conditional throughput).

use std::collections::BTreeMap;
use std::time::Duration;

use super::Trial;

/// A goal, or a coarser one on the way to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SearchGoal {
    pub loss_ratio: f64,
    pub exceed_ratio: f64,
    pub width: f64,
    pub trial: Duration,
    pub sum: Duration,
}

/// Every trial, by the load it was made at.
#[derive(Default)]
pub struct Record {
    loads: BTreeMap<Load, Vec<Trial>>,
}

/// A load in packets per second, in numeric order.
#[derive(Clone, Copy, PartialEq)]
struct Load(f64);

impl Eq for Load {}

impl PartialOrd for Load {
    fn partial_cmp(&self, other: &Load) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Load {
    fn cmp(&self, other: &Load) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// What a load is to a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It is carried.
    Lower,
    /// It is not.
    Upper,
    /// More trials are needed to tell.
    Undecided,
}

/// Seconds of trials at one load, by what they say of a target.
#[derive(Default)]
struct Sums {
    low: f64,
    high: f64,
    short_low: f64,
    short_high: f64,
}

impl Record {
    pub fn add(&mut self, trial: Trial) {
        self.loads.entry(Load(trial.rate)).or_default().push(trial);
    }

    pub fn trials(&self) -> usize {
        self.loads.values().map(Vec::len).sum()
    }

    /// What a load is to a target.
    pub fn class(&self, rate: f64, target: &SearchGoal) -> Class {
        self.loads.get(&Load(rate)).map_or(Class::Undecided, |trials| classify(trials, target))
    }

    /// The relevant bounds of a target: the least load that is an upper bound, and
    /// the highest lower bound below it.
    pub fn bounds(&self, target: &SearchGoal) -> (Option<f64>, Option<f64>) {
        let class = |trials: &Vec<Trial>| classify(trials, target);
        let upper = self.loads.iter().find(|(_, trials)| class(trials) == Class::Upper);
        let upper = upper.map(|(load, _)| load.0);
        let below = |load: &Load| upper.is_none_or(|upper| load.0 < upper);
        let mut lower = self.loads.iter().rev().filter(|(load, _)| below(load));
        let lower = lower.find(|(_, trials)| class(trials) == Class::Lower);
        (lower.map(|(load, _)| load.0), upper)
    }

    /// The rate that a lower bound forwards: the load less the loss of the trial
    /// at the quantile that the exceed ratio sets, trials still missing counted as
    /// lost whole.
    pub fn conditional_throughput(&self, rate: f64, target: &SearchGoal) -> f64 {
        let Some(trials) = self.loads.get(&Load(rate)) else { return 0.0 };
        let mut long: Vec<_> = trials
            .iter()
            .filter(|trial| trial.duration >= target.trial)
            .map(|trial| (trial.loss_ratio(), trial.duration.as_secs_f64()))
            .collect();
        long.sort_by(|a, b| a.0.total_cmp(&b.0));
        let made: f64 = long.iter().map(|(_, seconds)| seconds).sum();
        let mut left = made.max(target.sum.as_secs_f64()) * (1.0 - target.exceed_ratio);
        for (loss_ratio, seconds) in long {
            left -= seconds;
            if left <= 0.0 {
                return rate * (1.0 - loss_ratio);
            }
        }
        0.0
    }

    /// Whether a trial at this load could not send all that was due.
    pub fn is_limited_by_generator(&self, rate: f64) -> bool {
        let trials = self.loads.get(&Load(rate));
        trials.is_some_and(|trials| trials.iter().any(|trial| trial.unsent > trial.lost))
    }
}

/// Short trials without loss speak only against short trials with loss; trials
/// still missing are thought bad for a lower bound and good for an upper one.
fn classify(trials: &[Trial], target: &SearchGoal) -> Class {
    let mut sums = Sums::default();
    for trial in trials {
        let low = trial.loss_ratio() <= target.loss_ratio;
        let sum = match (trial.duration >= target.trial, low) {
            (true, true) => &mut sums.low,
            (true, false) => &mut sums.high,
            (false, true) => &mut sums.short_low,
            (false, false) => &mut sums.short_high,
        };
        *sum += trial.duration.as_secs_f64();
    }
    let balance = sums.short_low * target.exceed_ratio / (1.0 - target.exceed_ratio);
    let high = sums.high + (sums.short_high - balance).max(0.0);
    let whole = (sums.low + high).max(target.sum.as_secs_f64());
    let allowed = whole * target.exceed_ratio;
    if high > allowed {
        Class::Upper
    } else if whole - sums.low <= allowed {
        Class::Lower
    } else {
        Class::Undecided
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TARGET: SearchGoal = SearchGoal {
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        width: 0.01,
        trial: Duration::from_secs(1),
        sum: Duration::from_secs(4),
    };

    fn record(trials: &[(f64, u64, u64)]) -> Record {
        let mut record = Record::default();
        for &(rate, seconds, lost) in trials {
            let duration = Duration::from_secs(seconds);
            let sent = 100 * seconds.max(1);
            record.add(Trial { rate, duration, sent, unsent: 0, lost });
        }
        record
    }

    #[test]
    fn a_load_is_decided_as_soon_as_missing_trials_cannot_change_it() {
        let class = |losses: &[u64]| {
            let trials: Vec<_> = losses.iter().map(|&lost| (9.0, 1, lost)).collect();
            record(&trials).class(9.0, &TARGET)
        };
        assert_eq!(class(&[]), Class::Undecided);
        assert_eq!(class(&[0]), Class::Undecided);
        assert_eq!(class(&[0, 0]), Class::Lower);
        assert_eq!(class(&[5, 5]), Class::Undecided);
        assert_eq!(class(&[5, 5, 5]), Class::Upper);
        assert_eq!(class(&[5, 5, 0, 0]), Class::Lower);
    }

    #[test]
    fn short_trials_with_loss_count_and_short_ones_without_only_balance_them() {
        let short = SearchGoal { trial: Duration::from_secs(2), ..TARGET };
        let class = |losses: &[u64]| {
            let trials: Vec<_> = losses.iter().map(|&lost| (9.0, 1, lost)).collect();
            record(&trials).class(9.0, &short)
        };
        assert_eq!(class(&[0; 100]), Class::Undecided);
        assert_eq!(class(&[5; 3]), Class::Upper);
        assert_eq!(class(&[5, 5, 5, 0]), Class::Undecided);
    }

    #[test]
    fn the_lower_bound_lies_below_the_least_upper_bound() {
        let lost = |rate, lost| [(rate, 4, lost)];
        let trials = [lost(1.0, 0), lost(2.0, 9), lost(3.0, 0), lost(4.0, 9)].concat();
        assert_eq!(record(&trials).bounds(&TARGET), (Some(1.0), Some(2.0)));
        assert_eq!(record(&[]).bounds(&TARGET), (None, None));
    }

    #[test]
    fn conditional_throughput_is_that_of_the_quantile() {
        let target = SearchGoal { loss_ratio: 0.1, ..TARGET };
        let record = record(&[(10.0, 1, 0), (10.0, 1, 2), (10.0, 1, 5), (10.0, 1, 90)]);
        assert_eq!(record.conditional_throughput(10.0, &target), 9.8);
        assert_eq!(record.conditional_throughput(11.0, &target), 0.0);
    }
}
