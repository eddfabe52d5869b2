//! `working-set`: what random accesses to more and more memory cost.

use std::fs;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::results::{Abscissa, Axis, Better, FigureKind, Results, Series};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::traffic::capture::Content;
use weft_rig::{Setup, USERS};

const X: &str = "working set, KiB";

/// See [`Study::VARIES`].
pub struct WorkingSet;

/// Parameters of `working-set`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each size.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Random accesses per packet, one cache line each.
    accesses: Vec<u32>,
    /// Sizes of the working set in KiB. Those beyond half of the machine's free
    /// memory are left out.
    working_set: Vec<u64>,
    /// Cycles of computation per packet beside the accesses.
    cycles: u32,
}

impl Study for WorkingSet {
    const NAME: &'static str = "working-set";
    const TITLE: &'static str = "Random accesses to more and more memory";
    const VARIES: &'static str =
        "size of the working set, with 100, 200, 400 random accesses per packet";
    const PAPER: &'static str = "Hahn et al., fig. 5";
    const FILE: &'static str = include_str!("../../../../../experiments/working-set.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let capture = run.rig.capture(Content::of(USERS, 64))?;
        let room = free_kilobytes() / 2;
        let mut cells = Vec::new();
        for &accesses in &parameters.accesses {
            run.series(&name(accesses), X, "cycles/packet", Some(Better::Lower));
            for &size in parameters.working_set.iter().filter(|size| **size <= room) {
                let setup = parameters.setup(accesses, size);
                cells.push(Cell::new(name(accesses), size as f64, setup));
            }
        }
        if let Some(most) = parameters.working_set.iter().max().filter(|most| **most > room) {
            run.note(format!(
                "Working sets of more than {} MiB (up to {} MiB) were left out: the machine has \
                 no more than twice that free.",
                room / 1024,
                most / 1024
            ));
        }
        run.rounds(parameters.repetitions, &cells, |rig, setup| {
            let (cost, disturbance) = rig.cost(setup, &capture, length)?;
            Ok((Values::of(cost.cycles), disturbance))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let levels = cache_kilobytes();
        let (few, many) = (parameters.accesses.iter().min(), parameters.accesses.iter().max());
        let mut said = Vec::new();
        if let (Some(&few), Some(&many)) = (few, many)
            && let Some(low) = results.series(&name(few)).cloned()
            && let Some(high) = results.series(&name(many)).cloned()
            && few < many
        {
            let sizes = sizes(&low);
            for (level, size) in places(&levels, &sizes) {
                let (Some(low), Some(high)) = (low.mean_at(size), high.mean_at(size)) else {
                    continue;
                };
                let cycles = (high - low) / f64::from(many - few);
                results.derive(format!("cycles_per_access_{level}"), cycles);
                said.push(format!("{cycles:.1} cycles in {}", place(level)));
            }
        }
        if !said.is_empty() {
            results.says = format!("A random access costs {}.", said.join(", "));
        }
        let names: Vec<String> = parameters.accesses.iter().map(|count| name(*count)).collect();
        let names = names.iter().map(String::as_str);
        let cost = figure("cycles", "Cycles per packet by working set", FigureKind::Lines, names)
            .caption(
                "As fig. 5 of Hahn et al. (L1 32 KB, L2 256 KB, L3 8 MB there): the synthetic \
                 function. Accesses do not wait for each other.",
            )
            .axes(Axis::log("Working set", "KiB"), Axis::log("Cost", "cycles/packet"));
        results.figures = cost.of(results).into_iter().collect();
    }
}

impl Parameters {
    fn setup(&self, accesses: u32, kilobytes: u64) -> Setup {
        let config = json!({
            "cycles": self.cycles, "accesses": accesses, "workingSet": format!("{kilobytes} KiB"),
        });
        let function = json!({"function": "synthetic", "config": config});
        Setup::chain(USERS, vec![("work".to_owned(), function)])
    }
}

fn name(accesses: u32) -> String {
    format!("weft, {accesses} accesses")
}

fn place(level: &str) -> &str {
    match level {
        "l1" => "L1",
        "l2" => "L2",
        "l3" => "L3",
        _ => "memory",
    }
}

/// For each level of the memory, the largest size measured that fills no more than
/// half of it, and more than twice the level before.
fn places(levels: &[(&'static str, f64)], sizes: &[f64]) -> Vec<(&'static str, f64)> {
    let mut smaller = 0.0;
    let mut places = Vec::new();
    for &(level, kilobytes) in levels {
        let fits = |size: &&f64| **size <= kilobytes / 2.0 && **size > smaller * 2.0;
        let size = sizes.iter().filter(fits).copied().reduce(f64::max);
        places.extend(size.map(|size| (level, size)));
        smaller = kilobytes;
    }
    let beyond = sizes.iter().copied().filter(|size| *size > smaller * 2.0).reduce(f64::max);
    places.extend(beyond.map(|size| ("memory", size)));
    places
}

fn sizes(series: &Series) -> Vec<f64> {
    let number = |x: &Abscissa| match x {
        Abscissa::Number(size) => Some(*size),
        Abscissa::Name(_) => None,
    };
    series.points.iter().filter_map(|point| number(&point.x)).collect()
}

/// The caches of the first core: level and KiB.
fn cache_kilobytes() -> Vec<(&'static str, f64)> {
    let mut levels = Vec::new();
    for index in 0..8 {
        let read = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
            fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size"))
        else {
            continue;
        };
        let level = match level.as_str() {
            "1" => "l1",
            "2" => "l2",
            "3" => "l3",
            _ => continue,
        };
        let kilobytes = size.strip_suffix('K').and_then(|number| number.parse().ok());
        if kind != "Instruction" {
            levels.extend(kilobytes.map(|kilobytes| (level, kilobytes)));
        }
    }
    levels
}

/// Memory that can be had, in KiB (`proc(5)`, `MemAvailable`).
fn free_kilobytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_a_size_that_lies_well_within() {
        let levels = [("l1", 32.0), ("l2", 256.0), ("l3", 8192.0)];
        let sizes: Vec<f64> = (2..24).map(|power| f64::from(1 << power)).collect();
        let places = places(&levels, &sizes);
        assert_eq!(
            places,
            [("l1", 16.0), ("l2", 128.0), ("l3", 4096.0), ("memory", f64::from(1 << 23))]
        );
    }

    #[test]
    fn a_level_without_a_size_is_left_out() {
        assert_eq!(places(&[("l1", 32.0), ("l2", 64.0)], &[8.0, 40.0]), [("l1", 8.0)]);
        assert!(places(&[], &[]).is_empty());
    }
}
