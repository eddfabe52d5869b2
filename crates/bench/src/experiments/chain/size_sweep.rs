//! `size-sweep`: packets of every size through a chain.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::results::{Abscissa, Axis, Better, FigureKind, Point, Results, Series};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::Setup;
use weft_rig::USERS;
use weft_rig::uplink;

const RATE: &str = "weft call";
const CYCLES: &str = "weft call, cycles";
const BITS: &str = "weft call, data rate";
const BUS: &str = "computed for a NIC";
const X: &str = "frame bytes";
/// Bytes of a descriptor, and of a cache line, on the bus of the paper's NIC.
const DESCRIPTOR: f64 = 16.0;
const LINE: f64 = 64.0;

/// See [`Study::VARIES`].
pub struct SizeSweep;

/// Parameters of `size-sweep`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each size.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Functions in the chain, each of which rewrites the Ethernet addresses.
    #[schemars(range(min = 1, max = 16))]
    functions: usize,
    /// The shortest frame, with its checksum.
    #[schemars(range(min = 64, max = 1518))]
    from: u32,
    /// The longest.
    #[schemars(range(min = 64, max = 1518))]
    to: u32,
    /// How much longer each is than the one before.
    #[schemars(range(min = 1))]
    step: u32,
}

impl Study for SizeSweep {
    const NAME: &'static str = "size-sweep";
    const TITLE: &'static str = "Packets of every size through a chain";
    const VARIES: &'static str = "size of packets, 64 to 1518 B, in a chain of four";
    const PAPER: &'static str = "Bauer et al., fig. 4";
    const FILE: &'static str = include_str!("../../../../../experiments/size-sweep.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        run.series(CYCLES, X, "cycles/packet", Some(Better::Lower));
        run.series(RATE, X, "Mpps", Some(Better::Higher));
        run.series(BITS, X, "Gbit/s", Some(Better::Higher));
        let forward = |number| (format!("f{number}"), json!({"function": "forward"}));
        let setup = Setup::chain(USERS, (0..parameters.functions).map(forward).collect());
        let sizes = (parameters.from..=parameters.to).step_by(parameters.step.max(1) as usize);
        let cells: Vec<_> = sizes.map(|bytes| Cell::new(CYCLES, bytes, bytes)).collect();
        run.rounds(parameters.repetitions, &cells, |rig, &bytes| {
            let load = uplink(USERS, bytes as usize, Rate::Unlimited);
            let (cost, disturbance) = rig.cost_of_load(&setup, &load, length)?;
            let rate = cost.mpps();
            let gigabits = rate.map(|rate| rate * f64::from(bytes) * 8.0 / 1e3);
            let values = Values::of(cost.cycles).and(RATE, Some(rate)).and(BITS, Some(gigabits));
            Ok((values, disturbance))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        if let Some(series) = results.series(CYCLES)
            && let [first, .., last] = &series.points[..]
        {
            let bus = bus(series, parameters.functions);
            results.says = format!(
                "A packet of {} bytes costs {:.0} cycles and one of {} bytes {:.2} times as much.",
                first.x,
                first.mean,
                last.x,
                last.mean / first.mean
            );
            results.compute(bus);
            results.notes.push(
                "Bytes on the bus are computed for a NIC (descriptors of 16 bytes, cache lines \
                 of 64, in and out at each of the functions), not measured: devices in memory \
                 have no bus."
                    .to_owned(),
            );
        }
        let size = || Axis::linear("Frame size", "B");
        let drawings = [
            figure("rate", "Packet rate of one core", FigureKind::Lines, [RATE])
                .caption("As fig. 4(a) of the paper, which a NIC limits to 10 Gbit/s.")
                .axes(size(), Axis::linear("Packet rate", "Mpps")),
            figure("bits", "Data rate of one core", FigureKind::Lines, [BITS])
                .caption("As fig. 4(a): the same in bits of frames.")
                .axes(size(), Axis::linear("Data rate", "Gbit/s")),
            figure("bus", "Bytes moved over a NIC's bus per packet", FigureKind::Lines, [BUS])
                .caption(
                    "What makes the sawtooth of fig. 4(b), computed: whole cache lines are moved, \
                     and a descriptor for each packet.",
                )
                .axes(size(), Axis::linear("Moved per packet", "B")),
        ];
        results.figures = drawings.into_iter().filter_map(|one| one.of(results)).collect();
    }
}

/// Bytes that each packet moves over the bus of a NIC whose virtual functions link
/// the chain: in and out at each function.
fn bus(measured: &Series, functions: usize) -> Series {
    let mut series = Series::new(BUS, X, "B/packet");
    for point in &measured.points {
        let Abscissa::Number(bytes) = point.x else { continue };
        let moved = (bytes / LINE).ceil() * LINE + DESCRIPTOR;
        series.points.extend(Point::of(bytes, vec![moved * 2.0 * functions as f64]));
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn what_is_concluded_again_has_each_series_once() {
        let parameters =
            Parameters { repetitions: 1, seconds: 1.0, functions: 4, from: 64, to: 65, step: 1 };
        let mut results = Results::new(SizeSweep::NAME, Machine::default());
        let mut series = Series::new(CYCLES, X, "cycles/packet");
        series.points = [64, 65].map(|bytes| Point::of(bytes, vec![100.0]).unwrap()).into();
        results.series.push(series);
        for _ in 0..2 {
            SizeSweep::conclude(&parameters, &mut results);
            let names: Vec<_> = results.series.iter().map(|series| series.name.as_str()).collect();
            assert_eq!(names, [CYCLES, BUS]);
            // One line of 64 bytes and its descriptor, or two, in and out of each of four.
            assert_eq!(results.series(BUS).unwrap().mean_at(64), Some(640.0));
            assert_eq!(results.series(BUS).unwrap().mean_at(65), Some(1152.0));
        }
    }
}
