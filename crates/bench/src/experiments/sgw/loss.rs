//! `sgw-loss`: how much a serving gateway loses at which rate.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::figure::{figure, paper};
use crate::experiments::sgw::gateway::{Io, Search, System, offer};
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
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
    /// Packet rates, in thousands per second.
    kpps: Vec<f64>,
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
    const VARIES: &'static str = "packet rate and size, kernel I/O; the limit on both kinds of I/O";
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
                if io == Io::Poll {
                    continue;
                }
                run.series(&loss(bytes), RATE, "%", Some(Better::Lower));
                let at = |kpps: &f64| {
                    Cell::new(loss(bytes), *kpps, (index, bytes, Question::Loss(*kpps)))
                };
                cells.extend(parameters.kpps.iter().map(at));
            }
        }
        let mut limited = Vec::new();
        run.rounds(parameters.repetitions, &cells, |_, (index, bytes, question)| {
            let (io, system) = (Io::ALL[*index], &mut systems[*index]);
            match question {
                Question::Loss(kpps) => {
                    let length = Duration::from_secs_f64(parameters.seconds);
                    let offer = offer(1, *bytes, Rate::Packets(kpps * 1e3), length);
                    let (arrivals, disturbance) = system.offer(&offer)?;
                    let percent = arrivals.lost() as f64 / arrivals.sent.max(1) as f64 * 100.0;
                    Ok((Values::of(percent), disturbance))
                }
                Question::Limit => {
                    let bracket = parameters.search.lossless(system, 1, *bytes)?;
                    if bracket.limited_by_generator && !limited.contains(&io) {
                        limited.push(io);
                    }
                    Ok((Values::of(bracket.lower.unwrap_or(0.0) / 1e6), 0.0))
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
        let losses: Vec<String> = parameters.frame_bytes.iter().map(|bytes| loss(*bytes)).collect();
        let limits = Io::ALL.map(lossless);
        let drawings = [
            figure("loss", "Packets lost", FigureKind::Lines, losses.iter().map(String::as_str))
                .caption(
                    "As fig. 3 of the paper: one bearer, kernel I/O. The paper's prototype loses \
                     nothing to 120 kpps, and ever more from 130 kpps on, whatever the size.",
                )
                .axes(Axis::linear("Offered", "kpps"), Axis::linear("Lost", "%")),
            figure(
                "limit",
                "The highest rate without loss",
                FigureKind::Lines,
                limits.iter().map(String::as_str),
            )
            .caption("By binary search with loss verification, one bearer.")
            .axes(Axis::linear("Frame size", "B"), Axis::log("Packet rate", "Mpps"))
            .paper([LIMIT, LIMIT_POLL]),
        ];
        results.figures = drawings.into_iter().filter_map(|one| one.of(results)).collect();
    }
}

fn loss(bytes: usize) -> String {
    format!("weft, AF_PACKET, {bytes} B")
}

fn lossless(io: Io) -> String {
    format!("weft, {}, without loss", io.name())
}
