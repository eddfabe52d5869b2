//! What share of its core a worker takes at each load: polled all the time, and with sleep.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use super::chains::{Part, chain_of};
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, Figure, FigureKind, Results};
use crate::run::{Cell, Run, Value, Values};
use weft_rig::{Composition, Failure, Offer, Standing, USERS, uplink};

const X: &str = "packets per second";
/// Packets that queues hold.
const DESCRIPTORS: u16 = 1024;
/// The series, by whether idle workers sleep, and what derived numbers call it.
const SERIES: [(&str, bool, &str); 2] = [
    ("weft called, busy, processor time", false, "busy"),
    ("weft called, adaptive, processor time", true, "adaptive"),
];

/// Loads at which it is measured what a worker takes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessorTime {
    /// Functions in the chain, which are called.
    #[schemars(range(min = 1, max = 16))]
    length: usize,
    /// Packets per second.
    #[schemars(inner(range(min = 1.0)))]
    rates: Vec<f64>,
}

impl ProcessorTime {
    /// Measures a chain of that function at each load.
    ///
    /// # Errors
    /// Those of trials.
    pub fn measure(
        &self,
        run: &mut Run<'_>,
        function: &Part,
        (repetitions, frame_bytes, length): (u32, usize, Duration),
    ) -> Result<(), Failure> {
        let mut cells = Vec::new();
        for (number, (name, sleeps, _)) in SERIES.into_iter().enumerate() {
            run.series(name, X, "% of a core", Some(Better::Lower));
            let chain = chain_of(&vec![function.clone(); self.length]).composed(Composition::Call);
            let setup = if sleeps { chain.adaptive() } else { chain };
            let cell = |rate: &f64| Cell::new(name, *rate, (number, setup.clone(), *rate));
            cells.extend(self.rates.iter().map(cell));
        }
        let mut standing = Standing::new(run.rig, DESCRIPTORS);
        run.rounds(repetitions, &cells, |_, (number, setup, rate)| {
            let load = uplink(USERS, frame_bytes, Rate::Packets(*rate));
            let offer = Offer { load, duration: length };
            let ((_, work), disturbance) = standing.node(*number, setup)?.offer(&offer)?;
            let share = work.running.map(|share| Value::from(share * 100.0));
            Ok((share.map_or_else(Values::none, Values::of), disturbance))
        })
    }

    /// Derives the shares at the least and at the greatest load.
    pub fn derive(&self, results: &mut Results) {
        let ends = [("least", f64::min as fn(f64, f64) -> f64), ("most", f64::max)];
        for (name, _, key) in SERIES {
            for (end, of) in ends {
                let Some(rate) = self.rates.iter().copied().reduce(of) else { return };
                let share = results.series(name).and_then(|series| series.mean_at(rate));
                let share = share.unwrap_or(f64::NAN);
                results.derive(format!("processor_percent_{key}_at_{end}"), share);
            }
        }
    }

    /// What is drawn.
    pub fn figure(&self, results: &Results) -> Option<Figure> {
        let names = SERIES.map(|(name, ..)| name);
        figure("processor", "Processor time at each load", FigureKind::Lines, names)
            .caption(&format!(
                "A worker with a chain of {} functions: the share of the time that it had its core, \
                 polled all the time and with sleep between packets (power saving, Hahn et al., \
                 table 2). What sleep costs in delay the other figures say.",
                self.length
            ))
            .axes(Axis::log("Load", "packets/s"), Axis::linear("Processor time", "%"))
            .of(results)
    }
}
