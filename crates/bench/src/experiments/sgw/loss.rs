//! `sgw-loss`: how much a serving gateway loses at which rate.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::figure::{Drawing, figure, paper};
use crate::experiments::sgw::gateway::{Io, Search, System, offer};
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Sent, Values};
use weft_rig::Failure;

const RATE: &str = "offered, kpps";
const BYTES: &str = "frame bytes";
const LIMIT: &str = "the prototype's limit on the kernel's I/O";
const LIMIT_POLL: &str = "the prototype's limit on DPDK, 128 B";

/// See [`Study::VARIES`].
pub struct SgwLoss;

/// Parameters of `sgw-loss`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each rate and of each search.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of a rate.
    seconds: f64,
    /// Bytes of frames with their checksum, tunnel and all.
    #[schemars(inner(range(min = 96, max = 1518)))]
    frame_bytes: Vec<usize>,
    /// Packet rates through the kernel, in thousands per second.
    kpps: Vec<f64>,
    /// The same in poll mode.
    poll_kpps: Vec<f64>,
    /// How the highest rate without loss is searched for.
    search: Search,
}

/// What a cell asks.
enum Question {
    /// What is lost at so many thousand packets per second.
    Loss(f64),
    /// The highest rate without loss.
    Limit,
}

impl Study for SgwLoss {
    const NAME: &'static str = "sgw-loss";
    const TITLE: &'static str = "What a serving gateway loses";
    const VARIES: &'static str = "packet rate and size, and the limit, on both kinds of I/O";
    const PAPER: &'static str = "Lange et al., fig. 3";
    const FILE: &'static str = include_str!("../../../../../experiments/sgw-loss.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let mut systems: Vec<System<'_>> = Vec::new();
        let mut cells = Vec::new();
        for (index, io) in Io::ALL.into_iter().enumerate() {
            systems.push(io.open(run.rig, 1)?);
            run.series(&lossless(io), BYTES, "Mpps", Some(Better::Higher));
            for &bytes in &parameters.frame_bytes {
                cells.push(Cell::new(lossless(io), bytes as f64, (index, bytes, Question::Limit)));
                run.series(&loss(io, bytes), RATE, "%", Some(Better::Lower));
                let at = |kpps: &f64| {
                    Cell::new(loss(io, bytes), *kpps, (index, bytes, Question::Loss(*kpps)))
                };
                cells.extend(parameters.rates(io).iter().map(at));
            }
        }
        parameters.look_at_senders(run)?;
        let most = |index: &usize, bytes: &usize| {
            run.mean(&sender(Io::ALL[*index]), *bytes as f64).map(|mpps| mpps * 1e6)
        };
        let cells: Vec<_> = cells
            .into_iter()
            .map(|Cell { series, x, what: (index, bytes, question) }| {
                let most = most(&index, &bytes);
                Cell { series, x, what: (index, bytes, question, most) }
            })
            .collect();
        let mut limited = Vec::new();
        run.rounds(parameters.repetitions, &cells, |rig, (index, bytes, question, most)| {
            let (io, system) = (Io::ALL[*index], &mut systems[*index]);
            match question {
                Question::Loss(kpps) => {
                    let length = Duration::from_secs_f64(parameters.seconds);
                    let offer = offer(1, *bytes, Rate::Packets(kpps * 1e3), length);
                    let (arrivals, disturbance) = system.offer(&offer)?;
                    let percent = arrivals.lost() as f64 / arrivals.sent.max(1) as f64 * 100.0;
                    let at = arrivals.rate_sent() / 1e3;
                    let sent = Sent { at, share: arrivals.share_sent() };
                    Ok((Values::of(percent).sent(sent), disturbance))
                }
                Question::Limit => {
                    let bracket = parameters.search.lossless(rig, system, 1, *bytes, *most)?;
                    let is_limited = bracket.limited_by_generator || bracket.upper.is_none();
                    if is_limited && !limited.contains(&io) {
                        limited.push(io);
                    }
                    // A search that was given up found nothing, which is not a rate of 0.
                    let found = bracket.lower.map(|rate| Values::of(rate / 1e6));
                    Ok((found.unwrap_or_else(Values::none), 0.0))
                }
            }
        })?;
        for io in limited {
            run.note(format!(
                "Lossless rate, {}: limited by the generator; the gateway can do more.",
                io.name()
            ));
        }
        Ok(())
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let limit = |io: Io, bytes: usize| {
            results.series(&lossless(io)).and_then(|series| series.mean_at(bytes as f64))
        };
        let mut limits = Vec::new();
        for io in Io::ALL {
            let of = |bytes: &usize| Some((io, *bytes, limit(io, *bytes)?));
            limits.extend(parameters.frame_bytes.iter().filter_map(of));
        }
        for (io, bytes, mpps) in &limits {
            results.derive(format!("lossless_pps_{}_{bytes}", io.key()), mpps * 1e6);
            let alone = results.series(&sender(*io)).and_then(|one| one.mean_at(*bytes as f64));
            let alone = alone.unwrap_or(f64::NAN) * 1e6;
            results.derive(format!("sender_pps_{}_{bytes}", io.key()), alone);
        }
        let at = |wanted: Io| {
            let found = limits.iter().find(|(io, ..)| *io == wanted)?;
            Some((found.1, found.2))
        };
        if let (Some((bytes, kernel)), Some((_, poll))) = (at(Io::Kernel), at(Io::Poll)) {
            results.says = format!(
                "With frames of {bytes} bytes the gateway loses nothing up to {:.0} kpps through \
                 the kernel and {:.0} kpps in poll mode, {:.1} times as much; the paper's \
                 prototype reached 120 and 970.",
                kernel * 1e3,
                poll * 1e3,
                poll / kernel
            );
        }
        results.paper = vec![
            paper(LIMIT, 0.12, "Lange et al., §III-C: no loss at 120,000 pps and less"),
            paper(LIMIT_POLL, 0.97, "Lange et al., §III-D: 970,000 pps, line rate"),
        ];
        let figures = parameters.figures();
        results.figures = figures.into_iter().filter_map(|one| one.of(results)).collect();
    }
}

