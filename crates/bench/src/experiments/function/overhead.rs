//! `function-overhead`: what each component of a chain adds.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::experiment::Study;
use crate::experiments::figure::{figure, paper};
use crate::results::{Axis, Better, Figure, FigureKind, Point, Results, Series};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::baseline::testpmd;
use weft_rig::traffic::capture::Content;
use weft_rig::{NOT_COUNTED, Rig, Setup};

const RATE: &str = "weft";
const CYCLES: &str = "weft, cycles";
const INSTRUCTIONS: &str = "weft, instructions";
const TESTPMD: &str = "dpdk-testpmd macswap";
const ADDED: &str = "weft, added";
const AT_LEAST: &str = "a component, at least";
const AT_MOST: &str = "a component, at most";
const X: &str = "components";
/// What the first configuration is called.
const BASE: &str = "forwarder, one rule";
/// The first one without router and tunnel, which header compression ends in front of.
const TRANSPARENT: &str = "transparent ports, one rule";

/// See [`Study::VARIES`].
pub struct FunctionOverhead;

/// Parameters of `function-overhead`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each configuration.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Users.
    #[schemars(range(min = 1, max = 4000))]
    users: u32,
    /// Bytes of a frame with its checksum.
    #[schemars(range(min = 64, max = 1518))]
    frame_bytes: usize,
    /// The functions that are added one by one.
    components: Vec<Component>,
    /// Those that are added one by one to a forwarder with transparent ports.
    #[serde(default)]
    transparent: Vec<Component>,
}

/// A function that is added to the chain.
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

impl Study for FunctionOverhead {
    const NAME: &'static str = "function-overhead";
    const TITLE: &'static str = "What each component of a chain adds";
    const VARIES: &'static str = "forwarder with one rule, then one component more at a time";
    const PAPER: &'static str = "Pinczel et al., fig. 5a";
    const FILE: &'static str = include_str!("../../../../../experiments/function-overhead.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let content = Content::of(parameters.users, parameters.frame_bytes);
        let capture = run.rig.capture(content)?;
        run.series(CYCLES, X, "cycles/packet", Some(Better::Lower));
        run.series(RATE, X, "Mpps", Some(Better::Higher));
        run.computed(RATE, CYCLES);
        run.series(INSTRUCTIONS, X, "instructions/packet", Some(Better::Lower));
        run.series(TESTPMD, X, "Mpps", None);
        let all = |ladder: Ladder| {
            let cell = |count| {
                let setup = Some(parameters.setup(ladder, count));
                Cell::new(CYCLES, parameters.label(ladder, count), setup)
            };
            (0..parameters.steps(ladder)).map(cell).collect::<Vec<Cell<Option<Setup>>>>()
        };
        let mut cells = all(Ladder::Routed);
        cells.extend(all(Ladder::Transparent));
        match testpmd::is_installed(run.rig) {
            true => cells.push(Cell::new(TESTPMD, BASE, None)),
            false => run.note(testpmd::MISSING),
        }
        let mut failed = None;
        run.rounds(parameters.repetitions, &cells, |rig: &Rig, setup| match setup {
            Some(setup) => {
                let (cost, disturbance) = rig.cost(setup, &capture, length)?;
                let instructions = cost.events.map(|events| events.instructions);
                let values = Values::of(cost.cycles)
                    .and(RATE, Some(cost.mpps()))
                    .and(INSTRUCTIONS, instructions);
                Ok((values, disturbance))
            }
            None => {
                let mode = testpmd::Mode::MacSwap;
                Ok(match testpmd::cost(rig, mode, &capture, length) {
                    Ok((cost, disturbance)) => (Values::of(cost.mpps()), disturbance),
                    Err(error) => {
                        failed = Some(format!("{TESTPMD}: not always measured: {error}."));
                        (Values::none(), 0.0)
                    }
                })
            }
        })?;
        failed.into_iter().for_each(|failed| run.note(failed));
        Ok(())
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        if results.series(CYCLES).is_some() && results.series(INSTRUCTIONS).is_none() {
            results.notes.push(NOT_COUNTED.to_owned());
        }
        let transparent = parameters.costs(results, Ladder::Transparent);
        if let ([base, .., full], true) =
            (&transparent[..], transparent.len() == parameters.steps(Ladder::Transparent))
        {
            results.derive("cycles_transparent_base", *base);
            results.derive("cycles_transparent_added", full - base);
        }
        let costs = parameters.costs(results, Ladder::Routed);
        if let (Some(base), Some(full)) = (costs.first(), costs.last())
            && costs.len() == parameters.components.len() + 1
        {
            let each = (full - base) / parameters.components.len().max(1) as f64;
            results.derive("cycles_base", *base);
            results.derive("cycles_full", *full);
            results.derive("cycles_per_component", each);
            results.says = format!(
                "One rule costs {base:.0} cycles a packet and {} components together \
                 {:.0} more, {each:.0} each, where the paper's prototype took 245 to 385 each.",
                parameters.components.len(),
                full - base,
            );
        }
        if let Some(added) = parameters.added(results) {
            results.compute(added);
        }
        let source = "Pinczel et al., §IV.B: 70–110 ns at 3.5 GHz";
        results.paper = vec![paper(AT_LEAST, 245.0, source), paper(AT_MOST, 385.0, source)];
        results.figures = parameters.figures(results);
    }
}

