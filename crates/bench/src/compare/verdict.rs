//! What a difference means.

use std::fmt;

use super::{Row, Scope, Terms};
use crate::results::{Better, Series};

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// None is shown by the data, or none that matters.
    NoDifference,
    /// For the better.
    Improved,
    /// For the worse.
    Regression,
    /// A difference of something that is neither good nor bad.
    Changed,
    /// A value without repetitions, about which nothing can be said.
    NotJudged,
}

impl Verdict {
    /// The verdict on a row whose p-value has been corrected.
    pub(super) fn of(row: &Row, terms: &Terms) -> Verdict {
        let Some(p) = row.p else { return Verdict::NotJudged };
        let difference = row.after - row.before;
        let bound = terms.relevant * row.before.abs();
        // Of many points the most extreme is seen: all of its interval must matter.
        let matters = difference.abs() > bound
            && (row.scope == Scope::Series || near_end(row.interval, difference) > bound);
        if p >= terms.error || !matters {
            return Verdict::NoDifference;
        }
        match (row.better, difference > 0.0) {
            (None, _) => Verdict::Changed,
            (Some(Better::Higher), true) | (Some(Better::Lower), false) => Verdict::Improved,
            _ => Verdict::Regression,
        }
    }
}

/// How far the end of an interval that is nearer to zero lies on the side of a
/// difference.
fn near_end(interval: Option<[f64; 2]>, difference: f64) -> f64 {
    match interval {
        Some([low, _]) if difference > 0.0 => low,
        Some([_, high]) => -high,
        None => 0.0,
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::NoDifference => "no difference",
            Verdict::Improved => "improved",
            Verdict::Regression => "regression",
            Verdict::Changed => "changed",
            Verdict::NotJudged => "not judged",
        })
    }
}

/// Which way is better for a series: as it says itself, else by its unit. Rates
/// are better high; costs, times, sizes and losses low. A share may be either.
pub fn better(series: &Series) -> Option<Better> {
    if series.better.is_some() {
        return series.better;
    }
    let unit = series.unit.to_lowercase();
    let is_cost = |unit: &str| {
        ["cycles", "instructions", "misses", "bytes", "lost", "packets lost"]
            .iter()
            .any(|cost| unit.starts_with(cost))
            || ["ns", "µs", "us", "ms", "s", "seconds", "b"].contains(&unit)
            || ["ns/", "µs/", "us/", "ms/"].iter().any(|time| unit.starts_with(time))
    };
    if ["pps", "mpps", "kpps", "gpps"].contains(&unit.as_str()) || unit.ends_with("/s") {
        Some(Better::Higher)
    } else if is_cost(&unit) {
        Some(Better::Lower)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_tells_which_way_is_better() {
        let of = |unit: &str| better(&Series::new("weft", "x", unit));
        for unit in ["Mpps", "pps", "Gbit/s", "packets/s", "messages/s"] {
            assert_eq!(of(unit), Some(Better::Higher), "{unit}");
        }
        for unit in ["cycles/packet", "µs", "ns/packet", "bytes/user", "lost packets", "s"] {
            assert_eq!(of(unit), Some(Better::Lower), "{unit}");
        }
        assert_eq!(of("%"), None);
        let mut loss = Series::new("weft", "x", "%");
        loss.better = Some(Better::Lower);
        assert_eq!(better(&loss), Some(Better::Lower));
    }
}
