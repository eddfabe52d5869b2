//! A model: one YAML file, read and checked whole.

mod check;
mod yaml;

use std::path::Path;

use schemars::schema_for;
use serde_json::Value;
use weft_yaml::mistake::Mistakes;
use weft_yaml::shape;

use crate::answer::Answer;
use crate::plan::Request;
use crate::quantity::{BitRate, PacketRate};
use crate::scenario::{Composition, Scenario, ScenarioError};

/// A model as a file describes it.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// The scenario, in the first of its compositions.
    pub scenario: Scenario,
    /// How functions are linked.
    pub compositions: Vec<Composition>,
    /// What is to be carried.
    pub load: Option<Load>,
    /// The sizes of a sweep over sizes, in bytes.
    pub sizes: Vec<f64>,
    /// The lengths of a sweep over lengths.
    pub lengths: Vec<usize>,
    /// What was measured.
    pub measured: Vec<Measured>,
    /// What is to be planned.
    pub plan: Option<Request>,
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Packets per second.
    Packets(f64),
    /// Bits of frames per second.
    Bits(f64),
}

impl Load {
    /// Packets per second, where a frame has `size` bytes on the mean.
    pub fn packets(self, size: f64) -> f64 {
        match self {
            Load::Packets(rate) => rate,
            Load::Bits(rate) => rate / (size * 8.0),
        }
    }
}

impl std::str::FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Load, String> {
        let packets = text.parse::<PacketRate>().map(|rate| Load::Packets(rate.0));
        let load = packets.or_else(|_| text.parse::<BitRate>().map(|rate| Load::Bits(rate.0)));
        load.map_err(|_| format!("`{text}` is no load; write one such as `5 Mpps` or `20 Gbit/s`"))
    }
}

/// Something that was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What it is called.
    pub name: String,
    /// The scenario that was measured.
    pub scenario: Scenario,
    /// What was measured.
    pub quantity: Quantity,
    /// Where it is stated.
    pub source: String,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// Packets per second.
    Rate(f64),
    /// Cycles per packet at the core that spends most.
    Cycles(f64),
}

impl Quantity {
    /// What the model says in its place.
    pub fn predicted(self, answer: &Answer) -> f64 {
        match self {
            Quantity::Rate(_) => answer.limit.rate,
            Quantity::Cycles(_) => answer.cycles(),
        }
    }

    /// The number.
    pub fn value(self) -> f64 {
        match self {
            Quantity::Rate(value) | Quantity::Cycles(value) => value,
        }
    }
}

impl Model {
    /// Reads a model from `path`.
    ///
    /// # Errors
    /// [`Mistakes`]: as many as can be found at once.
    pub fn load(path: &Path) -> Result<Model, Mistakes> {
        let directory = path.parent().unwrap_or(Path::new("."));
        Model::read(&weft_yaml::load(path)?, &path.display().to_string(), directory)
    }

    /// Reads a model. `file` is what mistakes call it; the files that it names are
    /// sought from `directory`.
    ///
    /// # Errors
    /// As [`Model::load`], and those of a calibration that it names.
    pub fn read(text: &str, file: &str, directory: &Path) -> Result<Model, Mistakes> {
        let mut source = weft_yaml::parse(text, file, "Model")?;
        let Some(written) = shape::read(&mut source) else {
            return Err(Mistakes::of(file, source.mistakes));
        };
        let model = check::model(written, &mut source, directory)?;
        model.ok_or_else(|| Mistakes::of(file, source.mistakes))
    }

    /// JSON schema (2020-12) of models.
    pub fn schema() -> Value {
        schema_for!(yaml::ModelFile).to_value()
    }

    /// The scenario in each of the compositions.
    pub fn scenarios(&self) -> impl Iterator<Item = Scenario> {
        self.compositions
            .iter()
            .map(|&composition| Scenario { composition, ..self.scenario.clone() })
    }

    /// What each point of a sweep carries, for each composition.
    ///
    /// # Errors
    /// As [`Scenario::answer`].
    pub fn sweep(&self, over: Sweep) -> Result<Vec<(Composition, Vec<Swept>)>, ScenarioError> {
        let curves = self.scenarios().map(|scenario| {
            let at = |x: f64| match over {
                Sweep::Size => scenario.with_size(x),
                Sweep::Length => scenario.with_length(x as usize),
            };
            let point = |x: f64| {
                let scenario = at(x);
                Ok(Swept { x, bus_bits: scenario.bus_bits(), answer: scenario.answer()? })
            };
            let points: Result<Vec<_>, _> = match over {
                Sweep::Size => self.sizes.iter().map(|&size| point(size)).collect(),
                Sweep::Length => self.lengths.iter().map(|&length| point(length as f64)).collect(),
            };
            Ok((scenario.composition, points?))
        });
        curves.collect()
    }
}

/// What a sweep varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// The size of all frames.
    Size,
    /// The length of all chains.
    Length,
}

/// One point of a sweep.
#[derive(Clone, Debug)]
pub struct Swept {
    /// The size or length.
    pub x: f64,
    /// What is carried there.
    pub answer: Answer,
    /// Bits that a packet moves over the bus in one direction.
    pub bus_bits: f64,
}
