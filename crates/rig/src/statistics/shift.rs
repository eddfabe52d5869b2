//! How far one run lies from another, judged by permuting rounds.
//!
//! Repetitions are not normally distributed where a machine is quiet for some and busy
//! for others: two runs of three may differ by a third with hardly any variance. So
//! nothing is supposed of how they are distributed. If a build has not changed, it
//! does not matter which of all rounds belong to which run; the share of all ways
//! to deal them out that part the runs at least as far as was seen is the p-value.
//! Rounds are dealt out whole, with all points of a series, as what the machine did
//! in a round it did to all of them.

use fastrand::Rng;

use crate::statistics;

/// Ways to deal rounds out that are looked at; of more, so many at random.
const DEALS: usize = 5000;
/// Draws of the bootstrap.
const DRAWS: usize = 1000;
/// Fewer rounds say nothing of how they vary.
const LEAST_ROUNDS: usize = 3;

/// The repetitions of one place, before and after, by round.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Before.
    pub before: &'a [f64],
    /// After.
    pub after: &'a [f64],
}

/// How far a series moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The typical value after, less that before, as a share of the latter: of the
    /// middle one of the places.
    pub change: f64,
    /// The interval that holds the change with 95 %, by bootstrap over rounds.
    pub interval: Option<[f64; 2]>,
    /// How likely a change at least so large is when nothing changed.
    pub p: f64,
    /// The least p that so few rounds can show.
    pub least_p: f64,
}

