//! `results.json`: what one experiment measured, and all that is needed to draw
//! it, to compare it and to repeat it.
//!
//! A [`Series`] is one curve or one group of bars; a [`Point`] of it keeps its raw
//! repetitions. A [`Figure`] says which series stand on which axes, so the report
//! needs to know nothing of the experiment.

mod file;
mod point;
mod text;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::Machine;
use weft_rig::Account;

pub use file::{ReadError, WriteError, write_whole};
pub use point::{Abscissa, Point, PointError, Way};

/// What the field `schema` of a results file of this form says.
pub const SCHEMA: &str = "weft/results/v1";

/// The name of the file in the directory of an experiment.
pub const FILE_NAME: &str = "results.json";

/// That of results under way, where complete ones have the other name until these are.
pub const UNFINISHED_NAME: &str = "unfinished.json";

/// One experiment's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The name of the experiment, as `weft bench list` shows it.
    pub experiment: String,
    /// A heading for people.
    #[serde(default)]
    pub title: String,
    /// The command that repeats it.
    #[serde(default)]
    pub command: String,
    /// When it was begun: RFC 3339, in UTC.
    #[serde(default)]
    pub began: String,
    /// False when it was interrupted and holds only what was measured till then.
    #[serde(default = "yes")]
    pub complete: bool,
    /// Where it was measured.
    pub machine: Machine,
    /// What was set, by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, Value>,
    /// What was measured.
    pub series: Vec<Series>,
    /// Single numbers computed from the series.
    #[serde(default)]
    pub derived: BTreeMap<String, f64>,
    /// Their 95 % confidence intervals, by jackknife over rounds, where there is more
    /// than one round.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub derived_ci95: BTreeMap<String, [f64; 2]>,
    /// Other programs that did the same work, in the same run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
    /// What a paper reports, where its text or tables give numbers.
    #[serde(default)]
    pub paper: Vec<PaperValue>,
    /// How the series are drawn.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// The figure or table of a paper that is made again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Whether the shape of that figure is seen here, where the paper states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// One sentence that says what is seen, computed from the data.
    #[serde(default)]
    pub says: String,
    /// What became of trials: repeated, disturbed, missing.
    #[serde(default, skip_serializing_if = "Account::is_empty")]
    pub trials: Account,
    /// What a reader must know beside: what was not counted here, what limited a
    /// result, how many trials were spoilt and repeated.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Points that belong together: one curve, or one colour of bars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Its name in legends; unique within a file.
    pub name: String,
    /// What `x` of its points is, with its unit.
    pub x: String,
    /// The unit of its values: `Mpps`, `cycles/packet`, `µs`…
    pub unit: String,
    /// Which way is better, where the unit does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    /// The series that it is computed from, repetition by repetition, and says nothing
    /// beyond: a rate of one core, from cycles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed_from: Option<String>,
    /// The points, in the order in which they are drawn.
    pub points: Vec<Point>,
}

/// Which way a change is for the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Rates.
    Higher,
    /// Costs, delays, losses.
    Lower,
}

/// A number that a paper states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaperValue {
    /// The series or quantity it belongs to.
    pub name: String,
    /// Where on the x axis, if on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<Abscissa>,
    /// The value, in the unit of the figure's y axis.
    pub value: f64,
    /// Where it is stated: "Pinczel et al., fig. 5a".
    #[serde(default)]
    pub source: String,
}

/// Another program that did the same work, measured in the same run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// What it says of its version.
    pub version: String,
    /// What it was made to do, and how that was measured.
    pub how: String,
    /// Where the program is.
    #[serde(rename = "where")]
    pub place: String,
    /// The series that it was measured in.
    pub series: Vec<String>,
}

/// The shape of a paper's figure, and whether it is seen here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shape {
    /// What the paper states.
    pub paper: String,
    /// The same of what was measured here; none where too little was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<String>,
    /// Whether the shape holds; none where too little was measured to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

/// One drawing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The stem of its file's name; unique within a file; `[a-z0-9-]`.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What is drawn and which figure of a paper has this form.
    #[serde(default)]
    pub caption: String,
    /// How the points are drawn.
    pub kind: FigureKind,
    /// The axis from left to right; its label is unused where points have names.
    pub x: Axis,
    /// The axis from bottom to top.
    pub y: Axis,
    /// The names of the series drawn, in the order of the legend.
    pub series: Vec<String>,
    /// Those among them that are not Weft: drawn and tabled as baselines.
    #[serde(default)]
    pub baselines: Vec<String>,
    /// The names of the paper's values that belong on it.
    #[serde(default)]
    pub paper: Vec<String>,
    /// Places of a numeric x that have names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// What stands on top of bars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bar_labels: Vec<BarLabel>,
}

