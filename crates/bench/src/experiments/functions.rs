//! `functions`: what each function costs alone.

mod flows;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::flows::{ADDRESS, Traffic};
use super::figure::{figure, paper};
use crate::Failure;
use crate::experiment::Study;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::rig::Rig;
use crate::rig::alone::{Alone, Bench};
use crate::run::{Cell, Run, Values};

const X: &str = "frame, bytes";
const VPP_ROUTE: &str = "VPP, IPv4 forwarding, 1 route, with ports";
const VPP_TUNNELS: &str = "VPP, GTP-U decapsulation, 1 M tunnels, with ports";
const SNABB: &str = "Snabb lwAFTR, both directions, with ports, at most";
/// The functions with tables of their own: what is measured of each.
const TABLES: [(&str, Traffic); 5] = [
    ("route", Traffic::Routed),
    ("nat, from inside", Traffic::Inside),
    ("nat, from outside", Traffic::Outside),
    ("lwaftr, into softwires", Traffic::IntoSoftwires),
    ("lwaftr, out of softwires", Traffic::OutOfSoftwires),
];

/// See [`Study::VARIES`].
pub struct Functions;

/// Parameters of `functions`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each configuration.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Routes, mappings, softwires or users.
    entries: Vec<u32>,
    /// Bytes of a frame with its checksum; of the packet inside, for softwires.
    frame_bytes: Vec<usize>,
    /// Functions that keep something for each user, or nothing.
    functions: Vec<Component>,
}

/// A function that is measured.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Component {
    /// What the figure calls it.
    name: String,
    /// Which function it is.
    function: String,
    /// Its configuration, as in a node's file.
    #[serde(default)]
    config: Value,
    /// What it is told of each user, as under `users` in a node's file.
    #[serde(default)]
    settings: Value,
}

/// What is measured in one cell.
#[derive(Clone, Copy)]
struct Case<'a> {
    /// None for a function with a table of its own.
    component: Option<&'a Component>,
    traffic: Traffic,
    entries: u32,
    bytes: usize,
}

