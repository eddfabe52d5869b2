//! `sgw-bearers-delay`: how long a packet is in a serving gateway at the highest
//! rate that it loses nothing at, by number of bearers.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::figure::{figure, paper};
use crate::experiments::sgw::gateway::{Io, ProcessingTime, Search, offer};
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::network::environments::Loopback;

const X: &str = "bearers";
const BELOW: &str = "the prototype on DPDK to 100 bearers, below";

/// See [`Study::VARIES`].
pub struct SgwBearersDelay;

/// Parameters of `sgw-bearers-delay`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions with each number of bearers.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of frames with their checksum, tunnel and all.
    #[schemars(inner(range(min = 96, max = 1518)))]
    frame_bytes: Vec<usize>,
    /// Numbers of bearers in poll mode.
    #[schemars(inner(range(min = 1, max = 16_000_000)))]
    bearers: Vec<u32>,
    /// Numbers of bearers with kernel I/O.
    #[schemars(inner(range(min = 1, max = 16_000_000)))]
    kernel_bearers: Vec<u32>,
    /// How the highest rate without loss is searched for.
    search: Search,
}

impl Study for SgwBearersDelay {
    const NAME: &'static str = "sgw-bearers-delay";
    const TITLE: &'static str = "How long a packet is in a gateway that carries all it can";
    const VARIES: &'static str =
        "bearers, each at its highest rate without loss; both kinds of I/O";
    const PAPER: &'static str = "Lange et al., fig. 7";
    const FILE: &'static str = include_str!("../../../../../experiments/sgw-bearers-delay.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let mut loopbacks: Vec<(Io, Loopback)> = Vec::new();
        let mut cells = Vec::new();
        for io in Io::ALL {
            loopbacks.push((io, io.loopback(run.rig)?));
            for &bytes in &parameters.frame_bytes {
                run.series(&mean(io, bytes), X, "µs", Some(Better::Lower));
                run.series(&p99(io, bytes), X, "µs", Some(Better::Lower));
                run.series(&rate(io, bytes), X, "Mpps", Some(Better::Higher));
                let cell = |&bearers| Cell::new(mean(io, bytes), bearers, (io, bytes, bearers));
                cells.extend(parameters.numbers(io).iter().map(cell));
            }
        }
        run.rounds(parameters.repetitions, &cells, |rig, &(io, bytes, bearers)| {
            let mut system = io.open(rig, bearers)?;
            let bracket = parameters.search.lossless(rig, &mut system, bearers, bytes, None)?;
            let pps = bracket.lower.unwrap_or(parameters.search.least());
            let offer = offer(bearers, bytes, Rate::Packets(pps), length);
            let loopback = loopbacks.iter_mut().find(|(of, _)| *of == io);
            let (_, loopback) = loopback.ok_or("a kind of I/O without a loopback")?;
            let (time, disturbance) = ProcessingTime::measure(rig, &mut system, loopback, &offer)?;
            let time = time.ok_or("nothing arrived, of the gateway or of the loopback")?;
            let values = Values::of(time.mean)
                .and(p99(io, bytes), Some(time.p99))
                .and(rate(io, bytes), Some(pps / 1e6));
            Ok((values, disturbance))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let combinations: Vec<(Io, usize)> = Io::ALL
            .into_iter()
            .flat_map(|io| parameters.frame_bytes.iter().map(move |bytes| (io, *bytes)))
            .collect();
        let most = |io: Io, bytes: usize| {
            let series = results.series(&mean(io, bytes))?;
            series.points.iter().map(|point| point.mean).reduce(f64::max)
        };
        let bytes = parameters.frame_bytes.first().copied().unwrap_or_default();
        if let (Some(poll), Some(kernel)) = (most(Io::Poll, bytes), most(Io::Kernel, bytes)) {
            results.says = format!(
                "At the highest rate without loss a packet of {bytes} bytes is in the gateway for \
                 at most {poll:.1} µs in poll mode and {kernel:.1} µs through the kernel, whatever \
                 the number of bearers; the paper's prototype on DPDK was below 20 µs up to 100 \
                 bearers and slower than its kernel path from 200 on."
            );
        }
        results.paper =
            vec![paper(BELOW, 20.0, "Lange et al., §III-E: below 20 µs to 100 bearers")];
        let drawings = [
            ("mean", "Mean processing time at the highest rate without loss", mean as Name, "µs"),
            ("p99", "99th percentile of the processing time", p99, "µs"),
            ("rate", "The rate that this was at", rate, "Mpps"),
        ];
        let drawings = drawings.map(|(name, title, series, unit)| {
            let series: Vec<_> =
                combinations.iter().map(|(io, bytes)| series(*io, *bytes)).collect();
            let label = if name == "rate" { "Packet rate" } else { "Time" };
            figure(name, title, FigureKind::Lines, series.iter().map(String::as_str))
                .caption(if name == "mean" { CAPTION } else { "" })
                .axes(Axis::log("Bearers", ""), Axis::log(label, unit))
                .paper([BELOW].into_iter().filter(|_| name == "mean"))
                .of(results)
        });
        results.figures = drawings.into_iter().flatten().collect();
    }
}

const CAPTION: &str = "As fig. 7 of the paper, which ends at 400 bearers: delays through the \
                       gateway, less the mean delay of the same way without it. A gateway that \
                       carries all it can has queues in front of it.";

/// What a series is called.
type Name = fn(Io, usize) -> String;

impl Parameters {
    fn numbers(&self, io: Io) -> &[u32] {
        match io {
            Io::Kernel => &self.kernel_bearers,
            Io::Poll => &self.bearers,
        }
    }
}

fn mean(io: Io, bytes: usize) -> String {
    format!("weft, {}, {bytes} B", io.name())
}

fn p99(io: Io, bytes: usize) -> String {
    format!("weft, {}, {bytes} B, p99", io.name())
}

fn rate(io: Io, bytes: usize) -> String {
    format!("weft, {}, {bytes} B, rate", io.name())
}