/// A few letters on top of a bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BarLabel {
    /// The series of the bar.
    pub series: String,
    /// Its place.
    pub x: Abscissa,
    /// What stands there.
    pub text: String,
}

/// A place on the x axis that has a name: a line stands there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// What it is called.
    pub name: String,
}

/// How the points of a figure are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// A curve for each series, over a numeric x.
    Lines,
    /// A bar for each point, over a named x; several series stand side by side.
    Bars,
    /// Bars whose groups are the series and whose colours are the points' names.
    Grouped,
    /// A box from the 25th to the 75th percentile for each point, as `Bars` stand, with its median
    /// and whiskers from the 5th to the 95th (percentiles `p5`, `p25`, `p75`, `p95`).
    Boxes,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// Its unit; empty for a plain count.
    #[serde(default)]
    pub unit: String,
    /// Whether it is logarithmic.
    #[serde(default)]
    pub log: bool,
}

impl Results {
    /// Results without any points yet, of an experiment begun now, here.
    pub fn new(experiment: &str, machine: Machine) -> Results {
        Results {
            schema: SCHEMA.to_owned(),
            experiment: experiment.to_owned(),
            title: String::new(),
            command: String::new(),
            began: file::now(),
            complete: true,
            machine,
            parameters: BTreeMap::new(),
            series: Vec::new(),
            derived: BTreeMap::new(),
            derived_ci95: BTreeMap::new(),
            peers: Vec::new(),
            paper: Vec::new(),
            figures: Vec::new(),
            from: String::new(),
            shape: None,
            says: String::new(),
            trials: Account::default(),
            notes: Vec::new(),
        }
    }

    /// The series of that name.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Whether a series is that of another program.
    pub fn is_of_peer(&self, series: &str) -> bool {
        self.peers.iter().any(|peer| peer.series.iter().any(|name| name == series))
    }

    /// Keeps a series that is computed from others. Results that are gone on with have
    /// one of that name already: it gives way.
    pub fn compute(&mut self, series: Series) {
        self.series.retain(|other| other.name != series.name);
        self.series.push(series);
    }

    /// Keeps a single number, unless it is not finite: what could not be computed
    /// is left out.
    pub fn derive(&mut self, name: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.derived.insert(name.into(), value);
        }
    }
}

impl Series {
    /// A series without points.
    pub fn new(name: impl Into<String>, x: impl Into<String>, unit: impl Into<String>) -> Series {
        Series {
            name: name.into(),
            x: x.into(),
            unit: unit.into(),
            better: None,
            computed_from: None,
            points: Vec::new(),
        }
    }

    /// The points that count: the generator reached their load, where they have one.
    pub fn counting(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| !point.short)
    }

    /// The point at `x`, if it counts.
    pub fn at(&self, x: impl Into<Abscissa>) -> Option<&Point> {
        let x = x.into();
        self.counting().find(|point| point.x == x)
    }

    /// The mean at `x`, if it counts.
    pub fn mean_at(&self, x: impl Into<Abscissa>) -> Option<f64> {
        self.at(x).map(|point| point.mean)
    }
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), log: false }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { log: true, ..Axis::linear(label, unit) }
    }

    /// Its label with its unit, as it stands beside the axis.
    pub fn text(&self) -> String {
        match self.unit.as_str() {
            "" => self.label.clone(),
            unit => format!("{} ({unit})", self.label),
        }
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_form_that_scripts_rely_on() {
        let mut results = Results::new("users", Machine::default());
        let mut series = Series::new("weft", "users", "Mpps");
        series.points.push(Point::of(1, vec![2.0, 4.0]).unwrap());
        results.series.push(series);
        results.derive("rate", 0.5);
        results.derive("unknown", f64::NAN);
        let value = serde_json::to_value(&results).unwrap();
        assert_eq!(value["schema"], "weft/results/v1");
        let point = &value["series"][0]["points"][0];
        assert_eq!(point["x"], 1.0);
        assert_eq!(point["mean"], 3.0);
        assert_eq!(point["n"], 2);
        assert_eq!(point["raw"], serde_json::json!([2.0, 4.0]));
        assert!(point["ci95"][0].as_f64().unwrap() < 3.0);
        assert_eq!(value["derived"], serde_json::json!({"rate": 0.5}));
        assert_eq!(serde_json::from_value::<Results>(value).unwrap(), results);
    }
}