impl Study for Functions {
    const NAME: &'static str = "functions";
    const TITLE: &'static str = "What each function costs alone";
    const VARIES: &'static str = "function, 1 k or 1 M entries, frames of 64 to 1400 bytes";
    const PAPER: &'static str = "peers: Snabb, VPP";
    const FILE: &'static str = include_str!("../../../../experiments/functions.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let mut cells = Vec::new();
        for (name, case) in parameters.cases() {
            run.series(&name, X, "cycles/packet", Some(Better::Lower));
            for &bytes in &parameters.frame_bytes {
                cells.push(Cell::new(name.clone(), bytes as f64, Case { bytes, ..case }));
            }
        }
        // A trial that was spoilt is repeated with the tables that are filled.
        let mut last: Option<(*const Case<'_>, Bench)> = None;
        run.rounds(parameters.repetitions, &cells, |rig, case| {
            let mut bench = match last.take() {
                Some((same, bench)) if std::ptr::eq(same, case) => bench,
                _ => case.bench(rig)?,
            };
            let (cycles, disturbance) = rig.cost_alone(&mut bench, length)?;
            last = Some((case, bench));
            Ok((Values::of(cycles), disturbance))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let most = parameters.entries.iter().copied().max().unwrap_or_default();
        let mut said = Vec::new();
        for (table, bytes, name) in [
            ("route", 64, "cycles_route"),
            ("nat, from inside", 64, "cycles_nat_inside"),
            ("nat, from outside", 64, "cycles_nat_outside"),
            ("lwaftr, into softwires", 550, "cycles_lwaftr_into"),
            ("lwaftr, out of softwires", 550, "cycles_lwaftr_out"),
        ] {
            let series = results.series(&labelled(table, most));
            if let Some(cycles) = series.and_then(|series| series.mean_at(f64::from(bytes))) {
                results.derive(name, cycles);
                said.push(format!("{table} {cycles:.0} cycles"));
            }
        }
        if !said.is_empty() {
            results.says = format!("With {} entries: {}.", short(most), said.join(", "));
        }
        let vpp = "VPP 26.10, measured on this kind of machine";
        let snabb = "Snabb's lwAFTR on such a machine, 550 B, 1 M softwires";
        results.paper = vec![
            paper(VPP_ROUTE, 74.0, vpp),
            paper(VPP_TUNNELS, 1379.0, vpp),
            paper(SNABB, 366.0, snabb),
        ];
        let figures = parameters.entries.iter().filter_map(|&entries| {
            let cases = parameters.cases();
            let own = cases.iter().filter(|(_, case)| case.entries == entries);
            let names: Vec<&str> = own.map(|(name, _)| name.as_str()).collect();
            let title = format!("Cycles per packet, {} entries", short(entries));
            figure(&format!("entries-{entries}"), &title, FigureKind::Lines, names)
                .caption(
                    "Each packet is of another flow than the one before, in an order that jumps \
                     about. Ports, classification and the making of packets are taken off.",
                )
                .axes(Axis::log("Frame", "bytes"), Axis::log("Cost", "cycles/packet"))
                .paper([VPP_ROUTE, VPP_TUNNELS, SNABB])
                .of(results)
        });
        results.figures = figures.collect();
    }
}

impl Parameters {
    /// The name of each series, and what is measured in it, but for the length.
    fn cases(&self) -> Vec<(String, Case<'_>)> {
        let mut cases = Vec::new();
        for &entries in &self.entries {
            for (name, traffic) in TABLES {
                let case = Case { component: None, traffic, entries, bytes: 0 };
                cases.push((labelled(name, entries), case));
            }
            for component in &self.functions {
                let (component, traffic) = (Some(component), Traffic::Users);
                let name = component.map_or("", |component| &component.name);
                let case = Case { component, traffic, entries, bytes: 0 };
                cases.push((labelled(name, entries), case));
            }
        }
        cases
    }
}

fn labelled(name: &str, entries: u32) -> String {
    format!("{name}, {}", short(entries))
}

/// A count in as few characters as it takes.
fn short(count: u32) -> String {
    match count {
        _ if count >= 1_000_000 && count.is_multiple_of(1_000_000) => {
            format!("{} M", count / 1_000_000)
        }
        _ if count >= 1000 && count.is_multiple_of(1000) => format!("{} k", count / 1000),
        _ => count.to_string(),
    }
}

impl Case<'_> {
    /// The function with its table filled, and its packets.
    fn bench(&self, rig: &Rig) -> Result<Bench, Failure> {
        let Case { component, traffic, entries, bytes } = *self;
        let (function, config) = match (component, traffic) {
            (Some(component), _) => (component.function.as_str(), component.config.clone()),
            (None, Traffic::Routed) => ("route", route(rig.scratch(), entries)?),
            (None, Traffic::Inside | Traffic::Outside) => ("nat", nat(entries)),
            (None, _) => ("lwaftr", lwaftr(rig.scratch(), entries)?),
        };
        let settings = component.map_or(&Value::Null, |component| &component.settings);
        let users = traffic.users(entries);
        let alone = Alone { function, config, settings, users };
        let first = if traffic == Traffic::Outside { Traffic::Inside } else { traffic };
        let mut bench = Bench::new(rig, &alone, flows::packets(first, entries, bytes)?)?;
        if traffic == Traffic::Outside {
            // What was sent is answered: to where it came from by then.
            let mut answers = flows::packets(Traffic::Outside, entries, bytes)?;
            bench.pass(|place, frame| answers.flows[place].headers = flows::answer(frame))?;
            bench.replace(answers);
        }
        Ok(bench)
    }
}

/// As many prefixes as there are entries, all of them with one next hop.
fn route(scratch: &Path, entries: u32) -> Result<Value, Failure> {
    let file = written(scratch, &format!("routes-{entries}"), |text| {
        for number in 0..entries {
            let [a, b, c, _] = flows::prefix(number).to_be_bytes();
            let _ = writeln!(text, "{a}.{b}.{c}.0/24 dev out");
        }
    })?;
    let hops = [json!({"name": "out", "device": "out"})];
    Ok(json!({"nextHops": hops, "file": file, "follow": false}))
}

fn nat(entries: u32) -> Value {
    json!({
        "addresses": ["192.0.2.0/24"],
        "blockSize": flows::FLOWS_OF_A_USER,
        "mappings": entries,
    })
}

fn lwaftr(scratch: &Path, entries: u32) -> Result<Value, Failure> {
    let file = written(scratch, &format!("softwires-{entries}.json"), |text| {
        text.push_str(r#"{"portSets": [{"addresses": "11.0.0.0/8", "psidLength": 6}], "#);
        text.push_str(r#""softwires": ["#);
        for number in 0..entries {
            let (ipv4, psid, b4) = flows::softwire(number);
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(text, r#"{comma}{{"ipv4":"{ipv4}","psid":{psid},"b4":"{b4}"}}"#);
        }
        text.push_str("]}");
    })?;
    Ok(json!({"address": ADDRESS, "file": file, "follow": false}))
}

/// A file of this run, written when it is first asked for.
fn written(
    scratch: &Path,
    name: &str,
    write: impl FnOnce(&mut String),
) -> Result<PathBuf, Failure> {
    let path = scratch.join(name);
    if !path.exists() {
        let mut text = String::new();
        write(&mut text);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(path)
}
