//! `sgw-delay-kernel` and `sgw-delay-poll`: how long a packet is in a serving
//! gateway, by packet rate through the kernel and by link utilisation in poll mode.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::figure::{figure, paper};
use crate::experiments::sgw::gateway::{Io, ProcessingTime, offer};
use crate::results::{Abscissa, Axis, Better, FigureKind, PaperValue, Results};
use crate::run::{Cell, Run, Sent, Values};
use weft_rig::Failure;

const PPS: &str = "offered, pps";
const UTILISATION: &str = "link utilisation, %";

/// Varies the packet rate, through the kernel.
pub struct SgwDelayKernel;

/// Varies the utilisation of a link, in poll mode.
pub struct SgwDelayPoll;

/// Parameters of `sgw-delay-kernel`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KernelParameters {
    /// Repetitions of each rate and size.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of frames with their checksum, tunnel and all.
    #[schemars(inner(range(min = 96, max = 1518)))]
    frame_bytes: Vec<usize>,
    /// Packets per second.
    pps: Vec<f64>,
}

/// Parameters of `sgw-delay-poll`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PollParameters {
    /// Repetitions of each utilisation and size.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of frames with their checksum, tunnel and all.
    #[schemars(inner(range(min = 96, max = 1518)))]
    frame_bytes: Vec<usize>,
    /// The rate of the link that the generator keeps to, bits per second.
    link_bits: u64,
    /// How much of it is used, in hundredths.
    #[schemars(inner(range(min = 1, max = 100)))]
    utilisation: Vec<u32>,
}

impl Study for SgwDelayKernel {
    const NAME: &'static str = "sgw-delay-kernel";
    const TITLE: &'static str = "How long a packet is in a serving gateway, kernel I/O";
    const VARIES: &'static str = "packet rate and size, kernel I/O";
    const PAPER: &'static str = "Lange et al., fig. 4";
    const FILE: &'static str = include_str!("../../../../../experiments/sgw-delay-kernel.yaml");
    type Parameters = KernelParameters;

    fn measure(parameters: &KernelParameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let KernelParameters { repetitions, seconds, frame_bytes, pps } = parameters;
        let loads: Vec<_> = pps.iter().map(|pps| (*pps, Rate::Packets(*pps))).collect();
        let plan = Plan { io: Io::Kernel, x: PPS, frame_bytes, loads: &loads };
        plan.measure(run, *repetitions, Duration::from_secs_f64(*seconds))
    }

    fn conclude(parameters: &KernelParameters, results: &mut Results) {
        let values = [
            (100.0, 230.0, "Lange et al., §III-C: roughly 230 µs at 100 pps"),
            (1000.0, 110.0, "Lange et al., §III-C: roughly 110 µs at 1,000 pps"),
        ];
        let value = |(pps, micros, source)| PaperValue {
            x: Some(Abscissa::Number(pps)),
            ..paper(PROTOTYPE, micros, source)
        };
        results.paper = values.map(value).into();
        let drawing = Drawing {
            io: Io::Kernel,
            frame_bytes: &parameters.frame_bytes,
            x: Axis::log("Offered", "pps"),
            caption: "As fig. 4 of the paper, whose times are highest at 100 and 1,000 pps, as its \
                      NIC collects packets, least at 10 to 20 kpps, and rise towards its limit. \
                      Veth interfaces have no interrupts to collect packets by: that part of the \
                      shape needs a NIC.",
        };
        drawing.conclude(results);
    }
}

impl Study for SgwDelayPoll {
    const NAME: &'static str = "sgw-delay-poll";
    const TITLE: &'static str = "How long a packet is in a serving gateway, poll mode";
    const VARIES: &'static str = "utilisation of a 1 Gbit/s link, and size, poll mode";
    const PAPER: &'static str = "Lange et al., fig. 5";
    const FILE: &'static str = include_str!("../../../../../experiments/sgw-delay-poll.yaml");
    type Parameters = PollParameters;

    fn measure(parameters: &PollParameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let PollParameters { repetitions, seconds, frame_bytes, link_bits, utilisation } =
            parameters;
        let load = |percent: &u32| {
            let (percent, bits) = (f64::from(*percent), *link_bits);
            (percent, Rate::Link { bits, share: percent / 100.0 })
        };
        let loads: Vec<_> = utilisation.iter().map(load).collect();
        let plan = Plan { io: Io::Poll, x: UTILISATION, frame_bytes, loads: &loads };
        plan.measure(run, *repetitions, Duration::from_secs_f64(*seconds))
    }

