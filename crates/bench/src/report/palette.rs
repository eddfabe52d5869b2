//! Colours, dashes and markers: each series has its own of all three, so that it
//! is told apart without seeing colour, or on grey paper.

use plotters::style::RGBColor;

/// What text, axes and whiskers are drawn in. It stands for the colour of the
/// text around a figure; see [`super::figure`].
pub const INK: RGBColor = RGBColor(1, 2, 3);

/// Okabe and Ito's colours for all kinds of colour vision, without their yellow,
/// which is hard to see on white.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Lengths of dash and gap in pixels; the first is no dash at all.
const DASHES: [(u32, u32); 4] = [(1, 0), (9, 4), (3, 3), (14, 5)];

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    /// Pointing down.
    Wedge,
    /// What a paper states; so are the two below.
    Cross,
    Plus,
    Star,
}

const MARKERS: [Marker; 5] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Wedge];

const PAPER_MARKERS: [Marker; 3] = [Marker::Cross, Marker::Plus, Marker::Star];

/// How one series looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    pub colour: RGBColor,
    pub dash: (u32, u32),
    pub marker: Marker,
    /// Baselines are drawn hollow.
    pub hollow: bool,
    /// Other programs, measured in the same run: dotted, with half-filled bars.
    pub peer: bool,
    /// Its colour is that of an earlier series, too: bars have upright lines.
    pub repeated: bool,
}

/// Dots of the curves of other programs.
const DOTS: (u32, u32) = (2, 4);

/// The look of the series at `index`, of another program.
pub fn peer(index: usize) -> Look {
    Look { dash: DOTS, peer: true, ..look(index, true) }
}

/// The look of the series at `index`.
pub fn look(index: usize, baseline: bool) -> Look {
    Look {
        colour: COLOURS.get(index % (COLOURS.len() + 1)).copied().unwrap_or(INK),
        dash: DASHES[if baseline { 1 + index % (DASHES.len() - 1) } else { 0 }],
        marker: MARKERS[index % MARKERS.len()],
        hollow: baseline,
        peer: false,
        repeated: index > COLOURS.len(),
    }
}

/// The look of a paper's values: the colour is that of the series of the same
/// name, if there is one, and the shape tells others from each other.
pub fn paper(colour: Option<RGBColor>, index: usize) -> Look {
    let (colour, marker) = (colour.unwrap_or(INK), PAPER_MARKERS[index % PAPER_MARKERS.len()]);
    Look { colour, dash: DASHES[2], marker, hollow: false, peer: false, repeated: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_thirty_series_look_alike() {
        let looks: Vec<_> = (0..30).map(|index| look(index, index % 2 == 1)).collect();
        for (index, one) in looks.iter().enumerate() {
            assert!(!looks[..index].contains(one), "series {index}");
        }
    }
}
