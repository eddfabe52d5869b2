//! `chain-mix`: two chains share a core.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::results::{Abscissa, Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::statistics::Line;
use weft_rig::traffic::capture::Content;
use weft_rig::{Block, Setup};

const RATE: &str = "weft";
const CYCLES: &str = "weft, cycles";
const X: &str = "share of users in the full chain, %";

/// See [`Study::VARIES`].
pub struct ChainMix;

/// Parameters of `chain-mix`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each share.
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
    /// Shares of the users that take the full chain, in percent.
    #[schemars(inner(range(max = 100)))]
    shares: Vec<u32>,
    /// The functions of the full chain, as in a node's file.
    functions: Vec<Value>,
}

impl Study for ChainMix {
    const NAME: &'static str = "chain-mix";
    const TITLE: &'static str = "Two chains on one core";
    const VARIES: &'static str =
        "share of 1,000 users in a chain of three functions; the others take none";
    const PAPER: &'static str = "Pinczel et al., fig. 5c";
    const FILE: &'static str = include_str!("../../../../../experiments/chain-mix.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let content = Content::of(parameters.users, parameters.frame_bytes);
        let capture = run.rig.capture(content)?;
        run.series(CYCLES, X, "cycles/packet", Some(Better::Lower));
        run.series(RATE, X, "Mpps", Some(Better::Higher));
        run.computed(RATE, CYCLES);
        let cells: Vec<_> = parameters
            .shares
            .iter()
            .map(|share| Cell::new(CYCLES, *share, parameters.setup(*share)))
            .collect();
        run.rounds(parameters.repetitions, &cells, |rig, setup| {
            let (cost, disturbance) = rig.cost(setup, &capture, length)?;
            Ok((Values::of(cost.cycles).and(RATE, Some(cost.mpps())), disturbance))
        })
    }

    fn conclude(_: &Parameters, results: &mut Results) {
        let points: Vec<(f64, f64)> = results.series(CYCLES).map_or_else(Vec::new, |series| {
            let place = |x: &Abscissa| match x {
                Abscissa::Number(share) => Some(share / 100.0),
                Abscissa::Name(_) => None,
            };
            series.points.iter().filter_map(|p| Some((place(&p.x)?, p.mean))).collect()
        });
        if points.len() > 2
            && let Some(Line { intercept, slope, r2 }) = Line::through(&points)
        {
            results.derive("time_per_packet_r2", r2);
            results.says = format!(
                "A packet costs {intercept:.0} cycles and {slope:.0} more in the full chain; a \
                 straight line explains {:.1} % of how the cost of a mix varies.",
                r2 * 100.0
            );
        }
        let rate = figure("rate", "Packet rate of one core", FigureKind::Lines, [RATE])
            .caption(
                "As fig. 5c of Pinczel et al.: users are moved from a chain of three functions to \
                 an empty one. Packets are counted over the time that the worker had them.",
            )
            .axes(
                Axis::linear("Users in the full chain", "%"),
                Axis::linear("Packet rate", "Mpps"),
            );
        let cycles = figure("cycles", "Cycles per packet", FigureKind::Lines, [CYCLES])
            .caption(
                "The inverse of the rate: a straight line, if chains do not disturb each other.",
            )
            .axes(
                Axis::linear("Users in the full chain", "%"),
                Axis::linear("Cost", "cycles/packet"),
            );
        results.figures = [rate, cycles].into_iter().filter_map(|one| one.of(results)).collect();
    }
}

impl Parameters {
    /// So many percent of the users take the functions.
    fn setup(&self, share: u32) -> Setup {
        let full = (u64::from(self.users) * u64::from(share) / 100) as u32;
        let functions: Vec<(String, Value)> =
            (0..).zip(&self.functions).map(|(n, one)| (format!("f{n}"), json!(one))).collect();
        let names = functions.iter().map(|(name, _)| name.clone()).collect();
        let users = vec![
            Block { count: full, chain: Some("full".to_owned()) },
            Block { count: self.users - full, chain: None },
        ];
        Setup {
            functions,
            chains: vec![("full".to_owned(), names)],
            users,
            ..Setup::forwarding(self.users)
        }
        .routed()
    }
}
