//! One figure as SVG.
//!
//! Whatever is neither a colour of the palette nor background is drawn in
//! [`INK`], which is then replaced: by black in a file of its own, by the colour of
//! the text around it in a page, so that a figure follows light and dark.

use std::fmt;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::frame::{beyond_two_lines, legend};
use super::palette::INK;
use super::{bars, lines};
use crate::results::{Figure, FigureKind, Results};

/// What a figure is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A screen or a sheet of paper.
    Wide,
    /// A phone.
    Narrow,
}

/// A figure that could not be drawn.
#[derive(Debug)]
pub struct DrawError(String);

impl fmt::Display for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DrawError {}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for DrawError {
    fn from(error: DrawingAreaErrorKind<E>) -> DrawError {
        DrawError(error.to_string())
    }
}

/// Where figures are drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Room {
    /// Width in pixels.
    pub fn width(self) -> u32 {
        match self {
            Room::Wide => 720,
            Room::Narrow => 360,
        }
    }

    /// Height in pixels, with a legend of two lines at most.
    pub fn height(self) -> u32 {
        match self {
            Room::Wide => 430,
            Room::Narrow => 380,
        }
    }

    /// The size of text; its letters are about three quarters as high in pixels.
    pub fn text(self) -> u32 {
        match self {
            Room::Wide => 17,
            Room::Narrow => 16,
        }
    }

    /// About how wide a text is, in pixels: fonts differ.
    pub fn width_of(self, text: &str) -> i32 {
        (text.chars().count() as f64 * f64::from(self.text()) * 0.5).ceil() as i32
    }

    /// How many ticks an axis of this length in pixels has room for.
    pub fn ticks(self, length: i32) -> usize {
        let apart = if self == Room::Wide { 75 } else { 52 };
        (length / apart).max(2) as usize
    }
}

/// A figure as an SVG file of its own, on white.
///
/// # Errors
/// Where the drawing fails.
pub fn file(results: &Results, figure: &Figure) -> Result<String, DrawError> {
    let svg = draw(results, figure, Room::Wide)?;
    let background = r##"<rect width="100%" height="100%" fill="#FFFFFF"/>"##;
    let begin = svg.find('>').map_or(0, |end| end + 1);
    Ok(format!("{}\n{background}{}", &svg[..begin], &svg[begin..]).replace(&ink(), "#1A1A1A"))
}

/// A figure as an element of a page, in the colours of the text around it.
///
/// # Errors
/// Where the drawing fails.
pub fn inline(results: &Results, figure: &Figure, room: Room) -> Result<String, DrawError> {
    Ok(draw(results, figure, room)?.replace(&ink(), "currentColor"))
}

fn ink() -> String {
    format!("#{:02X}{:02X}{:02X}", INK.0, INK.1, INK.2)
}

fn draw(results: &Results, figure: &Figure, room: Room) -> Result<String, DrawError> {
    let entries = match figure.kind {
        FigureKind::Lines => lines::entries(results, figure),
        FigureKind::Bars | FigureKind::Grouped => bars::entries(results, figure),
    };
    let size = (room.width(), room.height() + beyond_two_lines(room, &entries));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let top = legend(&area, room, &entries)?;
        match figure.kind {
            FigureKind::Lines => lines::draw(&area, results, figure, room, top)?,
            FigureKind::Bars | FigureKind::Grouped => {
                bars::draw(&area, results, figure, room, top)?;
            }
        }
        area.present()?;
    }
    Ok(svg)
}
