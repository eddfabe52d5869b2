//! `sgw-bearers`: what more bearers cost a gateway.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::experiments::sgw::gateway::{Io, Search};
use crate::experiments::sgw::install::install;
use crate::experiments::sgw::page::cost_of_page;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::{Gateway, Setup};

const X: &str = "bearers";
const PAGE: &str = "weft, decapsulate, with a page open over without";

/// See [`Study::VARIES`].
pub struct SgwBearers;

/// Parameters of `sgw-bearers`.
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
    /// Numbers of bearers of the serving gateway.
    #[schemars(inner(range(min = 1, max = 16_000_000)))]
    bearers: Vec<u32>,
    /// Numbers of bearers of a serving gateway that looks for them one by one, as
    /// the paper's prototype does.
    #[schemars(inner(range(min = 1, max = 1_000_000)))]
    linear_bearers: Vec<u32>,
    /// Numbers of bearers of which half of all packets are: the others are in unknown
    /// tunnels, or damaged.
    #[schemars(inner(range(min = 1, max = 16_000_000)))]
    beside_bad_bearers: Vec<u32>,
    /// Numbers of bearers with kernel I/O.
    #[schemars(inner(range(min = 1, max = 16_000_000)))]
    kernel_bearers: Vec<u32>,
    /// How the highest rate without loss is searched for there.
    search: Search,
    /// Bytes of the frames that the work on is measured.
    #[schemars(range(min = 96, max = 1518))]
    work_bytes: usize,
    /// Numbers of bearers of the functions that are measured by themselves.
    #[schemars(inner(range(min = 1, max = 16_000_000)))]
    work_bearers: Vec<u32>,
    /// Numbers of bearers of decapsulation with counter and marker behind it.
    #[schemars(inner(range(min = 1, max = 16_000_000)))]
    chain_bearers: Vec<u32>,
    /// Numbers of bearers of decapsulation whose worker is measured with a page open, over
    /// without.
    #[schemars(inner(range(min = 1, max = 100_000)))]
    page_bearers: Vec<u32>,
    /// How often a page is opened in a trial, for a second each.
    #[schemars(range(min = 1))]
    page_turns: u32,
}

/// A chain whose work is measured.
#[derive(Clone, Copy)]
struct Chain {
    key: &'static str,
    gateway: Gateway,
    counts_and_marks: bool,
}

const DECAPSULATE_COUNT_MARK: Chain = Chain {
    key: "decapsulate_counter_marker",
    gateway: Gateway::Decapsulate,
    counts_and_marks: true,
};
const CHAINS: [Chain; 4] = [
    Chain { key: "relay", gateway: Gateway::Relay, counts_and_marks: false },
    Chain { key: "decapsulate", gateway: Gateway::Decapsulate, counts_and_marks: false },
    Chain { key: "encapsulate", gateway: Gateway::Encapsulate, counts_and_marks: false },
    DECAPSULATE_COUNT_MARK,
];

/// What a cell asks.
enum Question {
    /// The cost of a packet of the serving gateway, at this size.
    Rate { bytes: usize, bearers: u32, linear: bool },
    /// The same per good packet, with as many bad ones among them.
    BesideBad { bytes: usize, bearers: u32 },
    /// The highest rate without loss over the kernel, at this size.
    Kernel { bytes: usize, bearers: u32 },
    /// The cost of a chain without its devices.
    Work { chain: Chain, bearers: u32 },
    /// The cost of a packet with a page open, over without.
    Page { bearers: u32 },
}

