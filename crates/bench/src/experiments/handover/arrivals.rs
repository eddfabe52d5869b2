//! One move, drawn: packets by the time of their arrival, and where its phases end
//! (Pinczel et al., fig. 8).

use crate::experiments::figure::figure;
use crate::results::{Axis, Figure, FigureKind, Mark, Point, Results, Series};
use weft_rig::handover::{Dot, Handover, Phase};

/// What is drawn of a move of one user in one process, at a rate that is called so.
pub fn series(handover: &Handover, rate: &str) -> Vec<Series> {
    let named = Phase::ALL.iter().zip(handover.ends(0));
    let mut ends: Vec<_> = named.filter_map(|(phase, end)| Some((phase.name(), end?))).collect();
    ends.extend(handover.last_forwarded.map(|micros| ("forward", micros)));
    series_of(&handover.dots, ends, rate)
}

/// Packets that are drawn before the order, and as many behind the last phase.
const BESIDE: usize = 20;
const ENDS: &str = "end of a phase";
const AT_USER: &str = "at the user";
const AT_HOST: &str = "back at the gateway";

/// What is drawn of a move of one user, whose phases ended at these times (microseconds since the
/// order), at a rate that is called so.
pub fn series_of(dots: &[Dot], ends: Vec<(&'static str, f64)>, rate: &str) -> Vec<Series> {
    let dots = around(dots, ends.iter().map(|(_, end)| *end).fold(0.0, f64::max));
    let first = dots.first().map_or(0, |dot| dot.number);
    let places = [("sent", 0), (AT_USER, 1), (AT_HOST, 2)].map(|(place, time)| {
        let number = |dot: &Dot| vec![f64::from(dot.number - first)];
        let point = |dot: &Dot| Point::of(dot.times[time] / 1e3, number(dot)).ok();
        let series = Series::new(of(place, rate), "ms since the order", "packet");
        Series { points: dots.iter().filter_map(point).collect(), ..series }
    });
    let ends = ends.iter().filter_map(|&(phase, end)| Point::of(phase, vec![end / 1e3]).ok());
    let series = Series::new(of(ENDS, rate), "phase", "ms since the order");
    places.into_iter().chain([Series { points: ends.collect(), ..series }]).collect()
}

/// The packets around a move whose last phase has ended by then, in microseconds.
fn around(dots: &[Dot], last: f64) -> &[Dot] {
    let before = dots.iter().take_while(|dot| dot.times[2] < 0.0).count();
    let within = dots.iter().take_while(|dot| dot.times[0] < last).count();
    let end = dots.len().min(within.max(before) + BESIDE);
    &dots[before.saturating_sub(BESIDE)..end]
}

/// The figure of what [`series`] gave; none of nothing.
pub fn drawing(results: &Results, rate: &str) -> Option<Figure> {
    let names = [AT_USER, AT_HOST].map(|place| of(place, rate));
    let drawing = figure(
        &format!("arrivals-{}", rate.replace(' ', "-")),
        &format!("Arrivals during a move, {rate}"),
        FigureKind::Lines,
        names.iter().map(String::as_str),
    );
    let mut figure = drawing
        .caption(
            "As fig. 8 of Pinczel et al.: packets by the time of their arrival. The user is \
             ordered to another station at 0; a line stands where each phase of the move ends, \
             and where the last packet was forwarded from the one to the other.",
        )
        .axes(Axis::linear("Time since the order", "ms"), Axis::linear("Packet", ""))
        .of(results)?;
    let ends = results.series(&of(ENDS, rate));
    let marks = ends.into_iter().flat_map(|series| &series.points);
    figure.marks = marks.map(|end| Mark { at: end.mean, name: end.x.to_string() }).collect();
    figure.marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    Some(figure)
}

fn of(what: &str, rate: &str) -> String {
    format!("{what}, {rate}")
}
