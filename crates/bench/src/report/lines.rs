//! Figures with a curve for each series.

use super::area::{Area, DrawError, Room};
use super::frame::{Entry, Frame, Sample, curve, marker, struck_out};
use super::palette::{self, Look};
use super::scale::{Scale, stands_on};
use crate::results::{Abscissa, Figure, PaperValue, Point, Results, Series};

/// The series that a figure shows, with their looks.
pub fn shown<'a>(results: &'a Results, figure: &Figure) -> Vec<(&'a Series, Look)> {
    let series = figure.series.iter().filter_map(|name| results.series(name));
    let looks = series.enumerate();
    looks
        .map(|(index, series)| {
            let look = match results.is_of_peer(&series.name) {
                true => palette::peer(index),
                false => palette::look(index, figure.baselines.contains(&series.name)),
            };
            (series, look)
        })
        .collect()
}

/// The paper's values that a figure shows.
pub fn paper<'a>(results: &'a Results, figure: &Figure) -> Vec<&'a PaperValue> {
    results.paper.iter().filter(|value| figure.paper.contains(&value.name)).collect()
}

/// The paper's values with a place that no series is called like, where those have several
/// names: each has a shape of its own.
fn kinds<'a>(paper: &[&'a PaperValue], series: &[(&Series, Look)]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for value in paper.iter().filter(|value| value.x.is_some()) {
        let has_series = series.iter().any(|(series, _)| series.name == value.name);
        if !has_series && !names.contains(&value.name.as_str()) {
            names.push(&value.name);
        }
    }
    if names.len() > 1 { names } else { Vec::new() }
}

/// What a legend says of a paper's values: those with a place are marks, the others
/// levels. `kinds` are those that it tells apart.
pub fn paper_entries(paper: &[&PaperValue], kinds: &[&str]) -> Vec<Entry> {
    let entry = |(sample, placed): (Sample, bool)| {
        let is_other = |value: &&&PaperValue| !kinds.contains(&value.name.as_str());
        let is_there = paper.iter().filter(is_other).any(|value| value.x.is_some() == placed);
        let name = "stated in the paper".to_owned();
        is_there.then(|| Entry { name, look: palette::paper(None, 0), sample })
    };
    let others = [(Sample::Mark, true), (Sample::Level, false)].into_iter().filter_map(entry);
    let kinds = kinds.iter().enumerate().map(|(index, name)| Entry {
        name: format!("in the paper: {name}"),
        look: palette::paper(None, index),
        sample: Sample::Mark,
    });
    others.chain(kinds).collect()
}

/// A name in a legend: that of another program is marked as such.
pub fn named(name: &str, look: &Look) -> String {
    if look.peer { format!("{name} (peer)") } else { name.to_owned() }
}

/// What its legend says.
pub fn entries(results: &Results, figure: &Figure) -> Vec<Entry> {
    let of = |(series, look): (&Series, Look)| Entry {
        name: named(&series.name, &look),
        look,
        sample: Sample::Curve,
    };
    let (series, paper) = (shown(results, figure), paper(results, figure));
    let kinds = kinds(&paper, &series);
    series.into_iter().map(of).chain(paper_entries(&paper, &kinds)).collect()
}

/// Draws it below `top`, where the legend ends.
pub fn draw(
    area: &Area,
    results: &Results,
    figure: &Figure,
    room: Room,
    top: i32,
) -> Result<(), DrawError> {
    let series = shown(results, figure);
    let paper = paper(results, figure);
    let scales = scales(figure, &series, &paper, room);
    let (x, y) = (figure.x.text(), figure.y.text());
    let frame = Frame::draw(area, room, top, scales, (&x, &y), 1)?;
    for (series, look) in &series {
        let points: Vec<_> = series
            .points
            .iter()
            .filter_map(|point| point.position().map(|x| (x, point)))
            .filter(|(x, point)| stands_on(&figure.x, *x) && stands_on(&figure.y, point.mean))
            .collect();
        let pixels: Vec<_> = points.iter().map(|(x, point)| frame.pixel(*x, point.mean)).collect();
        for (pixel, (_, point)) in pixels.iter().zip(&points) {
            if point.ci95.is_some() {
                frame.whisker(pixel.0, point.bounds(), 4)?;
            }
        }
        let reached = pixels.iter().zip(&points).filter(|(_, (_, point))| !point.short);
        curve(area, &reached.map(|(pixel, _)| *pixel).collect::<Vec<_>>(), look)?;
        for (&pixel, (_, point)) in pixels.iter().zip(&points) {
            marker(area, pixel, look)?;
            if point.short {
                struck_out(area, pixel)?;
            }
        }
    }
    frame.marks(&figure.marks)?;
    let kinds = kinds(&paper, &series);
    for value in paper {
        let same = series.iter().find(|(series, _)| series.name == value.name);
        let kind = kinds.iter().position(|name| *name == value.name).unwrap_or(0);
        let look = palette::paper(same.map(|(_, look)| look.colour), kind);
        match value.x.as_ref().map(number) {
            Some(Some(x)) => marker(area, frame.pixel(x, value.value), &look)?,
            Some(None) => {}
            None => frame.level(value.value, &look)?,
        }
    }
    Ok(())
}

fn scales(
    figure: &Figure,
    series: &[(&Series, Look)],
    paper: &[&PaperValue],
    room: Room,
) -> (Scale, Scale) {
    let points = || series.iter().flat_map(|(series, _)| &series.points);
    let mut xs: Vec<_> = points().filter_map(Point::position).collect();
    xs.extend(figure.marks.iter().map(|mark| mark.at));
    xs.extend(paper.iter().filter_map(|value| value.x.as_ref().and_then(number)));
    let mut ys: Vec<_> = points().map(|point| point.mean).collect();
    ys.extend(paper.iter().map(|value| value.value));
    ys.extend(points().flat_map(|point| bounds_within(point.mean, point.bounds())));
    (
        Scale::over(&figure.x, &xs, false, room.ticks(room.width() as i32 - 60)),
        Scale::over(&figure.y, &ys, true, room.ticks(room.height() as i32)),
    )
}

/// The interval, as far as it is drawn: one of few repetitions may be so wide that
/// nothing else could be seen, or reach below zero where nothing can be.
pub fn bounds_within(mean: f64, [low, high]: [f64; 2]) -> [f64; 2] {
    [low.max(mean.min(0.0)), high.min(mean + mean.abs())]
}

fn number(x: &Abscissa) -> Option<f64> {
    match x {
        Abscissa::Number(number) => Some(*number),
        Abscissa::Name(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, x: Option<f64>) -> PaperValue {
        let source = "a paper".to_owned();
        PaperValue { name: name.to_owned(), x: x.map(Abscissa::from), value: 1.0, source }
    }

    #[test]
    fn a_legend_tells_the_papers_curves_apart() {
        let values = [
            value("one core", Some(1.0)),
            value("one core", Some(2.0)),
            value("more", Some(1.0)),
            value("a level", None),
        ];
        let all: Vec<_> = values.iter().collect();
        let said = |paper: &[&PaperValue]| -> Vec<String> {
            let entries = paper_entries(paper, &kinds(paper, &[]));
            entries.into_iter().map(|entry| entry.name).collect()
        };
        assert_eq!(said(&all[..2]), ["stated in the paper"]);
        assert_eq!(
            said(&all),
            ["stated in the paper", "in the paper: one core", "in the paper: more"]
        );
        let looks = [0, 1, 2].map(|index| palette::paper(None, index).marker);
        assert!(looks[0] != looks[1] && looks[1] != looks[2] && looks[0] != looks[2]);
    }
}