impl Study for SgwBearers {
    const NAME: &'static str = "sgw-bearers";
    const TITLE: &'static str = "What more bearers cost a gateway";
    const VARIES: &'static str = "bearers, 1 to 1,000,000, in random order; both kinds of I/O";
    const PAPER: &'static str = "Lange et al., fig. 6";
    const FILE: &'static str = include_str!("../../../../../experiments/sgw-bearers.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        if let Some(most) = parameters.bearers.iter().max() {
            let installed = install(run.rig, *most)?;
            for (name, value) in [
                ("install_seconds", installed.in_batches),
                ("install_seconds_one_by_one", installed.one_by_one),
                ("install_seconds_from_file", installed.from_file),
                ("memory_bytes", installed.memory_bytes),
            ] {
                run.derive(&format!("{name}_{}", short(*most)), value);
            }
        }
        let cells = parameters.cells(run);
        run.rounds(parameters.repetitions, &cells, |rig, question| match question {
            Question::Rate { bytes, bearers, linear } => {
                let setup = Setup::gateway(Gateway::Relay, *bearers, Vec::new());
                let setup = if *linear { setup.linear() } else { setup };
                let load = Gateway::Relay.load(*bearers, *bytes, Rate::Unlimited);
                let (cost, disturbance) = rig.cost_of_load(&setup, &load, length)?;
                Ok((Values::of(cost.mpps()), disturbance))
            }
            Question::BesideBad { bytes, bearers } => {
                let setup = Setup::gateway(Gateway::Relay, *bearers, Vec::new());
                let load = Gateway::Relay.load_beside_bad(*bearers, *bytes)?;
                let (cost, disturbance) = rig.cost_of_load(&setup, &load, length)?;
                Ok((Values::of(cost.mpps()), disturbance))
            }
            Question::Kernel { bytes, bearers } => {
                let mut system = Io::Kernel.open(rig, *bearers)?;
                let bracket =
                    parameters.search.lossless(rig, &mut system, *bearers, *bytes, None)?;
                let found = bracket.lower.map(|rate| Values::of(rate / 1e6));
                Ok((found.unwrap_or_else(Values::none), 0.0))
            }
            Question::Work { chain, bearers } => {
                let load = chain.gateway.load(*bearers, parameters.work_bytes, Rate::Unlimited);
                let (cost, disturbance) =
                    rig.cost_of_load(&chain.setup(*bearers), &load, length)?;
                let (devices, other) = rig.cost_of_devices(&load, length)?;
                Ok((Values::of(cost.cycles - devices.cycles), disturbance.max(other)))
            }
            Question::Page { bearers } => {
                let (bytes, turns) = (parameters.work_bytes, parameters.page_turns);
                // Processor time is no longer where others have the core.
                Ok((Values::of(cost_of_page(rig, *bearers, bytes, turns)?), 0.0))
            }
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        for chain in CHAINS {
            let Some(series) = results.series(&work(chain)) else { continue };
            let of = |bearers: &u32| {
                let name = format!("work_cycles_{}_{}", chain.key, short(*bearers));
                Some((name, series.mean_at(*bearers)?))
            };
            let found: Vec<_> = parameters.numbers(chain).iter().filter_map(of).collect();
            for (name, cycles) in found {
                results.derive(name, cycles);
            }
        }
        let first = parameters.frame_bytes.first().copied().unwrap_or_default();
        let at = |bearers: u32| results.series(&rate(first)).and_then(|one| one.mean_at(bearers));
        let (one, ten_thousand, million) = (at(1), at(10_000), at(1_000_000));
        let scan = results.series(&linear(first)).and_then(|scan| scan.mean_at(400));
        let over_linear = at(400).zip(scan).map(|(table, scan)| table / scan);
        // Half of the packets are the good ones' fair share.
        let beside = results.series(&beside_bad(first));
        let good_half = |bearers: &u32| {
            let (good, all) = beside?.mean_at(*bearers).zip(at(*bearers))?;
            Some((format!("good_half_{}", short(*bearers)), good / (all / 2.0)))
        };
        let good_halves: Vec<_> =
            parameters.beside_bad_bearers.iter().filter_map(good_half).collect();
        for (name, rate) in [("rate_10k_over_1", ten_thousand), ("rate_1m_over_1", million)] {
            if let Some((rate, one)) = rate.zip(one) {
                results.derive(name, rate / one);
            }
        }
        for (name, share) in good_halves {
            results.derive(name, share);
        }
        results.derive("ours_over_linear_at_400", over_linear.unwrap_or(f64::NAN));
        if let (Some(one), Some(million)) = (one, million) {
            results.says = format!(
                "One core moves {one:.1} Mpps of {first} bytes from tunnel to tunnel for one \
                 bearer and {million:.1} Mpps for a million in random order, {:.0} % of it.",
                million / one * 100.0
            );
            if let Some(times) = over_linear {
                results.says += &format!(
                    " At 400 bearers its rate is {times:.1} times that with a linear matcher."
                );
            }
        }
        let open = results.series(PAGE);
        let with_page = |bearers: &u32| {
            Some((format!("page_over_without_{}", short(*bearers)), open?.mean_at(*bearers)?))
        };
        let with_pages: Vec<_> = parameters.page_bearers.iter().filter_map(with_page).collect();
        for (name, ratio) in with_pages {
            results.derive(name, ratio);
        }
        parameters.draw(results);
    }
}

