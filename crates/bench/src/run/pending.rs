//! Series and points in the making.

use std::collections::BTreeMap;

use super::values::{GIVEN, Sent, Value};
use crate::results::{Abscissa, Point, Series};

/// A series in the making.
pub(super) struct Curve {
    pub series: Series,
    pub places: Vec<PendingPoint>,
}

/// A point in the making.
pub(super) struct PendingPoint {
    pub x: Abscissa,
    trials: Vec<Repetition>,
    percentiles: BTreeMap<String, f64>,
}

/// What one trial said.
#[derive(Clone, Copy)]
struct Repetition {
    number: f64,
    slices: Option<[f64; 2]>,
    sent: Option<Sent>,
}

impl Repetition {
    fn counts(&self) -> bool {
        self.sent.is_none_or(|sent| sent.share >= GIVEN)
    }
}

impl Curve {
    pub fn resumed(series: Series) -> Curve {
        let places = series.points.iter().cloned().map(PendingPoint::of).collect();
        Curve { series: Series { points: Vec::new(), ..series }, places }
    }

    /// The series with the points that were measured in these rounds, or in all; none
    /// without any.
    pub fn measured(&self, rounds: Option<&[usize]>) -> Option<Series> {
        let points: Vec<Point> =
            self.places.iter().filter_map(|place| place.point(rounds)).collect();
        (!points.is_empty()).then(|| Series { points, ..self.series.clone() })
    }
}

impl PendingPoint {
    pub fn new(x: Abscissa) -> PendingPoint {
        PendingPoint { x, trials: Vec::new(), percentiles: BTreeMap::new() }
    }

    /// A point that is gone on with.
    pub fn of(point: Point) -> PendingPoint {
        let share = if point.short { 0.0 } else { 1.0 };
        let trial = |(index, &number): (usize, &f64)| Repetition {
            number,
            slices: point
                .median
                .get(index)
                .zip(point.undisturbed.get(index))
                .map(|(a, b)| [*a, *b]),
            sent: point.sent.get(index).map(|&at| Sent { at, share }),
        };
        // What was left out is made, though it does not count.
        let left_out = |&number: &f64| Repetition {
            number,
            slices: None,
            sent: Some(Sent { at: number, share: 0.0 }),
        };
        let trials = point.raw.iter().enumerate().map(trial);
        let trials = trials.chain(point.left_out.iter().map(left_out)).collect();
        PendingPoint { x: point.x, trials, percentiles: point.percentiles }
    }

    /// Repetitions there are, those that do not count as well.
    pub fn count(&self) -> usize {
        self.trials.len()
    }

    /// Adds a repetition. Of percentiles the mean of all repetitions is kept, of
    /// `max` the greatest.
    pub fn record(&mut self, value: Value, sent: Option<Sent>) {
        let Value { number, slices, percentiles } = value;
        self.trials.push(Repetition { number, slices, sent });
        let made = self.trials.len() as f64;
        for (name, new) in percentiles {
            let kept = self.percentiles.entry(name.to_owned()).or_insert(new);
            *kept = if name == "max" { kept.max(new) } else { *kept + (new - *kept) / made };
        }
    }

    /// The point of these rounds, or of all. Where some repetitions count, the others are
    /// left out; where none does, the point is marked.
    pub fn point(&self, rounds: Option<&[usize]>) -> Option<Point> {
        let chosen: Vec<Repetition> = match rounds {
            Some(rounds) => rounds.iter().filter_map(|&at| self.trials.get(at).copied()).collect(),
            None => self.trials.clone(),
        };
        let (counting, others): (Vec<_>, Vec<_>) = chosen.into_iter().partition(Repetition::counts);
        let short = counting.is_empty();
        let (of, left_out) = if short { (others, Vec::new()) } else { (counting, others) };
        let numbers = |of: &[Repetition]| of.iter().map(|one| one.number).collect::<Vec<_>>();
        let slices = |which: usize| of.iter().filter_map(|one| Some(one.slices?[which])).collect();
        let mut point = Point::of(self.x.clone(), numbers(&of)).ok()?;
        point = point.with_slices(slices(0), slices(1));
        point.sent = of.iter().filter_map(|one| Some(one.sent?.at)).collect();
        (point.short, point.left_out) = (short, numbers(&left_out));
        Some(point.with_percentiles(self.percentiles.clone()))
    }
}

#[cfg(test)]
mod tests {
    use weft_rig::{Delay, Measured};

    use super::*;
    use crate::results::{Series, Way};

    #[test]
    fn repetitions_share_their_percentiles() {
        let mut place = PendingPoint::new(64.into());
        for (median, p99, max) in [(1.0, 2.0, 9.0), (2.0, 4.0, 5.0), (3.0, 9.0, 7.0)] {
            let percentiles = vec![("p99", p99), ("max", max)];
            place.record(Delay { median, percentiles }.into(), None);
        }
        let point = place.point(None).unwrap();
        assert_eq!((point.mean, point.n), (2.0, 3));
        assert_eq!(point.percentiles["p99"], 5.0);
        assert_eq!(point.percentiles["max"], 9.0);
    }

    #[test]
    fn a_trial_is_seen_in_three_ways() {
        let mut place = PendingPoint::new(64.into());
        for mean in [30.0, 50.0] {
            place.record(Measured { mean, median: mean / 2.0, undisturbed: 10.0 }.into(), None);
        }
        let point = place.point(None).unwrap();
        assert_eq!((point.mean, &point.median[..]), (40.0, &[15.0, 25.0][..]));
        assert_eq!(point.seen(Way::Undisturbed).unwrap().raw, [10.0, 10.0]);
        assert_eq!(point.compared(), [10.0, 10.0]);
        let second = place.point(Some(&[1, 1])).unwrap();
        assert_eq!((second.raw, second.median), (vec![50.0, 50.0], vec![25.0, 25.0]));
    }

    #[test]
    fn a_number_has_no_percentiles() {
        let mut place = PendingPoint::new(64.into());
        place.record(7.0.into(), None);
        assert!(place.point(None).unwrap().percentiles.is_empty());
    }

    #[test]
    fn what_was_not_sent_does_not_count_where_something_was() {
        let mut place = PendingPoint::new(100.into());
        place.record(1.0.into(), Some(Sent { at: 100.0, share: 1.0 }));
        place.record(9.0.into(), Some(Sent { at: 60.0, share: 0.6 }));
        let point = place.point(None).unwrap();
        assert_eq!((&point.raw[..], &point.left_out[..]), (&[1.0][..], &[9.0][..]));
        assert_eq!((point.position(), point.short), (Some(100.0), false));
        assert_eq!(PendingPoint::of(point).count(), 2, "resumed, both are made");
    }

    #[test]
    fn a_load_that_was_never_reached_stands_where_it_was_and_is_marked() {
        let mut place = PendingPoint::new(100.into());
        for at in [60.0, 70.0] {
            place.record(5.0.into(), Some(Sent { at, share: at / 100.0 }));
        }
        let point = place.point(None).unwrap();
        assert_eq!((point.position(), point.short, point.n), (Some(65.0), true, 2));
        let again = PendingPoint::of(point.clone()).point(None).unwrap();
        assert_eq!(again, point, "resumed, it is still marked");
        let mut series = Series::new("loss", "kpps", "%");
        series.points.push(point);
        assert_eq!(series.mean_at(100), None);
    }
}