    fn conclude(parameters: &PollParameters, results: &mut Results) {
        let source = "Lange et al., §III-D: from roughly 5 µs to no more than 8 µs";
        results.paper = vec![paper(PROTOTYPE, 5.0, source), paper(PROTOTYPE_MOST, 8.0, source)];
        let drawing = Drawing {
            io: Io::Poll,
            frame_bytes: &parameters.frame_bytes,
            x: Axis::linear("Link utilisation", "%"),
            caption: "As fig. 5 of the paper: the generator keeps to the pace of the link, frames \
                      with their preamble and gap. Time on a wire, which is why the paper's times \
                      grow with the size of packets, there is none in memory.",
        };
        drawing.conclude(results);
    }
}

const PROTOTYPE: &str = "the prototype";
const PROTOTYPE_MOST: &str = "the prototype, at most";

/// What is measured: each size at each load.
struct Plan<'p> {
    io: Io,
    x: &'static str,
    frame_bytes: &'p [usize],
    loads: &'p [(f64, Rate)],
}

impl Plan<'_> {
    fn measure(
        &self,
        run: &mut Run<'_>,
        repetitions: u32,
        length: Duration,
    ) -> Result<(), Failure> {
        let mut system = self.io.open(run.rig, 1)?;
        let mut loopback = self.io.loopback(run.rig)?;
        let mut cells = Vec::new();
        for &bytes in self.frame_bytes {
            run.series(&mean(self.io, bytes), self.x, "µs", Some(Better::Lower));
            run.series(&p99(self.io, bytes), self.x, "µs", Some(Better::Lower));
            let cell =
                |(x, rate): &(f64, Rate)| Cell::new(mean(self.io, bytes), *x, (bytes, *x, *rate));
            cells.extend(self.loads.iter().map(cell));
        }
        run.rounds(repetitions, &cells, |rig, &(bytes, x, rate)| {
            let offer = offer(1, bytes, rate, length);
            let (time, disturbance) =
                ProcessingTime::measure(rig, &mut system, &mut loopback, &offer)?;
            let time = time.ok_or("nothing arrived, of the gateway or of the loopback")?;
            let sent = Sent { at: x * time.share_sent, share: time.share_sent };
            let values = Values::of(time.mean).and(p99(self.io, bytes), Some(time.p99)).sent(sent);
            Ok((values, disturbance))
        })
    }
}

/// What is drawn and said of it.
struct Drawing<'p> {
    io: Io,
    frame_bytes: &'p [usize],
    x: Axis,
    caption: &'static str,
}

impl Drawing<'_> {
    fn conclude(&self, results: &mut Results) {
        let names: Vec<_> = self.frame_bytes.iter().map(|bytes| mean(self.io, *bytes)).collect();
        let tails: Vec<_> = self.frame_bytes.iter().map(|bytes| p99(self.io, *bytes)).collect();
        let means = names.iter().filter_map(|name| results.series(name));
        let micros: Vec<f64> =
            means.flat_map(|series| series.counting().map(|point| point.mean)).collect();
        let least = micros.iter().copied().reduce(f64::min);
        if let (Some(least), Some(most)) = (least, micros.iter().copied().reduce(f64::max)) {
            let (how, told) = match self.io {
                Io::Kernel => ("Through the kernel", "40 to 230"),
                Io::Poll => ("In poll mode", "5 to 8"),
            };
            results.says = format!(
                "{how} a packet is in the gateway for {least:.1} to {most:.1} µs in the mean; the \
                 paper's prototype took {told} µs."
            );
        }
        results.notes.push(
            "Processing times are the delays through the gateway less the mean delay of the same \
             way without it, in the same minute; 99th percentiles less its median."
                .to_owned(),
        );
        let drawings = [
            ("mean", "Mean processing time", &names, self.caption),
            ("p99", "99th percentile of the processing time", &tails, ""),
        ];
        let drawings = drawings.map(|(name, title, series, caption)| {
            figure(name, title, FigureKind::Lines, series.iter().map(String::as_str))
                .caption(caption)
                .axes(self.x.clone(), Axis::log("Time", "µs"))
                .paper([PROTOTYPE, PROTOTYPE_MOST].into_iter().filter(|_| name == "mean"))
                .of(results)
        });
        results.figures = drawings.into_iter().flatten().collect();
    }
}

fn mean(io: Io, bytes: usize) -> String {
    format!("weft, {}, {bytes} B", io.name())
}

fn p99(io: Io, bytes: usize) -> String {
    format!("weft, {}, {bytes} B, p99", io.name())
}