impl Parameters {
    fn cells(&self, run: &mut Run<'_>) -> Vec<Cell<Question>> {
        let mut cells = Vec::new();
        for &bytes in &self.frame_bytes {
            run.series(&rate(bytes), X, "Mpps", Some(Better::Higher));
            run.series(&kernel(bytes), X, "Mpps", Some(Better::Higher));
            run.series(&linear(bytes), X, "Mpps", Some(Better::Higher));
            run.series(&beside_bad(bytes), X, "Mpps", Some(Better::Higher));
            cells.extend(self.bearers.iter().map(|&bearers| {
                Cell::new(rate(bytes), bearers, Question::Rate { bytes, bearers, linear: false })
            }));
            cells.extend(self.linear_bearers.iter().map(|&bearers| {
                Cell::new(linear(bytes), bearers, Question::Rate { bytes, bearers, linear: true })
            }));
            cells.extend(self.beside_bad_bearers.iter().map(|&bearers| {
                Cell::new(beside_bad(bytes), bearers, Question::BesideBad { bytes, bearers })
            }));
            cells.extend(self.kernel_bearers.iter().map(|&bearers| {
                Cell::new(kernel(bytes), bearers, Question::Kernel { bytes, bearers })
            }));
        }
        for chain in CHAINS {
            run.series(&work(chain), X, "cycles/packet", Some(Better::Lower));
            cells.extend(self.numbers(chain).iter().map(|&bearers| {
                Cell::new(work(chain), bearers, Question::Work { chain, bearers })
            }));
        }
        run.series(PAGE, X, "times", Some(Better::Lower));
        cells.extend(
            self.page_bearers
                .iter()
                .map(|&bearers| Cell::new(PAGE.to_owned(), bearers, Question::Page { bearers })),
        );
        cells
    }

    /// Numbers of bearers that a chain is measured with.
    fn numbers(&self, chain: Chain) -> &[u32] {
        if chain.counts_and_marks { &self.chain_bearers } else { &self.work_bearers }
    }

    fn draw(&self, results: &mut Results) {
        let sizes = self.frame_bytes.iter();
        let rates: Vec<_> =
            sizes.flat_map(|bytes| [rate(*bytes), kernel(*bytes), linear(*bytes)]).collect();
        let works = CHAINS.map(work);
        let drawings = [
            figure("rate", "Packet rate of one core", FigureKind::Lines, names(&rates))
                .caption(
                    "As fig. 6 of the paper, which ends at 400 bearers: there rates fall steadily, \
                     as each packet is compared with one bearer after the other. In poll mode \
                     packets are counted over the time that the worker had them, through the \
                     kernel the rate is the highest that loses nothing.",
                )
                .axes(Axis::log("Bearers", ""), Axis::log("Packet rate", "Mpps"))
                .baselines(
                    self.frame_bytes
                        .iter()
                        .map(|bytes| linear(*bytes))
                        .collect::<Vec<_>>()
                        .iter()
                        .map(String::as_str),
                ),
            figure(
                "work",
                "Work on a packet, without its devices",
                FigureKind::Lines,
                names(&works),
            )
            .caption(
                "What a packet costs, less what it costs to receive it and to transmit it on \
                     the same devices and do nothing else. Packets are of all bearers at random.",
            )
            .axes(Axis::log("Bearers", ""), Axis::linear("Cycles", "1/packet")),
        ];
        results.figures = drawings.into_iter().filter_map(|one| one.of(results)).collect();
    }
}

impl Chain {
    fn setup(self, bearers: u32) -> Setup {
        let meter = json!({"singleRate": {"committedRate": "1 Gbit/s", "committedBurst": "1 MiB"}});
        let mut behind = Vec::new();
        if self.counts_and_marks {
            behind.push(("count".to_owned(), json!({"function": "counter"})));
            let config = json!({"meter": meter, "drop": "none"});
            behind.push(("police".to_owned(), json!({"function": "marker", "config": config})));
        }
        Setup::gateway(self.gateway, bearers, behind)
    }
}

fn names(series: &[String]) -> impl Iterator<Item = &str> {
    series.iter().map(String::as_str)
}

/// A number as derived numbers write it: 1, 32k, 1m.
pub(crate) fn short(number: u32) -> String {
    match number {
        1_000_000.. if number.is_multiple_of(1_000_000) => format!("{}m", number / 1_000_000),
        1_000.. if number.is_multiple_of(1_000) => format!("{}k", number / 1_000),
        _ => number.to_string(),
    }
}

fn rate(bytes: usize) -> String {
    format!("weft, poll mode, {bytes} B")
}

fn linear(bytes: usize) -> String {
    format!("linear matcher, poll mode, {bytes} B")
}

fn beside_bad(bytes: usize) -> String {
    format!("weft, half of the packets bad, {bytes} B")
}

fn kernel(bytes: usize) -> String {
    format!("weft, AF_PACKET, {bytes} B")
}

fn work(chain: Chain) -> String {
    format!("weft, {}", chain.key.replace('_', " + "))
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_are_written_short() {
        let written = [1, 400, 1_000, 32_000, 100_000, 1_000_000, 1_500_000].map(short);
        assert_eq!(written, ["1", "400", "1k", "32k", "100k", "1m", "1500k"]);
    }
}
