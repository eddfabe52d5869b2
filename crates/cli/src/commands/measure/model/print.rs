//! Answers as tables for people.

use std::fmt::Write;

use weft_model::answer::{Answer, Cores, Lever};
use weft_model::file::{Measured, Quantity, Sweep, Swept};
use weft_model::graph::Kind;
use weft_model::quantity::{BitRate, Frequency, PacketRate};
use weft_model::{Composition, Model, Scenario};

use super::machine;
use crate::failure::Failure;
use crate::table::Table;

/// Rows of a sweep that are shown; a directory gets all of them.
const ROWS: usize = 24;

/// What the model carries in each composition, and why not more.
///
/// # Errors
/// What the file does not say.
pub fn answers(model: &Model) -> Result<String, Failure> {
    let mut text = format!("{}: {}\n", model.name, machine(&model.scenario));
    for scenario in model.scenarios() {
        let answer = scenario.answer()?;
        text += &headline(&scenario, &answer);
        text += &components(&answer);
        text += &changes(&answer);
        if let Some(load) = model.load {
            let packets = load.packets(answer.mean_size);
            text += &cores(packets, &scenario.cores_for(packets)?);
        }
    }
    Ok(text)
}

fn headline(scenario: &Scenario, answer: &Answer) -> String {
    let (rate, bits) = (PacketRate(answer.limit.rate), BitRate(answer.bit_rate()));
    let name = scenario.composition.name();
    let mut text = match answer.limit.bottleneck.is_empty() {
        true => format!("\n{name}: nothing limits it, as nothing costs anything\n"),
        false => {
            let bottleneck = answer.bottleneck();
            format!("\n{name}: {rate:.3}, {bits:.3} of frames; limited by {bottleneck}\n")
        }
    };
    if let Some((by_text, by_formula)) = answer.switching_decisions {
        // As many as in the chain, or the mean of a mix.
        let per_packet = (by_text * 100.0).round() / 100.0;
        let million = |decisions: f64| decisions * answer.limit.rate / 1e6;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  switching decisions of the NIC: {:.2} million/s ({per_packet} per packet: n), \
             {:.2} million/s by the paper's formula (n + 1)",
            million(by_text),
            million(by_formula),
        );
    }
    let apart = answer.maximum_flow / answer.limit.rate - 1.0;
    if apart.is_finite() && apart > 1e-6 {
        let flow = PacketRate(answer.maximum_flow);
        let _ = writeln!(
            text,
            "  as a maximum flow: {flow:.3}, an upper bound: classes differ in cost"
        );
    }
    text
}

fn components(answer: &Answer) -> String {
    let mut table = Table::new(&["  component", "capacity", "per packet", "alone", "used"], 1);
    for (component, load) in answer.system.components.iter().zip(&answer.limit.loads) {
        let capacity = match component.kind {
            Kind::Bits => format!("{:.2}", BitRate(component.capacity)),
            Kind::Cycles => format!("{:.2}", Frequency(component.capacity)),
            Kind::Packets => format!("{:.2}", PacketRate(component.capacity)),
        };
        let alone = match load.limit.is_finite() {
            true => format!("{:.3}", PacketRate(load.limit)),
            false => "-".to_owned(),
        };
        table.row([
            format!("  {}", component.name),
            capacity,
            format!("{:.1} {}", load.cost, component.kind.cost_unit()),
            alone,
            format!("{:.1} %", load.utilisation * 100.0),
        ]);
    }
    table.text()
}

/// What to change first.
fn changes(answer: &Answer) -> String {
    let mut table = Table::new(&["  what to change first", "limited then by", "limit", "gain"], 2);
    for change in answer.changes() {
        let what = match &change.what {
            Lever::Capacity(name) => format!("  twice the {name}"),
            Lever::Cost { component, what, share } => {
                let percent = share * 100.0;
                format!("  half the cost of {what} ({percent:.0} % of {component})")
            }
        };
        let gain = (change.rate / answer.limit.rate - 1.0) * 100.0;
        let then = match change.rate.is_finite() {
            true => format!("{:.3}", PacketRate(change.rate)),
            false => "none".to_owned(),
        };
        table.row([what, answer.names(&change.bottleneck), then, format!("{gain:+.1} %")]);
    }
    if table.is_empty() { String::new() } else { table.text() }
}

fn cores(load: f64, cores: &Cores) -> String {
    let load = PacketRate(load);
    match cores {
        Cores::Enough { workers, limit } => {
            let cores = if *workers == 1 { "core carries" } else { "cores carry" };
            let limit = PacketRate(*limit);
            format!("  for {load:.3}: {workers} worker {cores} {limit:.3}\n")
        }
        Cores::Never { workers, limit, bottleneck } => {
            let limit = PacketRate(*limit);
            format!(
                "  for {load:.3}: no number of cores will do; {workers} carry {limit:.3}, limited \
                 by {bottleneck}\n"
            )
        }
    }
}

/// What was measured, beside what is predicted; nothing if nothing was measured.
///
/// # Errors
/// What the file does not say.
pub fn measured(model: &Model) -> Result<String, Failure> {
    let head = ["measured", "source", "limited by", "measured", "predicted", "error"];
    let mut table = Table::new(&head, 3);
    for Measured { name, scenario, quantity, source } in &model.measured {
        let answer = scenario.answer()?;
        let predicted = quantity.predicted(&answer);
        let show = |value: f64| match quantity {
            Quantity::Rate(_) => format!("{:.3}", PacketRate(value)),
            Quantity::Cycles(_) => format!("{value:.0} cycles"),
        };
        let error = (predicted / quantity.value() - 1.0) * 100.0;
        table.row([
            name.clone(),
            source.clone(),
            answer.bottleneck(),
            show(quantity.value()),
            show(predicted),
            format!("{error:+.1} %"),
        ]);
    }
    Ok(if table.is_empty() { String::new() } else { format!("\n{}", table.text()) })
}

/// Some rows of a sweep.
pub fn sweep(over: Sweep, curves: &[(Composition, Vec<Swept>)]) -> String {
    let mut text = String::new();
    let head = match over {
        Sweep::Size => "size",
        Sweep::Length => "functions",
    };
    for (composition, points) in curves {
        let mut table = Table::new(&[head, "limit", "frames", "bus", "cycles", "limited by"], 0);
        let every = points.len().div_ceil(ROWS).max(1);
        let last = points.len().saturating_sub(1);
        let chosen = points.iter().enumerate();
        let chosen = chosen.filter(|(index, _)| index % every == 0 || *index == last);
        for (_, Swept { x, answer, bus_bits }) in chosen {
            table.row([
                x.to_string(),
                format!("{:.3}", PacketRate(answer.limit.rate)),
                format!("{:.3}", BitRate(answer.bit_rate())),
                format!("{:.0} B", bus_bits / 8.0),
                format!("{:.0}", answer.cycles()),
                answer.bottleneck(),
            ]);
        }
        let name = composition.name();
        text += &format!("{name}\n{}", table.text());
        if every > 1 {
            text += &format!("{} points; --out keeps all of them\n", points.len());
        }
    }
    text
}
