//! `io-environments`: a simple forwarder over each kind of I/O.

mod delay;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::figure::{figure, paper};
use crate::results::{Axis, BarLabel, Better, Figure, FigureKind, Results, Series};
use crate::run::{Cell, Run, Value, Values};
use weft_rig::Failure;
use weft_rig::Offer;
use weft_rig::Rig;
use weft_rig::Setup;
use weft_rig::USERS;
use weft_rig::baseline::line::Line;
use weft_rig::baseline::{kernel, open_vswitch, testpmd};
use weft_rig::network::environments::{Environment, Opened};
use weft_rig::traffic::capture::Content;
use weft_rig::uplink;

const MEMORY: &str = "weft, memory";
const TESTPMD: &str = "dpdk-testpmd macswap, memory";
const TESTPMD_IO: &str = "dpdk-testpmd io, memory";
const KERNEL: &str = "Linux kernel, veth";
const OPEN_VSWITCH: &str = "Open vSwitch, veth";
/// Packets that a queue at the traffic's ends holds.
const DESCRIPTORS: u16 = 1024;
const X: &str = "frame bytes";
const PEAK: &str = "the prototype's peak";

/// See [`Study::VARIES`].
pub struct IoEnvironments;

/// Parameters of `io-environments`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each size with each kind of I/O.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of frames with their checksum.
    #[schemars(inner(range(min = 64, max = 1518)))]
    frame_bytes: Vec<usize>,
    /// Packets per second at which delays are measured: few enough that none waits
    /// for another.
    delay_pps: f64,
}

/// What forwards.
enum System<'r> {
    /// A node on the capture without end.
    Memory,
    /// testpmd on the same.
    Testpmd(testpmd::Mode),
    /// A node between interfaces of the kernel.
    Weft(Box<Opened<'r>>),
    /// The kernel, or Open vSwitch.
    Line(Box<Line>),
}

impl Study for IoEnvironments {
    const NAME: &'static str = "io-environments";
    const TITLE: &'static str = "A simple forwarder over each kind of I/O";
    const VARIES: &'static str = "size of packets, over each kind of I/O";
    const PAPER: &'static str = "Pinczel et al., fig. 2 and 3";
    const FILE: &'static str = include_str!("../../../../experiments/io-environments.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let mut systems = systems(run);
        for (name, _) in &systems {
            run.series(name, X, "Mpps", Some(Better::Higher));
        }
        let mut cells = Vec::new();
        for &bytes in &parameters.frame_bytes {
            let of = |(index, (name, _)): (usize, &(&str, System<'_>))| {
                Cell::new(*name, bytes as f64, (index, bytes))
            };
            cells.extend(systems.iter().enumerate().map(of));
        }
        let (mut limited, mut failed) = (Vec::new(), Vec::new());
        run.rounds(parameters.repetitions, &cells, |rig, &(index, bytes)| {
            let (name, system) = &mut systems[index];
            let trial = Trial { rig, bytes, length };
            let (mpps, disturbance, is_limited) = match trial.make(system) {
                Ok(made) => made,
                // A baseline that fails does not end the experiment.
                Err(error) if matches!(system, System::Testpmd(_) | System::Line(_)) => {
                    failed.push(format!("{name}: not always measured: {error}."));
                    return Ok((Values::none(), 0.0));
                }
                Err(error) => return Err(error),
            };
            if is_limited && !limited.contains(name) {
                limited.push(*name);
            }
            Ok((Values::of(mpps), disturbance))
        })?;
        failed.into_iter().for_each(|failed| run.note(failed));
        for name in limited {
            run.note(format!(
                "{name}: limited by the generator at some sizes; the system can do more."
            ));
        }
        delay::measure(parameters, run, &mut systems)
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let at_64 = |name: &str| results.series(name).and_then(|series| series.mean_at(64));
        let mut known = vec![("memory", MEMORY), ("testpmd", TESTPMD), ("testpmd_io", TESTPMD_IO)];
        known.extend([("kernel", KERNEL), ("open_vswitch", OPEN_VSWITCH)]);
        known.extend(Environment::ALL.map(|one| (one.key(), one.name())));
        let found: Vec<_> =
            known.iter().filter_map(|(key, name)| Some((*key, at_64(name)?))).collect();
        let of = |key: &str| found.iter().find(|(known, _)| *known == key).map(|(_, mpps)| *mpps);
        let (memory, peer) = (of("memory"), of("testpmd"));
        for (key, mpps) in &found {
            results.derive(format!("mpps_64_{key}"), *mpps);
        }
        if let (Some(memory), Some(peer)) = (memory, peer) {
            results.derive("cycles_64_weft_over_testpmd", peer / memory);
        }
        if let Some(memory) = memory {
            let beside = peer.map_or_else(String::new, |peer| {
                format!(", {:.2} times the cycles of testpmd", peer / memory)
            });
            results.says = format!(
                "With packets of 64 bytes in memory one core forwards {memory:.1} Mpps{beside}; \
                 the paper's fastest prototype reached 10 Mpps."
            );
        }
        let source = "Pinczel et al., §III: netmap, 64 B, up to 10 Mpps";
        results.paper = vec![paper(PEAK, 10.0, source)];
        let names: Vec<&str> = known.iter().map(|(_, name)| *name).collect();
        let throughput =
            figure("throughput", "Packet rate by kind of I/O", FigureKind::Bars, names.clone())
                .caption(
                    "As fig. 2 of Pinczel et al.: a forwarder that rewrites Ethernet addresses; \
                 testpmd io and Open vSwitch leave them as they are. In memory \
                 packets are counted over the time that the worker had them; over interfaces of the \
                 kernel it is what arrives while as much is sent as one core can. On top of each \
                 bar stands the share of a link of 10 Gbit/s, the paper's, that so many frames \
                 would fill with preamble and gap; there is no such link here. The paper's fastest \
                 environment has netmap, for which Debian has no module: poll mode stands in its \
                 place.",
                )
                .axes(Axis::linear("Frame size", "B"), Axis::log("Packet rate", "Mpps"))
                .baselines([TESTPMD, TESTPMD_IO, KERNEL, OPEN_VSWITCH])
                .paper([PEAK]);
        let throughput = throughput.of(results).map(|figure| {
            let bar_labels =
                names.iter().filter_map(|name| results.series(name)).flat_map(utilisation);
            Figure { bar_labels: bar_labels.collect(), ..figure }
        });
        let delay = delay::conclude(parameters, &known, &[KERNEL, OPEN_VSWITCH], results);
        results.figures = throughput.into_iter().chain(delay).collect();
    }
}