/// A forwarder, and the components that are added to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ladder {
    Routed,
    Transparent,
}

impl Component {
    /// The name of its instance in a node.
    fn instance(&self) -> String {
        self.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
    }
}

impl Parameters {
    fn components(&self, ladder: Ladder) -> &[Component] {
        match ladder {
            Ladder::Routed => &self.components,
            Ladder::Transparent => &self.transparent,
        }
    }

    /// Configurations: without a component, with one, two, ….
    fn steps(&self, ladder: Ladder) -> usize {
        match (ladder, self.components(ladder).len()) {
            (Ladder::Transparent, 0) => 0,
            (_, count) => count + 1,
        }
    }

    /// What the configuration with so many components is called.
    fn label(&self, ladder: Ladder, count: usize) -> String {
        let name = count.checked_sub(1).map(|last| &self.components(ladder)[last].name);
        match (ladder, name) {
            (Ladder::Routed, None) => BASE.to_owned(),
            (Ladder::Routed, Some(name)) => format!("+ {name}"),
            (Ladder::Transparent, None) => TRANSPARENT.to_owned(),
            (Ladder::Transparent, Some(name)) => format!("transparent, + {name}"),
        }
    }

    /// The configuration with so many components.
    fn setup(&self, ladder: Ladder, count: usize) -> Setup {
        let function = |component: &Component| {
            let Component { function, config, .. } = component;
            match config {
                Value::Null => (component.instance(), json!({"function": function})),
                config => (component.instance(), json!({"function": function, "config": config})),
            }
        };
        let components = &self.components(ladder)[..count];
        let functions = components.iter().map(function).collect();
        let told = components.iter().filter(|component| !component.settings.is_null());
        let settings = told.map(|one| (one.instance(), one.settings.clone())).collect();
        let setup = Setup::chain(self.users, functions).told(settings);
        if ladder == Ladder::Routed { setup.routed() } else { setup }
    }

    /// Mean cycles with no component, one, two, …, as far as all are measured.
    fn costs(&self, results: &Results, ladder: Ladder) -> Vec<f64> {
        let Some(series) = results.series(CYCLES) else { return Vec::new() };
        let cost = |count| series.mean_at(self.label(ladder, count));
        (0..self.steps(ladder)).map_while(cost).collect()
    }

    /// By round: what each component adds to the configuration before it.
    fn added(&self, results: &Results) -> Option<Series> {
        let costs = &results.series(CYCLES)?.points;
        let mut series = Series::new(ADDED, X, "cycles/packet");
        series.better = Some(Better::Lower);
        series.computed_from = Some(CYCLES.to_owned());
        for pair in costs.windows(2) {
            if pair[1].x == TRANSPARENT.into() {
                continue;
            }
            let rounds = pair[0].raw.iter().zip(&pair[1].raw);
            let raw = rounds.map(|(before, after)| after - before).collect();
            series.points.extend(Point::of(pair[1].x.clone(), raw));
        }
        (!series.points.is_empty()).then_some(series)
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let rate = figure("rate", "Packet rate of one core", FigureKind::Bars, [RATE, TESTPMD])
            .caption(
                "As fig. 5a of Pinczel et al.: components are added one by one. Packets are \
                 counted over the time of a trial.",
            )
            .axes(Axis::linear("Components", ""), Axis::linear("Packet rate", "Mpps"))
            .baselines([TESTPMD]);
        let cycles = figure("cycles", "Cycles per packet", FigureKind::Bars, [CYCLES])
            .caption("The inverse of the rate, which fig. 5a shows as time per packet.")
            .axes(Axis::linear("Components", ""), Axis::linear("Cost", "cycles/packet"));
        let added = figure("added", "What each component adds", FigureKind::Bars, [ADDED])
            .caption("Beside the range of the paper's prototype.")
            .axes(Axis::linear("Component", ""), Axis::linear("Added cost", "cycles/packet"))
            .paper([AT_LEAST, AT_MOST]);
        [rate, cycles, added].into_iter().filter_map(|drawing| drawing.of(results)).collect()
    }
}
