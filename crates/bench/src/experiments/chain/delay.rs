//! `chain-delay`: how long packets are in a chain at low load, polled and with sleep.

use std::cell::RefCell;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::chain::chains::{Part, chain_of};
use crate::experiments::chain::processor::ProcessorTime;
use crate::experiments::failed::Failed;
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, FigureKind, PaperValue, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::Arrivals;
use weft_rig::Calibrated;
use weft_rig::Composition;
use weft_rig::Failure;
use weft_rig::Offer;
use weft_rig::Setup;
use weft_rig::Standing;
use weft_rig::USERS;
use weft_rig::Work;
use weft_rig::network::environments::Loopback;
use weft_rig::uplink;

const X: &str = "functions";
/// Packets that queues hold.
const DESCRIPTORS: u16 = 1024;
const PAPER_BUSY: &str = "compound, without power saving";
const PAPER_SAVING: &str = "compound";
const PAPER_CLASSICAL: &str = "classical, one core";

/// See [`Study::VARIES`].
pub struct ChainDelay;

/// Parameters of `chain-delay`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each length.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of a frame with its checksum.
    #[schemars(range(min = 64, max = 1518))]
    frame_bytes: usize,
    /// Packets per second that are offered.
    rate: f64,
    /// Functions in a chain.
    #[schemars(inner(range(min = 1, max = 16)))]
    lengths: Vec<usize>,
    /// What each of them is.
    function: Part,
    /// How they are run.
    compositions: Vec<Composition>,
    /// What a worker takes at each load.
    processor: ProcessorTime,
}

/// What a thread does while there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polling {
    Busy,
    Adaptive,
}

impl Study for ChainDelay {
    const NAME: &'static str = "chain-delay";
    const TITLE: &'static str = "How long packets are in a chain";
    const VARIES: &'static str =
        "functions in a chain at low load, under each composition, polled and with sleep";
    const PAPER: &'static str = "Hahn et al., table 2, and power saving";
    const FILE: &'static str = include_str!("../../../../../experiments/chain-delay.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let rig = run.rig;
        rig.cores.traffic()?;
        let load = uplink(USERS, parameters.frame_bytes, Rate::Packets(parameters.rate));
        let offer = Offer { load, duration: Duration::from_secs_f64(parameters.seconds) };
        let cells = parameters.cells();
        for cell in &cells {
            run.series(&cell.series, X, "µs", Some(Better::Lower));
            run.series(&raw(&cell.series), X, "µs", None);
        }
        let mut loopback = Loopback::ring(rig)?;
        let standing = RefCell::new(Standing::new(rig, DESCRIPTORS));
        let mut failed = Failed::default();
        run.rounds(parameters.repetitions, &cells, |rig, (number, series, setup)| {
            let measured = Calibrated::measure(rig, &mut loopback, &offer, || {
                let mut standing = standing.borrow_mut();
                let ((arrivals, work), disturbance) =
                    standing.node(*number, setup)?.offer(&offer)?;
                if arrivals.received == 0 {
                    return Err(silent(&arrivals, &work).into());
                }
                Ok((arrivals, disturbance))
            });
            match measured {
                Ok((delay, disturbance)) => {
                    let values = Values::of(delay.calibrated).and(raw(series), Some(delay.raw));
                    Ok((values, disturbance))
                }
                // A thread that did not get its core may have it the next time.
                Err(error) => failed.note(series, error).map(|(values, _)| (values, 1.0)),
            }
        })?;
        failed.tell(run);
        // Its nodes take memory, and have no part in what follows.
        drop(standing);
        let of_trial = (parameters.repetitions, parameters.frame_bytes, offer.duration);
        parameters.processor.measure(run, &parameters.function, of_trial)
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let longest = parameters.lengths.iter().max().copied().unwrap_or(0);
        let mut told = Vec::new();
        for (way, polling) in parameters.ways() {
            let series = results.series(&delay(way, polling));
            let median = series.and_then(|series| series.mean_at(longest as f64));
            let name = format!("delay_us_p50_{}_{}", way.name(), polling.name());
            results.derive(name, median.unwrap_or(f64::NAN));
            told.extend(median.map(|us| format!("{} {} {us:.1}", way.name(), polling.name())));
        }
        if !told.is_empty() {
            results.says = format!(
                "Median delay of a chain of {longest} in µs, less the instrument's: {}.",
                told.join(", ")
            );
        }
        results.paper = paper();
        let figures = [Polling::Busy, Polling::Adaptive].map(|polling| {
            let names: Vec<String> =
                parameters.compositions.iter().map(|way| delay(*way, polling)).collect();
            let (title, papers) = match polling {
                Polling::Busy => ("Delay, polled all the time", [PAPER_BUSY, PAPER_CLASSICAL]),
                Polling::Adaptive => ("Delay with sleep", [PAPER_SAVING, PAPER_CLASSICAL]),
            };
            figure(polling.name(), title, FigureKind::Lines, names.iter().map(String::as_str))
                .caption(
                    "As table 2 of Hahn et al.: median delay at low load, less that of the way \
                     from generator to receiver. The paper's is that of virtual machines.",
                )
                .axes(Axis::linear("Functions", ""), Axis::log("Delay", "µs"))
                .paper(papers)
        });
        results.figures = figures.into_iter().filter_map(|one| one.of(results)).collect();
        parameters.processor.derive(results);
        results.figures.extend(parameters.processor.figure(results));
    }
}

