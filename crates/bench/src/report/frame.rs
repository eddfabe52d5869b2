//! What stands around the curves and bars: legend, axes, grid; and the marks that
//! both kinds of figure are made of.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::area::{Area, DrawError, Room};
use super::palette::{INK, Look, Marker};
use super::scale::Scale;
use crate::results::Mark;

/// One entry of a legend.
pub struct Entry {
    pub name: String,
    pub look: Look,
    pub sample: Sample,
}

/// What stands before a name in a legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// A patch.
    Bar,
    /// A line with its marker.
    Curve,
    /// A marker.
    Mark,
    /// A line.
    Level,
}

/// The rectangle of the data, and the scales that fill it.
pub struct Frame<'a, 'svg> {
    area: &'a Area<'svg>,
    room: Room,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    x: Scale,
    y: Scale,
}

const MARGIN: i32 = 12;

/// Pixels from the centre of a marker to its edge.
const MARKER: i32 = 4;

/// From one line of text to the next, in pixels.
fn line_height(room: Room) -> i32 {
    room.text() as i32 + 6
}

fn text(room: Room, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    let font = ("sans-serif", room.text()).into_font().color(&INK);
    font.pos(Pos::new(horizontal, vertical))
}

/// Pixels of what stands before a name in a legend.
const SAMPLE: i32 = 30;

/// Where the entries of a legend stand, along the top, and where it ends.
fn places(room: Room, entries: &[Entry]) -> (Vec<(i32, i32)>, i32) {
    let width = room.width() as i32 - MARGIN;
    let (mut x, mut y) = (MARGIN, MARGIN);
    let mut places = Vec::new();
    for entry in entries {
        let needs = SAMPLE + 6 + room.width_of(&entry.name) + 16;
        if x > MARGIN && x + needs > width {
            (x, y) = (MARGIN, y + line_height(room));
        }
        places.push((x, y));
        x += needs;
    }
    (places, y + if entries.is_empty() { 0 } else { line_height(room) + 4 })
}

/// Pixels that a legend takes beyond its first two lines: so much higher is a figure,
/// so that many series do not leave their curves without room.
pub fn beyond_two_lines(room: Room, entries: &[Entry]) -> u32 {
    let (places, _) = places(room, entries);
    let last = places.last().map_or(MARGIN, |(_, y)| *y);
    (last - MARGIN - line_height(room)).max(0) as u32
}

/// Draws the legend along the top; returns where it ends.
pub fn legend(area: &Area, room: Room, entries: &[Entry]) -> Result<i32, DrawError> {
    let (places, end) = places(room, entries);
    for (entry, (x, y)) in entries.iter().zip(places) {
        let middle = y + line_height(room) / 2;
        let line = [(x, middle), (x + SAMPLE, middle)];
        match entry.sample {
            Sample::Bar => {
                bar(area, [(x + 6, middle - 6), (x + SAMPLE - 6, middle + 6)], &entry.look)?;
            }
            Sample::Level => curve(area, &line, &entry.look)?,
            Sample::Mark => marker(area, (x + SAMPLE / 2, middle), &entry.look)?,
            Sample::Curve => {
                curve(area, &line, &entry.look)?;
                marker(area, (x + SAMPLE / 2, middle), &entry.look)?;
            }
        }
        let style = text(room, HPos::Left, VPos::Center);
        area.draw(&Text::new(entry.name.clone(), (x + SAMPLE + 6, middle), style))?;
    }
    Ok(end)
}

impl<'a, 'svg> Frame<'a, 'svg> {
    /// Draws axes and grid below `top`, with the names of both axes. `lines` of
    /// text are kept free below for the numbers or names of x.
    pub fn draw(
        area: &'a Area<'svg>,
        room: Room,
        top: i32,
        (x, y): (Scale, Scale),
        (x_name, y_name): (&str, &str),
        lines: usize,
    ) -> Result<Frame<'a, 'svg>, DrawError> {
        let (width, height) = area.dim_in_pixel();
        let line = line_height(room);
        let numbers = y.ticks.iter().map(|&tick| room.width_of(&y.label(tick))).max();
        let named = i32::from(!x_name.is_empty());
        let frame = Frame {
            area,
            room,
            left: MARGIN + numbers.unwrap_or(0) + 8,
            // The last number of x is centred on the right edge.
            right: width as i32 - MARGIN - 14,
            top: top + line + 10,
            bottom: height as i32 - MARGIN - line * (lines as i32 + named),
            x,
            y,
        };
        let style = text(room, HPos::Left, VPos::Center);
        area.draw(&Text::new(y_name.to_owned(), (MARGIN, top + line / 2), style))?;
        frame.grid()?;
        if named > 0 {
            let style = text(room, HPos::Center, VPos::Bottom);
            let place = ((frame.left + frame.right) / 2, height as i32 - MARGIN / 2);
            area.draw(&Text::new(x_name.to_owned(), place, style))?;
        }
        Ok(frame)
    }

