//! Costs that were measured: the file that `weft bench calibrate` writes and a model
//! reads.

use std::fmt::{self, Write};
use std::path::Path;

use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde_json::Value;
use weft_yaml::locate::Source;
use weft_yaml::mistake::Mistakes;
use weft_yaml::shape;
use weft_yaml::values::Entries;

use crate::cost::Cost;
use crate::costs::{Costs, CpuCosts};
use crate::quantity::Frequency;
use crate::version::ApiVersion;

/// What was measured on a machine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Calibration {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    /// What the file describes.
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Where it was measured.
    pub metadata: Metadata,
    /// The rate of the counter that cycles were counted by.
    pub frequency: Frequency,
    /// Cycles of the steps of a packet's way.
    #[serde(default)]
    pub cpu: CpuCosts,
    /// Cycles of each function, by name.
    #[serde(default)]
    pub functions: Entries<Cost>,
    /// The same in fused composition.
    #[serde(default)]
    pub fused: Entries<Cost>,
}

/// What a file describes.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
enum Kind {
    /// Measured costs.
    Calibration,
}

/// Where something was measured.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// What it is called.
    pub name: String,
    /// The machine, for people.
    #[serde(default)]
    pub machine: String,
    /// When, in UTC.
    #[serde(default)]
    pub measured: String,
}

impl Calibration {
    /// What was measured, with costs still to come.
    pub fn new(metadata: Metadata, frequency: f64) -> Calibration {
        Calibration {
            _api_version: ApiVersion::V1,
            _kind: Kind::Calibration,
            metadata,
            frequency: Frequency(frequency),
            cpu: CpuCosts::default(),
            functions: Entries::default(),
            fused: Entries::default(),
        }
    }

    /// Reads a calibration from `path`.
    ///
    /// # Errors
    /// [`Mistakes`]: as many as can be found at once.
    pub fn load(path: &Path) -> Result<Calibration, Mistakes> {
        Calibration::read(&weft_yaml::load(path)?, &path.display().to_string())
    }

    /// Reads a calibration. `file` is what mistakes call it.
    ///
    /// # Errors
    /// As [`Calibration::load`].
    pub fn read(text: &str, file: &str) -> Result<Calibration, Mistakes> {
        let mut source = weft_yaml::parse(text, file, "Calibration")?;
        let calibration: Option<Calibration> = shape::read(&mut source);
        if let Some(calibration) = &calibration {
            check_costs("cpu", &calibration.cpu, &mut source);
            check_functions("functions", &calibration.functions, &mut source);
            check_functions("fused", &calibration.fused, &mut source);
        }
        match calibration.filter(|_| source.mistakes.is_empty()) {
            Some(calibration) => Ok(calibration),
            None => Err(Mistakes::of(file, source.mistakes)),
        }
    }

    /// The costs in it.
    pub fn costs(&self) -> Costs {
        Costs {
            cpu: self.cpu.clone(),
            functions: self.functions.clone(),
            fused: self.fused.clone(),
            ..Costs::default()
        }
    }

    /// JSON schema (2020-12) of calibrations.
    pub fn schema() -> Value {
        schema_for!(Calibration).to_value()
    }
}

/// Notes what is wrong with the CPU's costs at `path`.
pub(crate) fn check_costs(path: &str, costs: &CpuCosts, source: &mut Source<'_>) {
    for (name, cost) in named(costs) {
        if let Some(mistake) = cost.as_ref().and_then(Cost::mistake) {
            source.wrong(&format!("{path}.{name}"), mistake);
        }
    }
}

/// Notes what is wrong with functions' costs at `path`.
pub(crate) fn check_functions(path: &str, costs: &Entries<Cost>, source: &mut Source<'_>) {
    for (name, cost) in &costs.0 {
        if let Some(mistake) = cost.mistake() {
            source.wrong(&format!("{path}.{name}"), mistake);
        }
    }
}

