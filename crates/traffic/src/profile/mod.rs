//! A profile of traffic: one YAML file, read and checked whole.

mod capture;
mod check;
mod yaml;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use schemars::schema_for;
use serde_json::Value;
use weft_yaml::mistake::Mistakes;
use weft_yaml::shape;

use crate::receiver::stream::Expected;
use crate::source::load::Load;
use crate::wire::Harm;

/// Traffic as a file describes it.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name of the profile.
    pub name: String,
    /// How long packets are sent.
    pub duration: Duration,
    /// All that is drawn at random follows from it.
    pub seed: u64,
    /// Core of the thread that sends, if it has one of its own.
    pub generator_core: Option<usize>,
    /// Core of the thread that receives, if it has one of its own.
    pub receiver_core: Option<usize>,
    /// The ports.
    pub ports: Vec<PortPlan>,
    /// What is sent.
    pub sources: Vec<SourcePlan>,
    /// Wires between ports.
    pub wires: Vec<WirePlan>,
}

/// One port.
#[derive(Clone, Debug)]
pub struct PortPlan {
    /// Its name.
    pub name: String,
    /// Its device string.
    pub device: String,
    /// Packets that its queues hold.
    pub descriptors: u16,
}

/// What is sent at one port.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// Index of the port where packets are sent.
    pub from: usize,
    /// Index of the port where they should arrive.
    pub to: Option<usize>,
    /// What is sent.
    pub load: Load,
    /// The streams, in the order of the load.
    pub streams: Vec<StreamPlan>,
}

/// What should arrive of one stream.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Name of the stream.
    pub name: String,
    /// What its packets look like when they arrive.
    pub arriving: Expected,
    /// Source and destination of each flow, where they are not in a row.
    pub addresses: Option<Vec<(IpAddr, IpAddr)>>,
    /// Flows that are watched.
    pub watch: Vec<u32>,
}

/// A wire between two ports.
#[derive(Clone, Debug)]
pub struct WirePlan {
    /// Index of the port that it takes packets from.
    pub from: usize,
    /// Index of the port that it gives them to.
    pub to: usize,
    /// What it does to them.
    pub harm: Harm,
}

impl Profile {
    /// Reads a profile from `path`.
    ///
    /// # Errors
    /// [`Mistakes`]: as many as can be found at once.
    pub fn load(path: &Path) -> Result<Profile, Mistakes> {
        Profile::read(&weft_yaml::load(path)?, &path.display().to_string())
    }

    /// Reads a profile. `file` is what mistakes call it.
    ///
    /// # Errors
    /// [`Mistakes`]: as many as can be found at once.
    pub fn read(text: &str, file: &str) -> Result<Profile, Mistakes> {
        let mut source = weft_yaml::parse(text, file, "Profile")?;
        shape::read(&mut source)
            .and_then(|profile| check::profile(&profile, &mut source))
            .ok_or_else(|| Mistakes::of(file, std::mem::take(&mut source.mistakes)))
    }

    /// JSON schema (2020-12) of profiles.
    pub fn schema() -> Value {
        schema_for!(yaml::ProfileFile).to_value()
    }
}

#[cfg(test)]
mod tests;
