//! From measured chains to costs of steps: what `calibrate` measures, and what the
//! model reads.
//!
//! Costs of functions come from chains of one and of two, of all pairs, by least
//! squares: a chain costs E + Σ f, with one E for all. Single differences of two chains
//! would be far noisier than the functions are dear.

pub mod composed;
#[cfg(test)]
mod tests;

use weft_model::calibration::Metadata;
use weft_model::cost::{At, Cost};
use weft_model::quantity::Bytes;
use weft_model::{Calibration, dilution};

use crate::results::{Abscissa, Point, Results};
use weft_rig::statistics;

/// The series of devices alone.
pub const RECEIVE: &str = "devices, receive";
/// The same with what transmitting adds.
pub const RECEIVE_AND_TRANSMIT: &str = "devices, receive and transmit";
/// Repetitions are told by the lower quartile: what disturbs a trial makes it dearer,
/// never cheaper.
pub const QUARTILE: f64 = 25.0;
/// The function that does nothing: what it costs is the way to it.
pub const PASS: &str = "pass";

/// The series of a chain of these functions.
pub fn chain_series(functions: &[&str]) -> String {
    format!("chain ({})", functions.join(", "))
}

/// The series of bursts of which half of the packets take each of these chains.
pub fn mix_series([one, other]: &[Vec<&str>; 2]) -> String {
    format!("mix ({} | {})", one.join(", "), other.join(", "))
}

/// The two chains of a mix's series; none of other series.
fn mix_of(series: &str) -> Option<[Vec<&str>; 2]> {
    let (one, other) = series.strip_prefix("mix (")?.strip_suffix(')')?.split_once(" | ")?;
    Some([one, other].map(|list| list.split(", ").collect()))
}

/// The functions of a chain's series; none of other series.
fn chain_of(series: &str) -> Option<Vec<&str>> {
    let list = series.strip_prefix("chain (")?.strip_suffix(')')?;
    Some(if list.is_empty() { Vec::new() } else { list.split(", ").collect() })
}

/// What a point says of its repetitions.
pub fn cost_of(point: &Point) -> f64 {
    statistics::percentile(&point.raw, QUARTILE).unwrap_or(point.mean)
}