impl Polling {
    fn name(self) -> &'static str {
        match self {
            Polling::Busy => "busy",
            Polling::Adaptive => "adaptive",
        }
    }
}

impl Parameters {
    /// Compositions in both kinds of polling.
    fn ways(&self) -> impl Iterator<Item = (Composition, Polling)> + '_ {
        let of = |polling| self.compositions.iter().map(move |way| (*way, polling));
        of(Polling::Busy).chain(of(Polling::Adaptive))
    }

    /// Every chain, with its number and its series.
    fn cells(&self) -> Vec<Cell<(usize, String, Setup)>> {
        let mut cells = Vec::new();
        for (way, polling) in self.ways() {
            for &length in &self.lengths {
                let setup = chain_of(&vec![self.function.clone(); length]).composed(way);
                let setup = match polling {
                    Polling::Busy => setup,
                    Polling::Adaptive => setup.adaptive(),
                };
                let series = delay(way, polling);
                let what = (cells.len(), series.clone(), setup);
                cells.push(Cell::new(series, length as f64, what));
            }
        }
        cells
    }
}

/// What is known of a trial in which nothing arrived.
fn silent(arrivals: &Arrivals, work: &Work) -> String {
    format!(
        "nothing arrived of {} packets that were sent; {} were dropped at the entry, {} behind it",
        arrivals.sent,
        work.missed,
        work.refused + work.dropped
    )
}

/// The series of calibrated delays.
fn delay(way: Composition, polling: Polling) -> String {
    format!("weft {}, {}", way.title(), polling.name())
}

/// The series of delays as they were measured.
fn raw(series: &str) -> String {
    format!("{series}, raw")
}

/// What the paper states, by the number of functions.
fn paper() -> Vec<PaperValue> {
    let of = |name: &'static str, values: [f64; 4]| {
        (1..).zip(values).map(move |(functions, value)| PaperValue {
            name: name.to_owned(),
            x: Some(f64::from(functions).into()),
            value,
            source: "Hahn et al., table 2".to_owned(),
        })
    };
    of(PAPER_CLASSICAL, [39.7, 67.5, 195.5, 833.4])
        .chain(of(PAPER_SAVING, [95.7, 80.9, 96.0, 95.9]))
        .chain(of(PAPER_BUSY, [16.6, 59.8, 63.2, 60.6]))
        .collect()
}
