//! What figures are drawn on, and what room they have there.

use std::fmt;

use plotters::coord::Shift;
use plotters::prelude::*;

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
