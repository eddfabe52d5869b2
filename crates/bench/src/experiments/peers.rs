//! `peers`: other programs and ours, in turn, on the same packets.
//!
//! Each kind of work has systems that do it. What is not installed, or what the kernel here
//! lacks, is noted; no figure of another run stands in its place.

mod systems;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::systems::{System, Trial};
use crate::experiment::Study;
use crate::experiments::failed::Failed;
use crate::experiments::figure::{Drawing, figure};
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run};
use weft_rig::Failure;

const X: &str = "work";

/// See [`Study::VARIES`].
pub struct Peers;

/// Parameters of `peers`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each system.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of frames with their checksum.
    #[schemars(range(min = 64, max = 1518))]
    frame_bytes: usize,
    /// Octets that are encrypted and decrypted at once.
    #[schemars(range(min = 64, max = 1518))]
    octets: usize,
    /// Operations of a trial of a cryptographic device.
    #[schemars(range(min = 1000))]
    operations: u64,
}

/// What is compared: a figure of its own, and a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// What a packet costs the core, from a capture into nothing.
    Memory,
    /// What comes through interfaces of the kernel.
    Interfaces,
    /// What an operation costs the core.
    Crypto,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Memory, Kind::Interfaces, Kind::Crypto];

    fn unit(self) -> &'static str {
        match self {
            Kind::Memory => "cycles/packet",
            Kind::Interfaces => "Mpps",
            Kind::Crypto => "cycles/operation",
        }
    }

    fn better(self) -> Better {
        match self {
            Kind::Interfaces => Better::Higher,
            Kind::Memory | Kind::Crypto => Better::Lower,
        }
    }

    fn drawing(self, names: &[&str]) -> Drawing {
        let names = names.iter().copied();
        match self {
            Kind::Memory => figure("memory", "A packet in memory", FigureKind::Bars, names)
                .caption(
                    "From the same capture without end into a null device, with as many buffers \
                     on the same pages: what a packet costs the core.",
                )
                .axes(Axis::linear("Work", ""), Axis::linear("Cost", "cycles/packet")),
            Kind::Interfaces => {
                figure("interfaces", "Through interfaces of the kernel", FigureKind::Bars, names)
                    .caption(
                        "What arrives while one core sends as much as it can into a veth pair: \
                         of all systems the same packets, received by the same receiver.",
                    )
                    .axes(Axis::linear("Work", ""), Axis::linear("Arrived", "Mpps"))
            }
            Kind::Crypto => figure("crypto", "One operation of AES-GCM", FigureKind::Bars, names)
                .caption(
                    "The same device on as many octets in bursts of 32: called as our functions \
                     do, and by DPDK's own program.",
                )
                .axes(Axis::linear("Work", ""), Axis::linear("Cost", "cycles/operation")),
        }
    }
}

impl Study for Peers {
    const NAME: &'static str = "peers";
    const TITLE: &'static str = "Other programs beside ours";
    const VARIES: &'static str = "program: ours, testpmd, the kernel's routes and nftables, Open \
                                  vSwitch, dpdk-test-crypto-perf";
    const PAPER: &'static str = "none";
    const FILE: &'static str = include_str!("../../../../experiments/peers.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let mut systems = systems::all(parameters, run);
        for system in &systems {
            run.series(&system.name, X, system.kind.unit(), Some(system.kind.better()));
        }
        let cells: Vec<_> = systems
            .iter()
            .enumerate()
            .map(|(index, system)| Cell::new(system.name.clone(), system.work, index))
            .collect();
        let mut failed = Failed::default();
        run.rounds(parameters.repetitions, &cells, |rig, &index| {
            let System { name, what, is_peer, .. } = &mut systems[index];
            let length = Duration::from_secs_f64(parameters.seconds);
            let trial = Trial { rig, parameters, length };
            match trial.make(what) {
                // A peer that fails does not end the experiment.
                Err(error) if *is_peer => failed.note(name, error),
                made => made,
            }
        })?;
        failed.tell(run);
        Ok(())
    }

    fn conclude(_: &Parameters, results: &mut Results) {
        let mut told = Vec::new();
        let mut figures = Vec::new();
        for kind in Kind::ALL {
            let of_kind = results.series.iter().filter(|series| series.unit == kind.unit());
            let names: Vec<String> = of_kind.map(|series| series.name.clone()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            told.extend(ratios(kind, &names, results));
            figures.extend(kind.drawing(&names).of(results));
        }
        let told: Vec<String> = told
            .into_iter()
            .map(|(key, said, ratio)| {
                results.derive(key, ratio);
                said
            })
            .collect();
        if !told.is_empty() {
            results.says = format!("Ours over theirs, in the same run: {}.", told.join("; "));
        }
        results.figures = figures;
    }
}

/// Ours over each peer that does the same work: the name of the derived number, what is said
/// of it, and the ratio.
fn ratios(kind: Kind, names: &[&str], results: &Results) -> Vec<(String, String, f64)> {
    let mut all = Vec::new();
    let of = |name: &&str| results.series(name);
    for series in names.iter().filter_map(of) {
        let Some(work) = series.points.first().map(|point| point.x.clone()) else { continue };
        let ours = names.iter().filter(|name| !results.is_of_peer(name)).filter_map(of);
        let ours = ours.filter_map(|series| series.mean_at(work.clone())).next();
        let theirs = series.mean_at(work.clone()).filter(|_| results.is_of_peer(&series.name));
        let Some((ours, theirs)) = ours.zip(theirs) else { continue };
        let what = if kind == Kind::Interfaces { "the rate" } else { "the cost" };
        let said = format!("{work}, {}: {:.2} times {what}", series.name, ours / theirs);
        all.push((format!("weft_over_{}", key(&series.name)), said, ours / theirs));
    }
    all
}

/// A name as derived numbers have it.
fn key(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::results::{Peer, Point, Series};

    #[test]
    fn only_the_same_work_is_compared() {
        let mut results = Results::new("peers", Machine::default());
        for (name, work, value) in
            [("weft", "a", 100.0), ("dpdk-testpmd macswap", "a", 50.0), ("other", "b", 1.0)]
        {
            let mut series = Series::new(name, X, "cycles/packet");
            series.points.push(Point::of(work, vec![value]).unwrap());
            results.series.push(series);
        }
        results.peers.push(Peer {
            name: "all".to_owned(),
            version: String::new(),
            how: String::new(),
            place: String::new(),
            series: vec!["dpdk-testpmd macswap".to_owned(), "other".to_owned()],
        });
        let names = ["weft", "dpdk-testpmd macswap", "other"];
        let ratios = ratios(Kind::Memory, &names, &results);
        assert_eq!(ratios.len(), 1);
        assert_eq!((ratios[0].0.as_str(), ratios[0].2), ("weft_over_dpdk_testpmd_macswap", 2.0));
    }
}