    fn grid(&self) -> Result<(), DrawError> {
        let faint = INK.mix(0.14).stroke_width(1);
        for &tick in &self.y.ticks {
            let (_, y) = self.pixel_of_places(self.x.low, tick);
            self.area.draw(&PathElement::new(vec![(self.left, y), (self.right, y)], faint))?;
            let style = text(self.room, HPos::Right, VPos::Center);
            self.area.draw(&Text::new(self.y.label(tick), (self.left - 7, y), style))?;
        }
        for &tick in &self.x.ticks {
            let (x, _) = self.pixel_of_places(tick, self.y.low);
            self.area.draw(&PathElement::new(vec![(x, self.top), (x, self.bottom)], faint))?;
            let style = text(self.room, HPos::Center, VPos::Top);
            self.area.draw(&Text::new(self.x.label(tick), (x, self.bottom + 6), style))?;
        }
        let axis = vec![(self.left, self.bottom), (self.right, self.bottom)];
        self.area.draw(&PathElement::new(axis, INK.mix(0.7).stroke_width(1)))?;
        Ok(())
    }

    /// The pixel of a pair of values.
    pub fn pixel(&self, x: f64, y: f64) -> (i32, i32) {
        self.pixel_of_places(self.x.place(x), self.y.place(y))
    }

    /// The pixel at the foot of the axis of y, or at its zero.
    pub fn foot(&self, x: f64) -> (i32, i32) {
        self.pixel(x, 0.0)
    }

    fn pixel_of_places(&self, x: f64, y: f64) -> (i32, i32) {
        let share = |scale: &Scale, place: f64| (place - scale.low) / (scale.high - scale.low);
        let along = f64::from(self.right - self.left) * share(&self.x, x);
        let up = f64::from(self.bottom - self.top) * share(&self.y, y);
        (self.left + along.round() as i32, self.bottom - up.round() as i32)
    }

    /// How wide one named place is.
    pub fn step(&self) -> i32 {
        (f64::from(self.right - self.left) / (self.x.high - self.x.low)) as i32
    }

    /// Writes the name of a place below the axis, in lines.
    pub fn name(&self, x: f64, lines: &[String]) -> Result<(), DrawError> {
        let (x, _) = self.pixel_of_places(x, self.y.low);
        for (number, line) in (0..).zip(lines) {
            let y = self.bottom + 6 + number * (line_height(self.room) - 3);
            let style = text(self.room, HPos::Center, VPos::Top);
            self.area.draw(&Text::new(line.clone(), (x, y), style))?;
        }
        Ok(())
    }

    /// A level line across the frame.
    pub fn level(&self, y: f64, look: &Look) -> Result<(), DrawError> {
        let (_, y) = self.pixel(self.x.low, y);
        curve(self.area, &[(self.left, y), (self.right, y)], look)
    }

    /// Writes a few letters upwards, above a value of y at a named place.
    pub fn on_top(&self, x: f64, y: f64, letters: &str) -> Result<(), DrawError> {
        const ABOVE: i32 = 6;
        let (x, y) = self.pixel(x, y);
        let font = ("sans-serif", self.room.text() - 4).into_font();
        let font = font.transform(FontTransform::Rotate270).color(&INK);
        let style = font.pos(Pos::new(HPos::Left, VPos::Center));
        self.area.draw(&Text::new(letters.to_owned(), (x, y - ABOVE), style))?;
        Ok(())
    }

    /// Thin lines up from places of x, with their names beside them: each below the one
    /// before, so that those of places close to each other can be read.
    pub fn marks(&self, marks: &[Mark]) -> Result<(), DrawError> {
        let line = line_height(self.room);
        for (number, mark) in (0..).zip(marks) {
            let (x, _) = self.pixel(mark.at, 0.0);
            let top = self.top + number * line;
            let style = INK.mix(0.45).stroke_width(1);
            self.area.draw(&PathElement::new(vec![(x, top), (x, self.bottom)], style))?;
            // To the left of the line, unless the name would stand on the axis there.
            let width = self.room.width_of(&mark.name);
            let (side, x) = match x - 4 - width > self.left {
                true => (HPos::Right, x - 4),
                false => (HPos::Left, (x + 4).min(self.right - width)),
            };
            let style = text(self.room, side, VPos::Center);
            self.area.draw(&Text::new(mark.name.clone(), (x, top + line / 2), style))?;
        }
        Ok(())
    }

    /// A whisker from one value of y to another.
    pub fn whisker(&self, pixel_x: i32, [low, high]: [f64; 2], cap: i32) -> Result<(), DrawError> {
        let (_, low) = self.pixel(0.0, low);
        let (_, high) = self.pixel(0.0, high);
        let style = INK.mix(0.75).stroke_width(1);
        let strokes = [
            [(pixel_x, low), (pixel_x, high)],
            [(pixel_x - cap, low), (pixel_x + cap, low)],
            [(pixel_x - cap, high), (pixel_x + cap, high)],
        ];
        for stroke in strokes {
            self.area.draw(&PathElement::new(stroke.to_vec(), style))?;
        }
        Ok(())
    }
}

