//! How long packets are on their way through each kind of I/O at low load.

use std::time::Duration;

use weft_traffic::Rate;

use super::{DESCRIPTORS, Parameters, System, X, forwarder};
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, Figure, FigureKind, Results, Series};
use crate::run::{Cell, Run, Values};
use weft_rig::Arrivals;
use weft_rig::Calibrated;
use weft_rig::Failure;
use weft_rig::Offer;
use weft_rig::OpenLoop;
use weft_rig::Rig;
use weft_rig::USERS;
use weft_rig::baseline::line::Line;
use weft_rig::network::environments::{Loopback, Opened};
use weft_rig::uplink;

/// A system that packets go through.
enum SystemUnderTest<'s, 'r> {
    /// A node between rings in memory.
    Rings(Box<OpenLoop<'r>>),
    /// A node between interfaces of the kernel.
    Interfaces(&'s mut Opened<'r>),
    /// The kernel, or Open vSwitch.
    Line(&'s mut Line),
}

/// Measures the delay of each system that packets can be sent through.
pub(super) fn measure<'r>(
    parameters: &Parameters,
    run: &mut Run<'r>,
    systems: &mut [(&'static str, System<'r>)],
) -> Result<(), Failure> {
    let rig = run.rig;
    if rig.cores.traffic().is_err() {
        return Ok(());
    }
    let mut ways = ways(rig, systems)?;
    let mut ring = Loopback::ring(rig)?;
    // Without ways through the kernel there may be no right to lay cables.
    let through_kernel = ways.iter().any(|(_, way)| !matches!(way, SystemUnderTest::Rings(_)));
    let mut cable = through_kernel.then(|| Loopback::cable(rig)).transpose()?;
    let mut cells = Vec::new();
    for (index, (name, _)) in ways.iter().enumerate() {
        run.series(&calibrated(name), X, "µs", Some(Better::Lower));
        run.series(&raw(name), X, "µs", None);
        let cell = |bytes: &usize| Cell::new(calibrated(name), *bytes as f64, (index, *bytes));
        cells.extend(parameters.frame_bytes.iter().map(cell));
    }
    run.rounds(parameters.repetitions, &cells, |rig, &(index, bytes)| {
        let (name, way) = &mut ways[index];
        let loopback = match (&way, &mut cable) {
            (SystemUnderTest::Interfaces(_) | SystemUnderTest::Line(_), Some(cable)) => cable,
            _ => &mut ring,
        };
        let offer = Offer {
            load: uplink(USERS, bytes, Rate::Packets(parameters.delay_pps)),
            duration: Duration::from_secs_f64(parameters.seconds),
        };
        let through = || way.offer(rig, &offer);
        let (delay, disturbance) = Calibrated::measure(rig, loopback, &offer, through)?;
        Ok((Values::of(delay.calibrated).and(raw(name), Some(delay.raw)), disturbance))
    })
}

fn ways<'s, 'r>(
    rig: &'r Rig,
    systems: &'s mut [(&'static str, System<'r>)],
) -> Result<Vec<(&'static str, SystemUnderTest<'s, 'r>)>, Failure> {
    let mut ways = Vec::new();
    for (name, system) in systems {
        let way = match system {
            System::Memory => {
                SystemUnderTest::Rings(Box::new(OpenLoop::rings(rig, &forwarder(), DESCRIPTORS)?))
            }
            System::Weft(opened) => SystemUnderTest::Interfaces(opened),
            System::Line(line) => SystemUnderTest::Line(line),
            // Nothing comes out of a null device.
            System::Testpmd(_) => continue,
        };
        ways.push((*name, way));
    }
    Ok(ways)
}

impl SystemUnderTest<'_, '_> {
    fn offer(&mut self, rig: &Rig, offer: &Offer) -> Result<(Arrivals, f64), Failure> {
        let open_loop = match self {
            SystemUnderTest::Rings(open_loop) => open_loop,
            SystemUnderTest::Interfaces(opened) => &mut opened.open_loop,
            SystemUnderTest::Line(line) => {
                let arrivals = line.offer(rig, offer.clone())?;
                let disturbance = arrivals.disturbance;
                return Ok((arrivals, disturbance));
            }
        };
        let ((arrivals, _), disturbance) = open_loop.offer(offer)?;
        Ok((arrivals, disturbance))
    }
}

/// Derives the delays of packets of 64 bytes of systems by their keys, and returns the
/// figure.
pub(super) fn conclude(
    parameters: &Parameters,
    known: &[(&str, &str)],
    baselines: &[&str],
    results: &mut Results,
) -> Option<Figure> {
    for (key, name) in known {
        let Some(point) = results.series(&calibrated(name)).and_then(at_64) else { continue };
        let p99 = point.percentiles.get("p99").copied();
        let median = point.mean;
        results.derive(format!("delay_64_{key}"), median);
        p99.into_iter().for_each(|p99| results.derive(format!("delay_p99_64_{key}"), p99));
    }
    let names: Vec<String> = known.iter().map(|(_, name)| calibrated(name)).collect();
    let baselines: Vec<String> = baselines.iter().map(|name| calibrated(name)).collect();
    let caption = format!(
        "As fig. 3 of Pinczel et al.: the delay at {} packets per second by frame size, less the \
         median of the generator's way straight to the receiver, over a ring or a veth pair, at \
         the same rate. A box has the middle half of the packets, its line is the median, and \
         whiskers leave out 5 % at either end. The table has further percentiles.",
        parameters.delay_pps
    );
    figure("delay", "Delay by kind of I/O", FigureKind::Boxes, names.iter().map(String::as_str))
        .caption(&caption)
        .axes(Axis::linear("Frame size", "B"), Axis::log("Delay", "µs"))
        .baselines(baselines.iter().map(String::as_str))
        .of(results)
}

fn at_64(series: &Series) -> Option<&crate::results::Point> {
    series.points.iter().find(|point| point.x == 64.into())
}

fn calibrated(system: &str) -> String {
    format!("{system}, delay")
}

fn raw(system: &str) -> String {
    format!("{system}, delay, raw")
}
