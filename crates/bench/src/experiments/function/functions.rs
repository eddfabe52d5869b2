//! `functions`: what each function costs alone.

pub(crate) mod configure;
pub(crate) mod esp;
pub(crate) mod flows;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_dpdk::crypto::{Device, Direction};

use self::esp::DeviceAlone;
use self::flows::Traffic;
use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::experiments::sgw::bearers::short as in_name;
use crate::results::{Axis, Better, Figure, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::Rig;
use weft_rig::trials::alone::{Alone, Bench, Subject, Told};

const X: &str = "frame, bytes";
/// The functions with tables of their own: what is measured of each.
const TABLES: [(&str, Traffic); 5] = [
    ("route", Traffic::Routed),
    ("nat, from inside", Traffic::Inside),
    ("nat, from outside", Traffic::Outside),
    ("lwaftr, into softwires", Traffic::IntoSoftwires),
    ("lwaftr, out of softwires", Traffic::OutOfSoftwires),
];

/// Those of IPsec, and the device that encrypts and decrypts for them.
const IPSEC: [(&str, Traffic); 2] =
    [(ENCRYPT, Traffic::IntoTunnels), (DECRYPT, Traffic::OutOfTunnels)];
const ENCRYPT: &str = "esp-encrypt";
const DECRYPT: &str = "esp-decrypt";
const DEVICE_ALONE: [(&str, Direction); 2] = [(SEALS, Direction::Seal), (OPENS, Direction::Open)];
const SEALS: &str = "cryptographic device alone, encrypting";
const OPENS: &str = "cryptographic device alone, decrypting";

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
    /// Security associations, which have keys in the memory that packets are in: as many as
    /// there is room for.
    associations: Vec<u32>,
    /// Bytes of a frame with its checksum; of the packet inside, for softwires and ESP.
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
    what: FunctionUnderTest<'a>,
    entries: u32,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum FunctionUnderTest<'a> {
    /// A function with a table of its own.
    Table(Traffic),
    /// One that keeps something for each user.
    Component(&'a Component),
    /// One end of security associations.
    Ipsec(Traffic),
    /// The device alone.
    Device(Direction),
}

impl Study for Functions {
    const NAME: &'static str = "functions";
    const TITLE: &'static str = "What each function costs alone";
    const VARIES: &'static str = "function, 1 k or 1 M entries, frames of 64 to 1400 bytes";
    const PAPER: &'static str = "none";
    const FILE: &'static str = include_str!("../../../../../experiments/functions.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let mut cells = Vec::new();
        let mut cases = parameters.cases();
        match Device::open(run.rig.eal, esp::DEVICE) {
            Ok(_) => cases.extend(parameters.ipsec()),
            Err(missing) => run.note(format!("IPsec: not measured, {missing}.")),
        }
        for (name, case) in cases {
            run.series(&name, X, "cycles/packet", Some(Better::Lower));
            for &bytes in &parameters.frame_bytes {
                cells.push(Cell::new(name.clone(), bytes as f64, Case { bytes, ..case }));
            }
        }
        // A trial that was spoilt is repeated with the tables that are filled.
        let mut last: Option<(*const Case<'_>, Box<dyn Subject>)> = None;
        run.rounds(parameters.repetitions, &cells, |rig, case| {
            // Another one goes before the next comes: both may not fit into memory.
            let same = last.take().filter(|(same, _)| std::ptr::eq(*same, case));
            let mut subject = match same {
                Some((_, subject)) => subject,
                None => case.subject(rig)?,
            };
            let (cycles, disturbance) = rig.cost_alone(&mut *subject, length)?;
            last = Some((case, subject));
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
        for (name, cycles) in parameters.work_cycles(results) {
            results.derive(name, cycles);
        }
        let mut says = Vec::new();
        if !said.is_empty() {
            says.push(format!("With {} entries: {}.", short(most), said.join(", ")));
        }
        says.extend(parameters.say_ipsec(results));
        results.says = says.join(" ");
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
                .of(results)
        });
        results.figures = figures.chain(parameters.ipsec_figure(results)).collect();
    }
}

impl Parameters {
    /// What the real functions cost by how many entries they have, as derived numbers are
    /// named: at 128 bytes, `lwaftr` at 550. Of two directions the dearer counts.
    fn work_cycles(&self, results: &Results) -> Vec<(String, f64)> {
        let nat: &[&str] = &["nat, from inside", "nat, from outside"];
        let lwaftr = &["lwaftr, into softwires", "lwaftr, out of softwires"];
        let mut all = Vec::new();
        let mut add = |name: &str, entries: u32, series: Vec<String>, bytes: u32| {
            let cycles = |name: String| results.series(&name)?.mean_at(f64::from(bytes));
            let dearer = series.into_iter().filter_map(cycles).reduce(f64::max);
            let name = format!("work_cycles_{name}_{}", in_name(entries));
            all.extend(dearer.map(|cycles| (name, cycles)));
        };
        for &entries in &self.entries {
            for (name, tables, bytes) in
                [("route", &["route"][..], 128), ("nat", nat, 128), ("lwaftr", lwaftr, 550)]
            {
                let series = tables.iter().map(|table| labelled(table, entries)).collect();
                add(name, entries, series, bytes);
            }
        }
        for &entries in &self.associations {
            let series = IPSEC.map(|(name, _)| associated(name, entries)).into();
            add("esp", entries, series, 128);
        }
        all
    }

    /// The name of each series, and what is measured in it, but for the length.
    fn cases(&self) -> Vec<(String, Case<'_>)> {
        let mut cases = Vec::new();
        for &entries in &self.entries {
            let case =
                |name: &str, what| (labelled(name, entries), Case { what, entries, bytes: 0 });
            cases.extend(
                TABLES.map(|(name, traffic)| case(name, FunctionUnderTest::Table(traffic))),
            );
            let components = self.functions.iter();
            cases.extend(
                components.map(|component| {
                    case(&component.name, FunctionUnderTest::Component(component))
                }),
            );
        }
        cases
    }

    /// The same for IPsec: the device has one key.
    fn ipsec(&self) -> Vec<(String, Case<'_>)> {
        let mut cases = Vec::new();
        for &entries in &self.associations {
            cases.extend(IPSEC.map(|(name, traffic)| {
                let what = FunctionUnderTest::Ipsec(traffic);
                (associated(name, entries), Case { what, entries, bytes: 0 })
            }));
        }
        cases.extend(DEVICE_ALONE.map(|(name, direction)| {
            (
                name.to_owned(),
                Case { what: FunctionUnderTest::Device(direction), entries: 1, bytes: 0 },
            )
        }));
        cases
    }

    /// What the functions cost more than the device: with one key, and with most.
    fn say_ipsec(&self, results: &mut Results) -> Option<String> {
        const BYTES: f64 = 550.0;
        let most = self.associations.iter().copied().max()?;
        let mut said = Vec::new();
        for (function, device, name) in
            [(ENCRYPT, SEALS, "esp_encrypt"), (DECRYPT, OPENS, "esp_decrypt")]
        {
            let at = |series: &str| results.series(series)?.mean_at(BYTES);
            let (alone, one) = (at(device), at(&associated(function, 1)));
            let all = at(&associated(function, most));
            if let Some(all) = all {
                results.derive(format!("cycles_{name}"), all);
            }
            let (Some(one), Some(alone)) = (one, alone) else { continue };
            results.derive(format!("{name}_over_device"), one / alone);
            said.push(format!("{function} {:.2} times", one / alone));
        }
        (!said.is_empty()).then(|| {
            let said = said.join(", ");
            format!(
                "With one key and {BYTES} bytes, against the cryptographic device alone: {said}."
            )
        })
    }

    fn ipsec_figure(&self, results: &Results) -> Option<Figure> {
        let cases = self.ipsec();
        let names = cases.iter().map(|(name, _)| name.as_str());
        let title = "Cycles per packet, IPsec";
        figure("ipsec", title, FigureKind::Lines, names)
            .caption(
                "AES-GCM with keys of 128 bits, in tunnels over IPv4. The device alone has one key \
                 and encrypts as many octets as there are in a packet, its padding and trailer. \
                 Keys lie where packets do, so there are not as many as entries of tables.",
            )
            .axes(Axis::log("Frame", "bytes"), Axis::log("Cost", "cycles/packet"))
            .baselines([SEALS, OPENS])
            .of(results)
    }
}

fn associated(name: &str, associations: u32) -> String {
    match associations {
        1 => format!("{name}, 1 association"),
        _ => format!("{name}, {} associations", short(associations)),
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
    /// What is measured: a function with its table filled, and its packets.
    fn subject(&self, rig: &Rig) -> Result<Box<dyn Subject>, Failure> {
        let Case { what, entries, bytes } = *self;
        Ok(match what {
            FunctionUnderTest::Table(traffic) => Box::new(table(rig, traffic, entries, bytes)?),
            FunctionUnderTest::Component(Component { function, config, settings, .. }) => {
                let settings =
                    if settings.is_null() { Told::Nothing } else { Told::Alike(settings) };
                let alone = Alone { function, config: config.clone(), settings, users: entries };
                Box::new(Bench::new(rig, &alone, flows::packets(Traffic::Users, entries, bytes)?)?)
            }
            FunctionUnderTest::Ipsec(traffic) => Box::new(ipsec(rig, traffic, entries, bytes)?),
            FunctionUnderTest::Device(direction) => {
                Box::new(DeviceAlone::new(rig, direction, flows::network_length(bytes))?)
            }
        })
    }
}

fn table(rig: &Rig, traffic: Traffic, entries: u32, bytes: usize) -> Result<Bench, Failure> {
    let (function, config) = match traffic {
        Traffic::Routed => ("route", configure::route(rig.scratch(), entries)?),
        Traffic::Inside | Traffic::Outside => ("nat", configure::nat(entries)),
        _ => ("lwaftr", configure::lwaftr(rig.scratch(), entries)?),
    };
    let alone = Alone { function, config, settings: Told::Nothing, users: traffic.users(entries) };
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

fn ipsec(rig: &Rig, traffic: Traffic, users: u32, bytes: usize) -> Result<Bench, Failure> {
    let mut packets = flows::packets(traffic, users, bytes)?;
    let (function, told): (_, fn(u32) -> Value) = match traffic {
        Traffic::OutOfTunnels => {
            let users = packets.flows.iter().map(|flow| flow.user).collect();
            packets.finish = Some(esp::seal(rig, users)?);
            (DECRYPT, esp::opening)
        }
        _ => (ENCRYPT, esp::sealing),
    };
    let config = json!({"device": esp::DEVICE, "associations": users});
    Bench::new(rig, &Alone { function, config, settings: Told::Each(told), users }, packets)
}