/// A curve through pixels, dashed as it looks.
pub fn curve(area: &Area, pixels: &[(i32, i32)], look: &Look) -> Result<(), DrawError> {
    let style = look.colour.stroke_width(2);
    let points = pixels.iter().copied();
    match look.dash {
        (_, 0) => area.draw(&PathElement::new(points.collect::<Vec<_>>(), style))?,
        (dash, gap) => area.draw(&DashedPathElement::new(points, dash, gap, style))?,
    }
    Ok(())
}

/// A thick line in ink.
pub fn stroke(area: &Area, ends: &[(i32, i32); 2]) -> Result<(), DrawError> {
    area.draw(&PathElement::new(ends.to_vec(), INK.stroke_width(2)))?;
    Ok(())
}

/// A bar between two corners.
pub fn bar(area: &Area, corners: [(i32, i32); 2], look: &Look) -> Result<(), DrawError> {
    let strength = if look.hollow { 0.25 } else { 0.9 };
    area.draw(&Rectangle::new(corners, look.colour.mix(strength).filled()))?;
    if look.peer {
        stripes(area, corners, look)?;
    }
    if look.repeated {
        uprights(area, corners, look)?;
    }
    area.draw(&Rectangle::new(corners, look.colour.stroke_width(1)))?;
    Ok(())
}

/// Upright lines within a bar: another one has its colour.
fn uprights(area: &Area, corners: [(i32, i32); 2], look: &Look) -> Result<(), DrawError> {
    const APART: usize = 5;
    let colour = if look.hollow { look.colour.mix(1.0) } else { WHITE.mix(0.8) };
    let [(left, one), (right, other)] = corners;
    for x in (left.min(right) + 3..left.max(right)).step_by(APART) {
        area.draw(&PathElement::new(vec![(x, one), (x, other)], colour.stroke_width(1)))?;
    }
    Ok(())
}

/// Level lines across a bar: it is that of another program.
fn stripes(area: &Area, corners: [(i32, i32); 2], look: &Look) -> Result<(), DrawError> {
    const APART: usize = 6;
    let [(left, one), (right, other)] = corners;
    for y in (one.min(other)..one.max(other)).step_by(APART) {
        let line = vec![(left, y), (right, y)];
        area.draw(&PathElement::new(line, look.colour.stroke_width(1)))?;
    }
    Ok(())
}

/// A marker around a pixel.
pub fn marker(area: &Area, (x, y): (i32, i32), look: &Look) -> Result<(), DrawError> {
    let (near, far) = (MARKER, MARKER + 1);
    let outline = match look.marker {
        Marker::Circle => {
            let fill = ShapeStyle { filled: !look.hollow, ..look.colour.stroke_width(2) };
            area.draw(&Circle::new((x, y), near, fill))?;
            return Ok(());
        }
        Marker::Cross | Marker::Plus | Marker::Star => {
            let style = look.colour.stroke_width(2);
            let slanted = [(far, far), (far, -far)];
            let upright = [(far, 0), (0, far)];
            let strokes = match look.marker {
                Marker::Cross => &slanted[..],
                Marker::Plus => &upright[..],
                _ => &[slanted, upright].concat()[..],
            };
            for (dx, dy) in strokes {
                let ends = vec![(x - dx, y - dy), (x + dx, y + dy)];
                area.draw(&PathElement::new(ends, style))?;
            }
            return Ok(());
        }
        Marker::Square => vec![(-near, -near), (near, -near), (near, near), (-near, near)],
        Marker::Triangle => vec![(0, -far), (far, near), (-far, near)],
        Marker::Diamond => vec![(0, -far), (far, 0), (0, far), (-far, 0)],
        Marker::Wedge => vec![(0, far), (far, -near), (-far, -near)],
    };
    let mut corners: Vec<_> = outline.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    if !look.hollow {
        area.draw(&Polygon::new(corners, look.colour.filled()))?;
        return Ok(());
    }
    corners.extend(corners.first().copied());
    area.draw(&PathElement::new(corners, look.colour.stroke_width(2)))?;
    Ok(())
}

/// Strikes the marker at a pixel out: its load was not reached.
pub fn struck_out(area: &Area, (x, y): (i32, i32)) -> Result<(), DrawError> {
    let reach = MARKER + 5;
    let ends = vec![(x - reach, y + reach), (x + reach, y - reach)];
    area.draw(&PathElement::new(ends, INK.stroke_width(2)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::palette;

    #[test]
    fn a_figure_is_as_much_higher_as_its_legend_is_longer() {
        let entries = |count: usize, name: &str| -> Vec<Entry> {
            let of = |index| Entry {
                name: name.to_owned(),
                look: palette::look(index, false),
                sample: Sample::Curve,
            };
            (0..count).map(of).collect()
        };
        let long = "a name that takes a line of its own";
        for (count, lines) in [(0, 0), (1, 0), (2, 0), (3, 1), (10, 8)] {
            let beyond = beyond_two_lines(Room::Narrow, &entries(count, long));
            assert_eq!(beyond, lines * line_height(Room::Narrow) as u32, "{count}");
        }
        assert_eq!(beyond_two_lines(Room::Wide, &entries(10, "ab")), 0);
    }
}