/// What was measured at one size.
struct Measured<'r> {
    receive: f64,
    receive_and_transmit: f64,
    empty: f64,
    chains: Vec<(Vec<&'r str>, f64)>,
    mixes: Vec<([Vec<&'r str>; 2], f64)>,
}

/// The costs that follow from results of `calibrate`, or of another experiment with
/// the same series; `frequency` is the rate of the counter, in Hz. None before
/// everything was measured at some size.
pub fn calibration(results: &Results, frequency: f64) -> Option<Calibration> {
    let sizes: Vec<f64> = results.series(RECEIVE)?.points.iter().filter_map(number).collect();
    let functions = functions(results);
    let mut rows: Vec<(f64, Vec<f64>)> = Vec::new();
    for size in sizes {
        let costs = Measured::at(results, size).and_then(|measured| measured.costs(&functions));
        rows.extend(costs.map(|costs| (size, costs)));
    }
    rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    if rows.is_empty() {
        return None;
    }
    let table = |column: usize| {
        let at = |(size, costs): &(f64, Vec<f64>)| At {
            size: Bytes(*size),
            // Noise may put something cheap below zero.
            cycles: costs[column].max(0.0),
        };
        Cost::Table(rows.iter().map(at).collect())
    };
    let metadata = Metadata {
        name: results.experiment.clone(),
        machine: results.machine.cpu.clone(),
        measured: results.began.clone(),
    };
    let mut calibration = Calibration::new(metadata, frequency);
    calibration.cpu.receive = Some(table(0));
    calibration.cpu.transmit = Some(table(1));
    calibration.cpu.node = Some(table(2));
    calibration.cpu.chain = Some(table(3));
    calibration.cpu.hop = Some(table(4));
    if results.series.iter().any(|series| mix_of(&series.name).is_some()) {
        calibration.cpu.mix = Some(table(5));
    }
    let named = functions.iter().enumerate();
    let named = named.map(|(index, name)| ((*name).to_owned(), table(6 + index)));
    calibration.functions.0.extend(named);
    composed::add(results, &mut calibration);
    Some(calibration)
}

fn number(point: &Point) -> Option<f64> {
    match point.x {
        Abscissa::Number(number) => Some(number),
        Abscissa::Name(_) => None,
    }
}

/// Functions that stand in chains, each once.
fn functions(results: &Results) -> Vec<&str> {
    let mut functions = Vec::new();
    for series in &results.series {
        for name in chain_of(&series.name).unwrap_or_default() {
            if !functions.contains(&name) {
                functions.push(name);
            }
        }
    }
    functions
}

impl<'r> Measured<'r> {
    fn at(results: &'r Results, size: f64) -> Option<Measured<'r>> {
        let at = |name: &str| {
            let points = &results.series(name)?.points;
            points.iter().find(|point| point.x == Abscissa::Number(size)).map(cost_of)
        };
        let chains = results.series.iter().filter_map(|series| {
            let functions = chain_of(&series.name).filter(|functions| !functions.is_empty())?;
            Some((functions, at(&series.name)?))
        });
        let mixes = results.series.iter().filter_map(|series| {
            let chains = mix_of(&series.name)?;
            Some((chains, at(&series.name)?))
        });
        Some(Measured {
            receive: at(RECEIVE)?,
            receive_and_transmit: at(RECEIVE_AND_TRANSMIT)?,
            empty: at(&chain_series(&[]))?,
            chains: chains.collect(),
            mixes: mixes.collect(),
        })
    }

    /// Receive, transmit, node, chain, hop, mix, and each function without its hop; none
    /// where the chains do not tell the functions apart.
    fn costs(&self, functions: &[&str]) -> Option<Vec<f64>> {
        let row = |chain: &[&str]| {
            let count = |name: &&str| chain.iter().filter(|one| *one == name).count() as f64;
            [1.0].into_iter().chain(functions.iter().map(count)).collect::<Vec<f64>>()
        };
        let rows: Vec<(Vec<f64>, f64)> =
            self.chains.iter().map(|(chain, cost)| (row(chain), *cost)).collect();
        let solved = least_squares(&rows)?;
        let (entry, functions_cost) = solved.split_first()?;
        let hop = functions.iter().position(|name| *name == PASS);
        let hop = hop.map_or(0.0, |index| functions_cost[index]).max(0.0);
        let mut costs = vec![
            self.receive,
            self.receive_and_transmit - self.receive,
            self.empty - self.receive_and_transmit,
            entry - self.empty,
            hop,
            self.mix(*entry, hop, |name| {
                let index = functions.iter().position(|one| *one == name);
                index.map_or(0.0, |index| functions_cost[index])
            }),
        ];
        costs.extend(functions_cost.iter().map(|cost| cost - hop));
        Some(costs)
    }

    /// What a packet costs more whose predecessor takes another chain, which every second does
    /// here: what mixes cost beyond their chains, and beyond visits for half a burst.
    fn mix(&self, entry: f64, hop: f64, function: impl Fn(&str) -> f64) -> f64 {
        let beyond = self.mixes.iter().map(|(chains, cost)| {
            let all = || chains.iter().flatten();
            let functions: f64 = all().map(|name| function(name)).sum();
            let visits = all().count() as f64 * hop * (dilution(0.5) - 1.0);
            cost - entry - (functions + visits) / 2.0
        });
        let beyond: Vec<f64> = beyond.collect();
        2.0 * statistics::median(&beyond).unwrap_or(0.0)
    }
}

/// The coefficients that explain rows of (factors, value) best; none where the rows
/// do not determine them. Normal equations, solved by elimination with pivots.
fn least_squares(rows: &[(Vec<f64>, f64)]) -> Option<Vec<f64>> {
    let unknowns = rows.first()?.0.len();
    let mut system = vec![vec![0.0; unknowns + 1]; unknowns];
    for (factors, value) in rows {
        for (i, equation) in system.iter_mut().enumerate() {
            for (j, other) in factors.iter().enumerate() {
                equation[j] += factors[i] * other;
            }
            equation[unknowns] += factors[i] * value;
        }
    }
    for column in 0..unknowns {
        let largest = (column..unknowns)
            .max_by(|&a, &b| system[a][column].abs().total_cmp(&system[b][column].abs()))?;
        system.swap(column, largest);
        let pivot = system[column].clone();
        if pivot[column].abs() < 1e-9 {
            return None;
        }
        for (row, equation) in system.iter_mut().enumerate() {
            if row == column {
                continue;
            }
            let factor = equation[column] / pivot[column];
            for (value, of_pivot) in equation.iter_mut().zip(&pivot).skip(column) {
                *value -= factor * of_pivot;
            }
        }
    }
    Some(system.iter().enumerate().map(|(i, row)| row[unknowns] / row[i]).collect())
}
