//! Whether rates that were counted agree with what the cycles of a packet say.

use weft_dpdk::tsc;

use crate::results::{Results, Series};

/// The share by which they may differ.
const BEARABLE: f64 = 0.03;

/// A note on rates that were counted in trials of which cycles were measured, too, and that
/// the two do not agree on.
pub(super) fn disagreement(results: &Results) -> Option<String> {
    disagreement_at(results, tsc::hz() as f64)
}

fn disagreement_at(results: &Results, hz: f64) -> Option<String> {
    let cycles_of = |rate: &Series| results.series(rate.computed_from.as_deref()?);
    let rates = results.series.iter().filter(|series| series.unit == "Mpps");
    let pairs = rates.filter_map(|rate| Some((rate, cycles_of(rate)?)));
    let pairs = pairs.filter(|(_, cycles)| cycles.unit == "cycles/packet");
    let mut worst: Option<(f64, String)> = None;
    let mut count = 0;
    for (rate, cycles) in pairs {
        for point in &rate.points {
            let Some(of_cycles) = cycles.mean_at(point.x.clone()) else { continue };
            let share = point.mean / (hz / of_cycles / 1e6) - 1.0;
            if share.abs() > BEARABLE {
                count += 1;
                if worst.as_ref().is_none_or(|(other, _)| share.abs() > other.abs()) {
                    worst = Some((share, format!("{} at {}", rate.name, point.x)));
                }
            }
        }
    }
    let (share, place) = worst?;
    let places = if count == 1 { "1 place".to_owned() } else { format!("{count} places") };
    Some(format!(
        "At {places} the rate that was counted and the clock rate over the cycles of a packet \
         differ by more than {} %, most at {place}: {:+.1} %. Cycles leave out the time that \
         others had the core.",
        BEARABLE * 100.0,
        share * 100.0,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::results::Point;

    fn results(rate: f64, cycles: f64) -> Results {
        let mut results = Results::new("x", Machine::default());
        let mut of = |name: &str, unit, value, from: Option<&str>| {
            let mut series = Series::new(name, "users", unit);
            series.computed_from = from.map(str::to_owned);
            series.points.push(Point::of(1, vec![value]).unwrap());
            results.series.push(series);
        };
        of("rate", "Mpps", rate, Some("cost"));
        of("cost", "cycles/packet", cycles, None);
        results
    }

    #[test]
    fn what_agrees_needs_no_note() {
        assert_eq!(disagreement_at(&results(9.8, 200.0), 2e9), None);
    }

    #[test]
    fn what_does_not_is_told() {
        let note = disagreement_at(&results(8.0, 200.0), 2e9).unwrap();
        assert!(note.contains("rate at 1: -20.0 %"), "{note}");
    }
}