/// The CPU's costs by their names in files.
fn named(costs: &CpuCosts) -> [(&'static str, &Option<Cost>); 14] {
    [
        ("receive", &costs.receive),
        ("transmit", &costs.transmit),
        ("virtualFunction", &costs.virtual_function),
        ("node", &costs.node),
        ("chain", &costs.chain),
        ("hop", &costs.hop),
        ("mix", &costs.mix),
        ("machineCode", &costs.machine_code),
        ("softwareLink", &costs.software_link),
        ("virtualSwitch", &costs.virtual_switch),
        ("thread", &costs.thread),
        ("ring", &costs.ring),
        ("encapsulate", &costs.encapsulate),
        ("decapsulate", &costs.decapsulate),
    ]
}

/// The file.
impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Metadata { name, machine, measured } = &self.metadata;
        writeln!(f, "apiVersion: weft/v1\nkind: Calibration\nmetadata:")?;
        for (key, value) in [("name", name), ("machine", machine), ("measured", measured)] {
            writeln!(f, "  {key}: {}", Value::from(value.as_str()))?;
        }
        writeln!(f, "frequency: {}", self.frequency.0)?;
        let cpu = named(&self.cpu).into_iter();
        let cpu = cpu.filter_map(|(name, cost)| Some((name, cost.as_ref()?)));
        section(f, "cpu", cpu)?;
        for (name, entries) in [("functions", &self.functions), ("fused", &self.fused)] {
            section(f, name, entries.0.iter().map(|(name, cost)| (name.as_str(), cost)))?;
        }
        Ok(())
    }
}

fn section<'c>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    costs: impl Iterator<Item = (&'c str, &'c Cost)>,
) -> fmt::Result {
    let mut body = String::new();
    for (name, cost) in costs {
        let name = Value::from(name);
        match cost {
            Cost::Fixed(cycles) => writeln!(body, "  {name}: {cycles:.2}")?,
            Cost::Linear(linear) => writeln!(
                body,
                "  {name}: {{cycles: {:.2}, perByte: {:.5}}}",
                linear.cycles, linear.per_byte
            )?,
            Cost::Table(table) => {
                writeln!(body, "  {name}:")?;
                for row in table {
                    let (size, cycles) = (row.size.0, row.cycles);
                    writeln!(body, "    - {{size: {size}, cycles: {cycles:.2}}}")?;
                }
            }
        }
    }
    if body.is_empty() { Ok(()) } else { write!(f, "{name}:\n{body}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::At;
    use crate::quantity::Bytes;

    #[test]
    fn what_is_written_is_read_again() {
        let metadata = Metadata {
            name: "here".to_owned(),
            machine: "a \"quoted\": machine".to_owned(),
            measured: String::new(),
        };
        let mut calibration = Calibration::new(metadata, 2.445e9);
        let row = |size: f64, cycles: f64| At { size: Bytes(size), cycles };
        calibration.cpu.receive = Some(Cost::Table(vec![row(64.0, 20.5), row(1518.0, 30.25)]));
        calibration.functions.0.push(("pass".to_owned(), Cost::Fixed(2.5)));
        let read = Calibration::read(&calibration.to_string(), "c.yaml").unwrap();
        assert_eq!(read.cpu, calibration.cpu);
        assert_eq!(read.functions.0, calibration.functions.0);
        assert_eq!(read.metadata.machine, "a \"quoted\": machine");
        assert_eq!(read.frequency.0, 2.445e9);
    }

    #[test]
    fn a_mistake_is_told_at_its_place() {
        let text = "apiVersion: weft/v1\nkind: Calibration\nmetadata: {name: x}\n\
                    frequency: 2 GHz\ncpu: {receive: -3}\n";
        let told = Calibration::read(text, "c.yaml").unwrap_err().to_string();
        assert!(told.starts_with("c.yaml:5:16: "), "{told}");
    }
}
