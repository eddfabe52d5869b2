//! Figures with bars.

use plotters::style::RGBColor;

use super::area::{Area, DrawError, Room};
use super::frame::{Entry, Frame, Sample, bar, marker, stroke};
use super::lines::{bounds_within, named, paper, paper_entries, shown};
use super::palette::{self, Look};
use super::scale::{Scale, stands_on};
use crate::results::{Figure, FigureKind, PaperValue, Point, Results};

/// What the axis reaches beyond the highest bar, where something stands on bars.
const HEADROOM: f64 = 1.6;

/// Bars side by side at named places.
struct Bars<'a> {
    /// The names of the places.
    places: Vec<String>,
    /// The names and looks of what stands side by side.
    colours: Vec<(String, Look)>,
    /// The bars: place, colour, point.
    bars: Vec<(usize, usize, &'a Point)>,
}

impl<'a> Bars<'a> {
    fn of(results: &'a Results, figure: &Figure) -> Bars<'a> {
        let mut bars = Bars { places: Vec::new(), colours: Vec::new(), bars: Vec::new() };
        let grouped = figure.kind == FigureKind::Grouped;
        for (series, look) in shown(results, figure) {
            for point in &series.points {
                let (name, x) = (series.name.clone(), point.x.to_string());
                let (place, colour) = if grouped { (name, x) } else { (x, name) };
                let look = if grouped {
                    palette::look(bars.colours.len(), figure.baselines.contains(&colour))
                } else {
                    look
                };
                let place = index_of(&mut bars.places, |known| *known == place, place.clone());
                let entry = (colour.clone(), look);
                let colour = index_of(&mut bars.colours, |(known, _)| *known == colour, entry);
                bars.bars.push((place, colour, point));
            }
        }
        bars
    }

    /// The middle of a bar and its half width, in places. Bars are equally wide
    /// everywhere; those of a place stand in its middle, without gaps for what was
    /// not measured there.
    fn span(&self, place: usize, colour: usize) -> (f64, f64) {
        let width = (0.84 / self.colours.len().max(1) as f64).min(0.5);
        let mut here: Vec<_> =
            self.bars.iter().filter(|bar| bar.0 == place).map(|bar| bar.1).collect();
        here.sort_unstable();
        let rank = here.iter().filter(|&&other| other < colour).count() as f64;
        let middle = here.len().saturating_sub(1) as f64 / 2.0;
        (place as f64 + (rank - middle) * width, width * 0.46)
    }

    fn colour_named(&self, name: &str) -> Option<(usize, RGBColor)> {
        let index = self.colours.iter().position(|(known, _)| known == name)?;
        Some((index, self.colours[index].1.colour))
    }
}

/// Where `is` holds, or at the end, where `new` is put then.
fn index_of<T>(list: &mut Vec<T>, is: impl FnMut(&T) -> bool, new: T) -> usize {
    list.iter().position(is).unwrap_or_else(|| {
        list.push(new);
        list.len() - 1
    })
}

/// What its legend says.
pub fn entries(results: &Results, figure: &Figure) -> Vec<Entry> {
    let of = |(name, look): (String, Look)| Entry {
        name: named(&name, &look),
        look,
        sample: Sample::Bar,
    };
    let colours = Bars::of(results, figure).colours.into_iter().map(of);
    colours.chain(paper_entries(&paper(results, figure), &[])).collect()
}

/// Draws it below `top`, where the legend ends.
pub fn draw(
    area: &Area,
    results: &Results,
    figure: &Figure,
    room: Room,
    top: i32,
) -> Result<(), DrawError> {
    let bars = Bars::of(results, figure);
    let paper = paper(results, figure);
    // The names are as wide as the places; a first guess at the axis will do.
    let step = (room.width() as i32 - 70) / bars.places.len().max(1) as i32;
    let names = names(&bars.places, step, room);
    let lines = names.iter().map(Vec::len).max().unwrap_or(1);
    let scales = (Scale::of_names(bars.places.len()), scale(figure, &bars, &paper, room));
    let frame = Frame::draw(area, room, top, scales, ("", &figure.y.text()), lines)?;
    for (place, lines) in names.iter().enumerate() {
        frame.name(place as f64, lines)?;
    }
    for &(place, colour, point) in &bars.bars {
        if !stands_on(&figure.y, point.mean) {
            continue;
        }
        let (span, (name, look)) = (bars.span(place, colour), &bars.colours[colour]);
        if figure.kind == FigureKind::Boxes {
            draw_box(area, &frame, span, point, look)?;
            continue;
        }
        let (middle, half) = span;
        let corners = [frame.pixel(middle - half, point.mean), frame.foot(middle + half)];
        bar(area, corners, look)?;
        if point.ci95.is_some() {
            frame.whisker(frame.foot(middle).0, point.bounds(), cap(&frame, half))?;
        }
        let top = figure.bar_labels.iter().find(|top| top.series == *name && top.x == point.x);
        if let (Some(top), Room::Wide) = (top, room) {
            frame.on_top(middle, point.bounds()[1], &top.text)?;
        }
    }
    for value in paper {
        draw_paper(area, &frame, &bars, value)?;
    }
    Ok(())
}

/// A box with its median, and whiskers; the median alone of a point without percentiles.
fn draw_box(
    area: &Area,
    frame: &Frame,
    (middle, half): (f64, f64),
    point: &Point,
    look: &Look,
) -> Result<(), DrawError> {
    let across = |y: f64| [frame.pixel(middle - half, y), frame.pixel(middle + half, y)];
    if let Some([low, first, third, high]) = quartiles(point) {
        bar(area, [across(third)[0], across(first)[1]], look)?;
        let foot = frame.foot(middle).0;
        frame.whisker(foot, [low, first], cap(frame, half))?;
        frame.whisker(foot, [third, high], cap(frame, half))?;
    }
    stroke(area, &across(point.mean))
}

/// The 5th, 25th, 75th and 95th percentile.
fn quartiles(point: &Point) -> Option<[f64; 4]> {
    let at = |name: &str| point.percentiles.get(name).copied();
    Some([at("p5")?, at("p25")?, at("p75")?, at("p95")?])
}

/// How far the ends of a whisker reach, in pixels.
fn cap(frame: &Frame, half: f64) -> i32 {
    ((half * f64::from(frame.step())) as i32 / 2).clamp(2, 6)
}

/// A cross at the place and, if it has the name of one, in the bar; a level line
/// without a place.
fn draw_paper(
    area: &Area,
    frame: &Frame,
    bars: &Bars,
    value: &PaperValue,
) -> Result<(), DrawError> {
    let Some(x) = value.x.as_ref().map(ToString::to_string) else {
        return frame.level(value.value, &palette::paper(None, 0));
    };
    let names = [x.as_str(), value.name.as_str()];
    let Some(place) = bars.places.iter().position(|place| names.contains(&place.as_str())) else {
        return Ok(());
    };
    let middle = match names.iter().find_map(|name| bars.colour_named(name)) {
        Some((colour, _)) => bars.span(place, colour).0,
        None => place as f64,
    };
    // In ink: it stands on its own colour otherwise.
    marker(area, frame.pixel(middle, value.value), &palette::paper(None, 0))
}

fn scale(figure: &Figure, bars: &Bars, paper: &[&PaperValue], room: Room) -> Scale {
    let points = bars.bars.iter().map(|(_, _, point)| point);
    let mut values: Vec<_> = paper.iter().map(|value| value.value).collect();
    let is_of_boxes = figure.kind == FigureKind::Boxes;
    for point in points {
        values.push(point.mean);
        match quartiles(point).filter(|_| is_of_boxes) {
            Some(quartiles) => values.extend(quartiles),
            None => values.extend(bounds_within(point.mean, point.bounds())),
        }
    }
    if !figure.bar_labels.is_empty() {
        values.extend(values.iter().copied().reduce(f64::max).map(|most| most * HEADROOM));
    }
    Scale::over(&figure.y, &values, true, room.ticks(room.height() as i32))
}

/// Names of places stand at so many heights at most.
const HEIGHTS: i32 = 3;

/// The names of places in lines, for places that are `step` pixels wide. Where one is wider than
/// that, neighbours stand at two heights, or three, each with the room of so many places.
fn names(places: &[String], step: i32, room: Room) -> Vec<Vec<String>> {
    let wrapped = |width| places.iter().map(move |name| wrap(name, width, room));
    let fits = |width: i32| wrapped(width).flatten().all(|line| room.width_of(&line) <= width);
    let heights = (1..HEIGHTS).find(|heights| fits(heights * step)).unwrap_or(HEIGHTS);
    let mut names: Vec<Vec<String>> = wrapped(heights * step).collect();
    let mut above = 0;
    for height in 0..heights as usize {
        let at_it = || (height..places.len()).step_by(heights as usize);
        let lines = at_it().map(|place| names[place].len()).max().unwrap_or(0);
        for place in at_it() {
            names[place].splice(0..0, vec![String::new(); above]);
        }
        above += lines;
    }
    names
}

/// A name in lines no wider than `width` pixels, as far as its words allow.
fn wrap(name: &str, width: i32, room: Room) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split_inclusive([' ', '-', '/']) {
        match lines.last_mut() {
            // A sign or an article does not stand alone.
            Some(line) if line.trim_end().chars().count() == 1 => line.push_str(word),
            Some(line) if room.width_of(&format!("{line}{word}")) <= width => line.push_str(word),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_wider_than_their_places_stand_at_several_heights() {
        let places = ["forwarder, one rule", "+ counter", "+ marker"].map(str::to_owned);
        let wide = names(&places, 200, Room::Narrow);
        assert_eq!(wide, [["forwarder, one rule"], ["+ counter"], ["+ marker"]]);
        let narrow = names(&places, 58, Room::Narrow);
        assert_eq!(narrow[0], ["forwarder,", "one rule"]);
        assert_eq!(
            (narrow[1].as_slice(), narrow[2].as_slice()),
            (&["", "", "+ counter"].map(str::to_owned)[..], &["+ marker".to_owned()][..])
        );
        let narrower = names(&places, 37, Room::Narrow);
        assert_eq!(narrower[1], ["", "", "+ counter"]);
        assert_eq!(narrower[2], ["", "", "", "+ marker"]);
    }

    #[test]
    fn names_wrap_at_their_words() {
        assert_eq!(wrap("kernel forwarding", 70, Room::Wide), ["kernel", "forwarding"]);
        assert_eq!(wrap("af-packet", 900, Room::Wide), ["af-packet"]);
        assert_eq!(wrap("af-packet", 1, Room::Wide), ["af-", "packet"]);
        assert!(wrap("", 100, Room::Wide).is_empty());
    }
}
