//! The figures.

use super::arrivals;
use super::{
    EACH, FORWARDED, GAP_HOST, GAP_USER, NORMAL, PAPER_GAP, PAPER_NORMAL, TO_HOST, TO_USER, WAITED,
};
use crate::experiments::figure::figure;
use crate::results::{Abscissa, Axis, Figure, FigureKind, Point, Results, Series};
use weft_rig::handover::Phase;
use weft_rig::statistics;

/// Percentiles of which a distribution is drawn.
const DRAWN: [f64; 24] = [
    0.0, 1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0,
    75.0, 80.0, 85.0, 90.0, 95.0, 98.0, 99.0, 100.0,
];
fn of(what: &str, rate: &str) -> String {
    format!("{what}, {rate}")
}

/// Computes which share of the moves adds how much delay at most.
pub fn distribute(results: &mut Results, rate: &str) {
    let point = results.series(EACH).and_then(|series| {
        series.points.iter().find(|point| point.x == Abscissa::from(rate)).cloned()
    });
    let Some(point) = point else { return };
    let mut series = Series::new(of("moves", rate), "added delay, µs", "%");
    series.computed_from = Some(EACH.to_owned());
    let place = |percent: f64| {
        let at = statistics::percentile(&point.raw, percent)?;
        Point::of(at, vec![percent]).ok()
    };
    series.points = DRAWN.iter().filter_map(|percent| place(*percent)).collect();
    results.compute(series);
}

/// All figures.
pub fn figures(results: &Results, rates: &[String]) -> Vec<Figure> {
    let mut figures: Vec<_> =
        rates.iter().filter_map(|rate| arrivals::drawing(results, rate)).collect();
    let distributions: Vec<_> = rates.iter().map(|rate| of("moves", rate)).collect();
    let phases = Phase::ALL.iter().map(|phase| phase.name());
    let drawings = [
        figure("gap", "How long it shows", FigureKind::Bars, [GAP_USER, GAP_HOST, NORMAL])
            .caption(
                "The longest time without an arrival, and the time from the order until the last \
                 packet that is later than any before it: the median over the moves. The paper \
                 states a gap of 2 ms and 6 ms until all is as before, at 10 kpps.",
            )
            .axes(Axis::default(), Axis::log("Time", "µs"))
            .paper([PAPER_GAP, PAPER_NORMAL]),
        figure(
            "added",
            "The most that a move adds to a packet's delay",
            FigureKind::Lines,
            distributions.iter().map(String::as_str),
        )
        .caption(
            "From the host to the user and back, less the median before the move: the share of \
             the moves that adds so much at most.",
        )
        .axes(Axis::log("Added delay", "µs"), Axis::linear("Moves", "%")),
        figure("ways", "To the user, and back", FigureKind::Bars, [TO_USER, TO_HOST])
            .caption("The most that a move adds in either direction: the median over the moves.")
            .axes(Axis::default(), Axis::linear("Added delay", "µs")),
        figure("phases", "What a move takes", FigureKind::Grouped, phases)
            .caption(
                "Until target and anchor are prepared, the source has stopped and sent the \
                 contexts, the target owns the user, downlink goes there, the radio has left, the \
                 source has forgotten, and only the new way is left: each from the end of the one \
                 before.",
            )
            .axes(Axis::default(), Axis::linear("Time", "µs")),
        figure("waited", "Packets that wait", FigureKind::Bars, [WAITED, FORWARDED])
            .caption("At the gates of target and gateway, and from the source to the target.")
            .axes(Axis::default(), Axis::linear("Packets", "")),
    ];
    figures.extend(drawings.into_iter().filter_map(|one| one.of(results)));
    figures
}