/// The share of a link of 10 Gbit/s that the frames of each point fill, with preamble and gap
/// (IEEE 802.3 §4.4).
fn utilisation(series: &Series) -> impl Iterator<Item = BarLabel> {
    const LINK_BITS: f64 = 10e9;
    const BESIDE_FRAME: f64 = 20.0;
    series.points.iter().filter_map(|point| {
        let bits = (point.position()? + BESIDE_FRAME) * 8.0;
        let percent = point.mean * 1e6 * bits / LINK_BITS * 100.0;
        let text =
            if percent < 9.5 { format!("{percent:.1} %") } else { format!("{percent:.0} %") };
        Some(BarLabel { series: series.name.clone(), x: point.x.clone(), text })
    })
}

/// All that can be measured here; what cannot is noted.
fn systems<'r>(run: &mut Run<'r>) -> Vec<(&'static str, System<'r>)> {
    let rig = run.rig;
    let mut systems = vec![(MEMORY, System::Memory)];
    match testpmd::is_installed(rig) {
        true => systems.extend([
            (TESTPMD, System::Testpmd(testpmd::Mode::MacSwap)),
            (TESTPMD_IO, System::Testpmd(testpmd::Mode::Io)),
        ]),
        false => run.note(testpmd::MISSING),
    }
    if let Err(missing) = rig.cores.traffic() {
        run.note(format!("Interfaces of the kernel: not measured, {missing}."));
        return systems;
    }
    if let Some(lacking) = kernel::lacking() {
        run.note(lacking);
        return systems;
    }
    for environment in Environment::ALL {
        match environment.open(rig, &forwarder()) {
            Ok(opened) => systems.push((environment.name(), System::Weft(Box::new(opened)))),
            Err(error) => run.note(format!("{}: not measured: {error}", environment.name())),
        }
    }
    let mut lines = vec![(KERNEL, Line::of_routers(rig, 1, DESCRIPTORS))];
    match open_vswitch::is_installed() {
        true => lines.push((OPEN_VSWITCH, Line::of_bridges(rig, 1, DESCRIPTORS))),
        false => run.note(open_vswitch::MISSING),
    }
    for (name, line) in lines {
        match line {
            Ok(line) => systems.push((name, System::Line(Box::new(line)))),
            Err(error) => run.note(format!("{name}: not measured: {error}")),
        }
    }
    systems
}

fn forwarder() -> Setup {
    Setup::forwarding(USERS).routed()
}

/// One measurement.
struct Trial<'r> {
    rig: &'r Rig,
    bytes: usize,
    length: Duration,
}

impl Trial<'_> {
    /// Mpps, how disturbed it was, and whether the generator was the limit.
    fn make(&self, system: &mut System<'_>) -> Result<(Value, f64, bool), Failure> {
        let capture = || self.rig.capture(Content::of(USERS, self.bytes));
        let load = uplink(USERS, self.bytes, Rate::Unlimited);
        let offer = Offer { load, duration: self.length };
        let (arrivals, disturbance) = match system {
            System::Memory => {
                let (cost, disturbance) = self.rig.cost(&forwarder(), &capture()?, self.length)?;
                return Ok((cost.mpps().into(), disturbance, false));
            }
            System::Testpmd(mode) => {
                let (cost, disturbance) = testpmd::cost(self.rig, *mode, &capture()?, self.length)?;
                return Ok((cost.mpps().into(), disturbance, false));
            }
            System::Weft(opened) => {
                let ((arrivals, _), disturbance) = opened.open_loop.offer(&offer)?;
                (arrivals, disturbance)
            }
            System::Line(line) => {
                let arrivals = line.offer(self.rig, offer)?;
                let disturbance = arrivals.disturbance;
                (arrivals, disturbance)
            }
        };
        Ok(((arrivals.goodput() / 1e6).into(), disturbance, arrivals.is_limited_by_generator()))
    }
}