impl Parameters {
    /// What the paced sender reaches by itself.
    fn look_at_senders(&self, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(self.seconds.min(1.0));
        let mut cells = Vec::new();
        for io in Io::ALL {
            run.series(&sender(io), BYTES, "Mpps", Some(Better::Higher));
            let of = |bytes: &usize| Cell::new(sender(io), *bytes as f64, (io, *bytes));
            cells.extend(self.frame_bytes.iter().map(of));
        }
        run.rounds(1, &cells, |rig, &(io, bytes)| {
            let mut loopback = io.loopback(rig)?;
            let load = |rate| offer(1, bytes, rate, length).load;
            Ok((Values::of(rig.paced_limit(&mut loopback.ends, load, length)? / 1e6), 0.0))
        })
    }

    fn figures(&self) -> [Drawing; 3] {
        let losses = |io: Io| -> Vec<String> {
            self.frame_bytes.iter().map(|bytes| loss(io, *bytes)).collect()
        };
        let [kernel, poll] = Io::ALL.map(losses);
        let limits = Io::ALL.into_iter().flat_map(|io| [lossless(io), sender(io)]);
        let limits: Vec<String> = limits.collect();
        let senders = Io::ALL.map(sender);
        [
            figure(
                "loss",
                "Packets lost through the kernel",
                FigureKind::Lines,
                kernel.iter().map(String::as_str),
            )
            .caption(
                "As fig. 3 of the paper: one bearer, kernel I/O. The paper's prototype loses \
                     nothing to 120 kpps, and ever more from 130 kpps on, whatever the size. Each \
                     point stands at the rate that was really sent.",
            )
            .axes(Axis::linear("Sent", "kpps"), Axis::linear("Lost", "%")),
            figure(
                "loss-poll",
                "Packets lost in poll mode",
                FigureKind::Lines,
                poll.iter().map(String::as_str),
            )
            .caption(
                "The same in poll mode, which the paper's figure has not: its prototype loses \
                 nothing at the line rate of its link, 970 kpps of 128 bytes.",
            )
            .axes(Axis::linear("Sent", "kpps"), Axis::linear("Lost", "%")),
            figure(
                "limit",
                "The highest rate without loss",
                FigureKind::Lines,
                limits.iter().map(String::as_str),
            )
            .caption(
                "By binary search with loss verification, one bearer; and what the paced \
                 sender reaches by itself, the highest rate that is searched.",
            )
            .axes(Axis::linear("Frame size", "B"), Axis::log("Packet rate", "Mpps"))
            .baselines(senders.iter().map(String::as_str))
            .paper([LIMIT, LIMIT_POLL]),
        ]
    }

    fn rates(&self, io: Io) -> &[f64] {
        match io {
            Io::Kernel => &self.kpps,
            Io::Poll => &self.poll_kpps,
        }
    }
}

fn loss(io: Io, bytes: usize) -> String {
    format!("weft, {}, {bytes} B", io.name())
}

fn lossless(io: Io) -> String {
    format!("weft, {}, without loss", io.name())
}

fn sender(io: Io) -> String {
    format!("the paced sender alone, {}", io.name())
}
