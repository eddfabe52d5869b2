//! The figures, and the one move that stands for the others in them.

use super::super::figure::figure;
use super::{
    EACH, FORWARDED, GAP_HOST, GAP_USER, NORMAL, PAPER_GAP, PAPER_NORMAL, TO_HOST, TO_USER, WAITED,
};
use crate::results::{Abscissa, Axis, Figure, FigureKind, Mark, Point, Results, Series};
use crate::rig::handover::{Dot, Handover, Phase};
use crate::run::Run;
use crate::statistics;

/// Percentiles of which a distribution is drawn.
const DRAWN: [f64; 24] = [
    0.0, 1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0, 70.0,
    75.0, 80.0, 85.0, 90.0, 95.0, 98.0, 99.0, 100.0,
];
/// Packets that are drawn of a move, before the order and behind it.
const PACKETS: usize = 40;

/// One move.
pub struct Drawn {
    dots: Vec<Dot>,
    ends: Vec<(&'static str, f64)>,
}

impl Drawn {
    /// A move as it is drawn.
    pub fn of(handover: &Handover) -> Drawn {
        let ends = handover.ends(0);
        let named = Phase::ALL.iter().zip(ends);
        let mut ends: Vec<_> =
            named.filter_map(|(phase, end)| Some((phase.name(), end? / 1e3))).collect();
        ends.extend(handover.last_forwarded.map(|micros| ("forward", micros / 1e3)));
        // As many before the order as behind it, but all that came while it was obeyed.
        let last = ends.iter().map(|(_, end)| end * 1e3).fold(0.0, f64::max);
        let before = handover.dots.iter().take_while(|dot| dot.times[2] < 0.0).count();
        let within = handover.dots.iter().take_while(|dot| dot.times[0] < last).count();
        let end = handover.dots.len().min(within + PACKETS / 2);
        let begin = before.saturating_sub(PACKETS / 2);
        Drawn { dots: handover.dots[begin..end].to_vec(), ends }
    }

    /// Keeps it, unless there is one of a former run.
    pub fn record(&self, run: &mut Run<'_>, rate: &str) {
        let places = [("sent", 0), ("at the user", 1), ("back at the gateway", 2)];
        let first = self.dots.first().map_or(0, |dot| dot.number);
        for (place, time) in places {
            let mut series = Series::new(of(place, rate), "ms since the order", "packet");
            let number = |dot: &Dot| vec![f64::from(dot.number - first)];
            let points = self.dots.iter();
            let points =
                points.filter_map(|dot| Point::of(dot.times[time] / 1e3, number(dot)).ok());
            series.points = points.collect();
            run.keep_series(series);
        }
        let mut series = Series::new(of("end of a phase", rate), "phase", "ms since the order");
        let points = self.ends.iter();
        series.points =
            points.filter_map(|&(phase, end)| Point::of(phase, vec![end]).ok()).collect();
        run.keep_series(series);
    }
}

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
    let mut figures: Vec<_> = rates.iter().filter_map(|rate| arrivals(results, rate)).collect();
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

/// Packets over time, around one move (Pinczel et al., fig. 8).
fn arrivals(results: &Results, rate: &str) -> Option<Figure> {
    let names = ["at the user", "back at the gateway"].map(|place| of(place, rate));
    let drawing = figure(
        &format!("arrivals-{}", rate.replace(' ', "-")),
        &format!("Arrivals during a move, {rate}"),
        FigureKind::Lines,
        names.iter().map(String::as_str),
    );
    let caption = format!(
        "As fig. 8 of Pinczel et al.: packets by the time of their arrival, in a move that adds \
         as much delay as the median of all. Lines stand where phases end: {}.",
        Phase::ALL.map(Phase::name).join(", ")
    );
    let mut figure = drawing
        .caption(&caption)
        .axes(Axis::linear("Time since the order", "ms"), Axis::linear("Packet", ""))
        .of(results)?;
    let ends = results.series(&of("end of a phase", rate));
    let marks = ends.into_iter().flat_map(|series| &series.points);
    figure.marks = marks.map(|end| Mark { at: end.mean, name: end.x.to_string() }).collect();
    figure.marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    Some(figure)
}
