//! One figure as SVG.
//!
//! Whatever is neither a colour of the palette nor background is drawn in
//! [`INK`], which is then replaced: by black in a file of its own, by the colour of
//! the text around it in a page, so that a figure follows light and dark.

use plotters::prelude::*;

use super::area::{DrawError, Room};
use super::frame::{beyond_two_lines, legend};
use super::palette::INK;
use super::{bars, lines};
use crate::results::{Figure, FigureKind, Results};

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
        FigureKind::Bars | FigureKind::Grouped | FigureKind::Boxes => {
            bars::entries(results, figure)
        }
    };
    let size = (room.width(), room.height() + beyond_two_lines(room, &entries));
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let top = legend(&area, room, &entries)?;
        match figure.kind {
            FigureKind::Lines => lines::draw(&area, results, figure, room, top)?,
            FigureKind::Bars | FigureKind::Grouped | FigureKind::Boxes => {
                bars::draw(&area, results, figure, room, top)?;
            }
        }
        area.present()?;
    }
    Ok(svg)
}
