//! `instructions`: what a packet takes in instructions, which no other load changes.
//!
//! `scripts/instructions` counts them, as every submission does: it stands in the program, and is
//! given the program itself to run under valgrind.

use std::env;
use std::fs;
use std::process::Command;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::{Failure, Rig};

const COUNT: &str = "weft";
const X: &str = "case";
/// What counts, and what it needs.
const SCRIPT: &str = include_str!("../../../../../scripts/instructions");
const NEEDED: [&str; 3] = ["python3", "valgrind", "callgrind_annotate"];

/// See [`Study::VARIES`].
pub struct Instructions;

/// Parameters of `instructions`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each case; the counts repeat to one in a thousand.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Cases, as `scripts/instructions` names them.
    cases: Vec<String>,
}

impl Study for Instructions {
    const NAME: &'static str = "instructions";
    const TITLE: &'static str = "What a packet takes in instructions";
    const VARIES: &'static str = "what a node does with a packet, from nothing to five functions";
    const PAPER: &'static str = "none";
    const FILE: &'static str = include_str!("../../../../../experiments/instructions.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        if let Some(missing) = NEEDED.iter().find(|program| run.rig.program(program).is_none()) {
            run.note(format!("Instructions are not counted: {missing} is not installed."));
            return Ok(());
        }
        run.series(COUNT, X, "instructions/packet", Some(Better::Lower));
        let cells: Vec<_> = parameters
            .cases
            .iter()
            .map(|case| Cell::new(COUNT, case.as_str(), case.clone()))
            .collect();
        let mut failed = Vec::new();
        run.rounds(parameters.repetitions, &cells, |rig, case| match count(rig, case) {
            Ok(count) => Ok((Values::of(count), 0.0)),
            // The others are counted all the same.
            Err(error) => {
                failed.push(format!("{case} is not counted: {error}."));
                Ok((Values::none(), 0.0))
            }
        })?;
        failed.dedup();
        failed.into_iter().for_each(|failed| run.note(failed));
        Ok(())
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        for case in &parameters.cases {
            let count = results.series(COUNT).and_then(|series| series.mean_at(case.as_str()));
            if let Some(count) = count {
                results.derive(format!("instructions_{case}"), count);
            }
        }
        let of = |case: &str| results.series(COUNT)?.mean_at(case);
        if let (Some(plain), Some(called), Some(fused)) = (of("plain"), of("call_5"), of("fused_5"))
        {
            let ratio = (fused - plain) / (called - plain);
            results.derive("instructions_fused_5_over_call_5", ratio);
            results.says = format!(
                "A packet takes {plain:.0} instructions from receive to transmit; five functions \
                 add {:.0} called and {:.0} fused.",
                called - plain,
                fused - plain
            );
        }
        let drawing = figure("instructions", "Instructions per packet", FigureKind::Bars, [COUNT])
            .caption(
                "What the worker executes for a packet at full bursts between receiving it and \
                 handing it to the device, as callgrind counts; without those of shared \
                 libraries.",
            )
            .axes(Axis::linear("Case", ""), Axis::linear("Count", "instructions/packet"));
        results.figures = drawing.of(results).into_iter().collect();
    }
}

/// Instructions of a packet in one case.
fn count(rig: &Rig, case: &str) -> Result<f64, Failure> {
    let script = rig.scratch().join("instructions");
    fs::write(&script, SCRIPT)?;
    let python = rig.program(NEEDED[0]).ok_or("python3 is gone")?;
    let output = Command::new(python)
        .arg(&script)
        .args(["--json", case])
        .env("WEFT", env::current_exe()?)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.lines().last().unwrap_or("scripts/instructions failed").into());
    }
    let counts: Value = serde_json::from_slice(&output.stdout)?;
    Ok(counts[case].as_f64().ok_or("scripts/instructions told no count")?)
}
