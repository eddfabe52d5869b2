//! Figures, told in a line or two.

use weft_dpdk::tsc;

use crate::results::{Axis, Figure, FigureKind, PaperValue, Results};

/// A figure in the making.
pub struct Drawing(Figure);

/// A figure of these series.
pub fn figure<'s>(
    name: &str,
    title: &str,
    kind: FigureKind,
    series: impl IntoIterator<Item = &'s str>,
) -> Drawing {
    Drawing(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: String::new(),
        kind,
        x: Axis::default(),
        y: Axis::default(),
        series: series.into_iter().map(str::to_owned).collect(),
        baselines: Vec::new(),
        paper: Vec::new(),
        marks: Vec::new(),
        bar_labels: Vec::new(),
    })
}

impl Drawing {
    /// What is drawn, and which figure of a paper has this form.
    pub fn caption(mut self, caption: &str) -> Drawing {
        caption.clone_into(&mut self.0.caption);
        self
    }

    /// From left to right, and from bottom to top.
    pub fn axes(mut self, x: Axis, y: Axis) -> Drawing {
        (self.0.x, self.0.y) = (x, y);
        self
    }

    /// The series that are not Weft.
    pub fn baselines<'s>(mut self, names: impl IntoIterator<Item = &'s str>) -> Drawing {
        self.0.baselines = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// The paper's values that belong on it.
    pub fn paper<'s>(mut self, names: impl IntoIterator<Item = &'s str>) -> Drawing {
        self.0.paper = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// The figure of what was measured; none of nothing.
    pub fn of(mut self, results: &Results) -> Option<Figure> {
        self.0.series.retain(|name| results.series(name).is_some());
        self.0.baselines.retain(|name| results.series(name).is_some());
        (!self.0.series.is_empty()).then_some(self.0)
    }
}

/// A number that a paper states of a series or of something by itself.
pub fn paper(name: &str, value: f64, source: &str) -> PaperValue {
    PaperValue { name: name.to_owned(), x: None, value, source: source.to_owned() }
}

/// Millions of packets per second of a core that spends so many cycles on each.
pub fn mpps(cycles: f64) -> f64 {
    tsc::hz() as f64 / cycles / 1e6
}
