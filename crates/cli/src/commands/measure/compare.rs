//! `weft compare`: what differs between two runs of the bench, and whether it is a
//! regression.

use std::path::PathBuf;

use weft_bench::compare::{Comparison, Row, Terms, Verdict};
use weft_bench::results::Results;

use crate::failure::Failure;
use crate::number::counted;
use crate::output;
use crate::table::Table;

#[derive(clap::Args)]
pub struct Arguments {
    /// Results before: a results.json, or a directory that `weft bench` wrote
    before: PathBuf,
    /// Results after
    after: PathBuf,
    /// Differences smaller than this share of the value before do not matter
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    relevant: f64,
}

/// Prints a row for each point and derived number, and what it comes to.
///
/// # Errors
/// A file that is not ours is refused; a regression is a failure.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let before = Results::read_all(&arguments.before).map_err(Failure::input)?;
    let after = Results::read_all(&arguments.after).map_err(Failure::input)?;
    let terms = Terms { relevant: arguments.relevant / 100.0, ..Terms::default() };
    let comparison = Comparison::between(&before, &after, &terms);
    if comparison.rows.is_empty() {
        return Err(Failure::input(format!(
            "{} and {} have nothing in common that could be compared",
            arguments.before.display(),
            arguments.after.display()
        )));
    }
    output::print(&text(&comparison))?;
    match comparison.count(Verdict::Regression) {
        0 => Ok(()),
        count => Err(Failure::broken(counted(count as u64, "regression"))),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a number from 0 to 100 is needed".to_owned()),
    }
}

fn text(comparison: &Comparison) -> String {
    let head = ["experiment", "what", "unit", "verdict", "before", "after", "change", "95 %", "p"];
    let mut table = Table::new(&head, 4);
    for row in &comparison.rows {
        table.row(cells(row));
    }
    let mut text = table.text();
    for note in &comparison.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text.push_str(&match comparison.verdict() {
        Verdict::NoDifference => "no difference\n".to_owned(),
        _ => format!(
            "regressions: {}, improved: {}, changed: {}, no difference: {}\n",
            comparison.count(Verdict::Regression),
            comparison.count(Verdict::Improved),
            comparison.count(Verdict::Changed),
            comparison.count(Verdict::NoDifference),
        ),
    });
    text
}

/// The interval and the change are shares of the value before.
fn cells(row: &Row) -> [String; 9] {
    let share = |value: f64| format!("{:+.1} %", 100.0 * value);
    let interval = row.interval.filter(|_| row.before != 0.0).map(|[low, high]| {
        let [low, high] = [low, high].map(|end| 100.0 * end / row.before.abs());
        format!("{low:+.1} … {high:+.1} %")
    });
    [
        row.experiment.clone(),
        row.what.clone(),
        row.unit.clone(),
        row.verdict.to_string(),
        number(row.before),
        number(row.after),
        row.change().map_or("–".to_owned(), share),
        interval.unwrap_or_else(|| "–".to_owned()),
        row.p.map_or("–".to_owned(), |p| format!("{p:.3}")),
    ]
}

/// Four significant digits, or all before the point.
fn number(value: f64) -> String {
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    let decimals = (3.0 - magnitude).clamp(0.0, 9.0) as usize;
    format!("{value:.decimals$}")
}