/// How far a series moved, by its places, where that percentile of its rounds is the typical
/// value; none without rounds on both sides.
pub fn shift(pairs: &[Pair<'_>], typical: f64) -> Option<Shift> {
    let rounds = |side: fn(&Pair<'_>) -> usize| pairs.iter().map(side).min().unwrap_or(0);
    let (before, after) = (rounds(|pair| pair.before.len()), rounds(|pair| pair.after.len()));
    if before == 0 || after == 0 {
        return None;
    }
    let places: Vec<PointRounds> =
        pairs.iter().map(|pair| PointRounds::of(pair, [before, after], typical)).collect();
    let seen = Deal::parting(before, after, 0..before);
    let change = change(&places, &seen, typical);
    let (p, least_p) = permute(&places, [before, after], typical, change);
    let interval = (before.min(after) >= LEAST_ROUNDS)
        .then(|| bootstrap(&places, [before, after], typical))
        .flatten();
    Some(Shift { change, interval, p, least_p })
}

/// One place: its rounds before, then after, by their values, and what a change is a share of.
struct PointRounds {
    /// Value and number of each round, in ascending order of values.
    ascending: Vec<(f64, usize)>,
    scale: f64,
}

impl PointRounds {
    fn of(pair: &Pair<'_>, [before, after]: [usize; 2], typical: f64) -> PointRounds {
        let rounds = pair.before[..before].iter().chain(&pair.after[..after]).copied();
        let mut ascending: Vec<(f64, usize)> = rounds.zip(0..).collect();
        ascending.sort_by(|one, other| one.0.total_cmp(&other.0));
        let scale = statistics::percentile(pair.before, typical).map_or(0.0, f64::abs);
        PointRounds { ascending, scale }
    }

    /// The percentile of some rounds, of which each is there so many times, as
    /// [`statistics::percentile`] has it.
    fn percentile(&self, times: &[usize], percent: f64) -> f64 {
        let place = percent / 100.0 * (times.iter().sum::<usize>() - 1) as f64;
        let (mut passed, mut below) = (0, None);
        for &(value, round) in &self.ascending {
            passed += times[round];
            if below.is_none() && passed > place.floor() as usize {
                below = Some(value);
            }
            if let Some(below) = below
                && passed > place.ceil() as usize
            {
                return below + (value - below) * place.fract();
            }
        }
        f64::NAN
    }
}

/// How many times each round is on either side.
struct Deal {
    from: Vec<usize>,
    to: Vec<usize>,
}

impl Deal {
    /// All rounds once, of which these are on the first side.
    fn parting(before: usize, after: usize, own: impl IntoIterator<Item = usize>) -> Deal {
        let mut deal = Deal { from: vec![0; before + after], to: vec![1; before + after] };
        for round in own {
            (deal.from[round], deal.to[round]) = (1, 0);
        }
        deal
    }
}

/// The middle one of the changes of all places from one side to the other.
fn change(places: &[PointRounds], deal: &Deal, typical: f64) -> f64 {
    let of_place = |place: &PointRounds| {
        let difference =
            place.percentile(&deal.to, typical) - place.percentile(&deal.from, typical);
        // Where nothing was, a share of it means nothing: all or none.
        if place.scale > 0.0 {
            difference / place.scale
        } else if difference == 0.0 {
            0.0
        } else {
            difference.signum()
        }
    };
    let changes: Vec<f64> = places.iter().map(of_place).collect();
    statistics::median(&changes).unwrap_or(0.0)
}

/// The p-value of a change, and the least that there can be.
fn permute(
    places: &[PointRounds],
    [before, after]: [usize; 2],
    typical: f64,
    seen: f64,
) -> (f64, f64) {
    let all = before + after;
    let ways = ways(all, before);
    let (mut deals, mut as_far) = (0_usize, 0_usize);
    let mut look = |own: &[usize]| {
        let deal = Deal::parting(before, after, own.iter().copied());
        deals += 1;
        // Rounding must not decide whether the deal that was seen counts.
        let is_as_far = change(places, &deal, typical).abs() >= seen.abs() * (1.0 - 1e-9);
        as_far += usize::from(is_as_far);
    };
    if ways <= DEALS as f64 {
        let mut own: Vec<usize> = (0..before).collect();
        loop {
            look(&own);
            if !next(&mut own, all) {
                break;
            }
        }
    } else {
        let mut random = Rng::with_seed(1);
        let mut order: Vec<usize> = (0..all).collect();
        // The one that was seen is one of them.
        look(&order[..before]);
        for _ in 1..DEALS {
            random.shuffle(&mut order);
            look(&order[..before]);
        }
    }
    // Where the sides are equally large, each way to part them is there twice.
    let extreme = if before == after { 2.0 } else { 1.0 };
    (as_far as f64 / deals as f64, (extreme / ways).max(1.0 / DEALS as f64))
}

/// Ways to choose some of all.
fn ways(all: usize, some: usize) -> f64 {
    (0..some).fold(1.0, |ways, n| ways * (all - n) as f64 / (n + 1) as f64).round()
}

/// The next choice of numbers below `all`, in their order; false behind the last.
fn next(choice: &mut [usize], all: usize) -> bool {
    let some = choice.len();
    let Some(place) = (0..some).rev().find(|&place| choice[place] < all - some + place) else {
        return false;
    };
    choice[place] += 1;
    for behind in place + 1..some {
        choice[behind] = choice[behind - 1] + 1;
    }
    true
}

/// The interval of the change: rounds drawn again from each side.
fn bootstrap(
    places: &[PointRounds],
    [before, after]: [usize; 2],
    typical: f64,
) -> Option<[f64; 2]> {
    let mut random = Rng::with_seed(1);
    let mut draw = || {
        let mut deal = Deal { from: vec![0; before + after], to: vec![0; before + after] };
        (0..before).for_each(|_| deal.from[random.usize(..before)] += 1);
        (0..after).for_each(|_| deal.to[before + random.usize(..after)] += 1);
        change(places, &deal, typical)
    };
    let changes: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    let at = |percent| statistics::percentile(&changes, percent);
    Some([at(2.5)?, at(97.5)?])
}

/// The p-values, raised so that the chance of even one false alarm among them all
/// stays that of one: Holm's method, in which those that could not have shown anything
/// at `error` do not count (Tarone 1990), as few rounds can show little.
pub fn adjust(p: &[(f64, f64)], error: f64) -> Vec<f64> {
    // The least number of comparisons that is no less than those which could then
    // show something.
    let able = |count: usize| p.iter().filter(|(_, least)| least * count as f64 <= error).count();
    let count = (1..=p.len().max(1)).find(|&count| able(count) <= count).unwrap_or(p.len());
    let counts = |least: f64| least * count as f64 <= error;
    let kept: Vec<f64> =
        p.iter().filter(|(_, least)| counts(*least)).map(|(value, _)| *value).collect();
    let mut adjusted = statistics::holm(&kept).into_iter();
    let raise = |&(_, least): &(f64, f64)| match counts(least) {
        true => adjusted.next().unwrap_or(1.0),
        false => 1.0,
    };
    p.iter().map(raise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(before: &[f64], after: &[f64]) -> Shift {
        shift(&[Pair { before, after }], 10.0).unwrap()
    }

    #[test]
    fn runs_that_are_apart_have_the_least_p_there_is() {
        let shift = of(&[10.0, 11.0, 10.5, 10.2], &[12.0, 12.4, 13.0, 12.2]);
        // 2 of 70 ways part them so.
        assert!((shift.p - 2.0 / 70.0).abs() < 1e-12 && shift.p == shift.least_p, "{shift:?}");
        assert!(shift.change > 0.1 && shift.interval.unwrap()[0] > 0.0, "{shift:?}");
    }

    #[test]
    fn equal_runs_are_as_far_apart_as_any() {
        let shift = of(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]);
        assert_eq!((shift.change, shift.p), (0.0, 1.0));
    }

    #[test]
    fn two_busy_thirds_do_not_move_the_typical_value() {
        let shift = of(
            &[200.0, 290.0, 201.0, 289.0, 287.0, 288.0],
            &[201.0, 300.0, 291.0, 202.0, 290.0, 292.0],
        );
        assert!(shift.change.abs() < 0.02, "{shift:?}");
    }

    #[test]
    fn all_choices_are_made_once() {
        let mut choice = vec![0, 1, 2];
        let mut count = 1;
        while next(&mut choice, 6) {
            count += 1;
        }
        assert_eq!((count, choice), (20, vec![3, 4, 5]));
        assert_eq!(ways(16, 8), 12_870.0);
    }

    #[test]
    fn what_can_show_nothing_does_not_count() {
        // Two that can, among a hundred that cannot.
        let mut p = vec![(1.0 / 3.0, 1.0 / 3.0); 100];
        p.extend([(0.001, 0.001), (0.5, 0.001)]);
        let adjusted = adjust(&p, 0.05);
        assert_eq!(adjusted[100], 0.002);
        assert_eq!((adjusted[0], adjusted[101]), (1.0, 0.5));
        assert!(adjust(&[], 0.05).is_empty());
    }
}
