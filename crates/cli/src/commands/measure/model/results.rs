//! Answers as results, which the bench's report draws.

use weft_bench::machine::Machine;
use weft_bench::results::{Abscissa, Axis, Better, Figure, FigureKind, PaperValue, Point};
use weft_bench::results::{Results, Series};
use weft_model::file::{Quantity, Sweep, Swept};
use weft_model::quantity::PacketRate;
use weft_model::{Composition, Model};

use super::machine;
use crate::failure::Failure;

const PREDICTED: &str = "predicted";
const MEASURED: &str = "measured";
/// Components that are so many times apart need a logarithmic axis to be seen.
const APART: f64 = 30.0;

/// What each component allows, and what was measured beside what is predicted.
///
/// # Errors
/// What the file does not say.
pub fn answers(model: &Model, command: String) -> Result<Results, Failure> {
    let mut results = begun(model, "", command);
    let mut names = Vec::new();
    for scenario in model.scenarios() {
        let answer = scenario.answer()?;
        let name = scenario.composition.name();
        let mut series = Series::new(name, "component", "Mpps");
        for (component, load) in answer.system.components.iter().zip(&answer.limit.loads) {
            push(&mut series, component.name.as_str(), load.limit / 1e6);
        }
        results.derive(format!("limit_pps_{name}"), answer.limit.rate);
        results.says += &format!(
            "In {name} composition {:.3} are carried, limited by {}. ",
            PacketRate(answer.limit.rate),
            answer.bottleneck()
        );
        names.push(name);
        results.series.push(series);
    }
    results.says = results.says.trim_end().to_owned();
    let all = results.series.iter().flat_map(|series| &series.points);
    let (least, most) = all.fold((f64::INFINITY, 0.0_f64), |(least, most), point| {
        (least.min(point.mean), most.max(point.mean))
    });
    let axis: fn(&'static str, &'static str) -> Axis =
        if most > least * APART { Axis::log } else { Axis::linear };
    results.figures.push(figure(
        "components",
        "What each component allows",
        "The packet rate that each component would carry alone; the least is the limit.",
        FigureKind::Bars,
        (Axis::default(), axis("Packet rate", "Mpps")),
        &names,
    ));
    compare(model, &mut results)?;
    Ok(results)
}

/// What was measured beside what is predicted: rates and cycles apart.
fn compare(model: &Model, results: &mut Results) -> Result<(), Failure> {
    for (is_rate, name, unit, label) in [
        (true, "rates", "Mpps", "Packet rate"),
        (false, "cycles", "cycles/packet", "Cycles per packet"),
    ] {
        let titles = [PREDICTED, MEASURED].map(|title| format!("{title}, {name}"));
        let mut series = titles.clone().map(|title| Series::new(title, "case", unit));
        for measured in &model.measured {
            if matches!(measured.quantity, Quantity::Rate(_)) != is_rate {
                continue;
            }
            let scale = if is_rate { 1e6 } else { 1.0 };
            let predicted = measured.quantity.predicted(&measured.scenario.answer()?);
            let case = measured.name.as_str();
            push(&mut series[0], case, predicted / scale);
            push(&mut series[1], case, measured.quantity.value() / scale);
        }
        if series[0].points.is_empty() {
            continue;
        }
        results.series.extend(series);
        let mut drawn = figure(
            name,
            "Predicted and measured",
            "What the model says beside what was measured.",
            FigureKind::Bars,
            (Axis::default(), Axis::linear(label, unit)),
            &titles.each_ref().map(String::as_str),
        );
        drawn.baselines = vec![titles[1].clone()];
        results.figures.push(drawn);
    }
    Ok(())
}

/// A curve for each composition.
pub fn sweep(
    model: &Model,
    over: Sweep,
    curves: &[(Composition, Vec<Swept>)],
    command: String,
) -> Results {
    let (by, x, axis) = match over {
        Sweep::Size => ("size", "frame bytes", Axis::linear("Frame size", "B")),
        Sweep::Length => ("length", "functions", Axis::linear("Functions", "")),
    };
    let mut results = begun(model, by, command);
    type Of = fn(&Swept) -> f64;
    let kinds: [(&str, &str, &str, &str, Of); 5] = [
        ("rate", "Packet rate", "Mpps", "The limit.", |at| at.answer.limit.rate / 1e6),
        ("bits", "Data rate", "Gbit/s", "The limit in bits of frames.", |at| {
            at.answer.bit_rate() / 1e9
        }),
        (
            "bus",
            "Moved over the bus per packet",
            "B",
            "In one direction, with descriptors, in whole cache lines.",
            |at| at.bus_bits / 8.0,
        ),
        (
            "bus-load",
            "Load of the bus",
            "Gbit/s",
            "What the limit moves over the bus in one direction: a tooth for each cache line.",
            |at| at.bus_bits * at.answer.limit.rate / 1e9,
        ),
        ("cycles", "Cycles per packet", "cycles", "At the core that spends most.", |at| {
            at.answer.cycles()
        }),
    ];
    for (stem, label, unit, caption, of) in kinds {
        let mut names = Vec::new();
        for (composition, points) in curves {
            let name = match stem {
                "rate" => composition.name().to_owned(),
                _ => format!("{}, {}", composition.name(), label.to_lowercase()),
            };
            let mut series = Series::new(&name, x, unit);
            if stem.starts_with("bus") {
                series.better = Some(Better::Lower);
            }
            points.iter().for_each(|at| push(&mut series, at.x, of(at)));
            results.series.push(series);
            names.push(name);
        }
        let axes = (axis.clone(), Axis::linear(label, unit));
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let mut drawn = figure(stem, label, caption, FigureKind::Lines, axes, &names);
        drawn.paper = names.iter().map(|&name| name.to_owned()).collect();
        results.figures.push(drawn);
    }
    results.paper = paper(model, over);
    results
}

/// What was measured of what is swept.
fn paper(model: &Model, over: Sweep) -> Vec<PaperValue> {
    let same = model.measured.iter().filter(|measured| {
        let (own, swept) = (&measured.scenario, &model.scenario);
        own.hardware == swept.hardware
            && own.workers == swept.workers
            && own.function_cores == swept.function_cores
    });
    let values = same.filter_map(|measured| {
        let composition = measured.scenario.composition.name();
        let traffic = measured.scenario.traffic.first()?;
        let x = match over {
            Sweep::Size => traffic.size,
            Sweep::Length => traffic.functions.len() as f64,
        };
        let (name, value) = match measured.quantity {
            Quantity::Rate(rate) => (composition.to_owned(), rate / 1e6),
            Quantity::Cycles(cycles) => (format!("{composition}, cycles per packet"), cycles),
        };
        let source = measured.source.clone();
        Some(PaperValue { name, x: Some(Abscissa::Number(x)), value, source })
    });
    values.collect()
}

fn begun(model: &Model, by: &str, command: String) -> Results {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name = model.name.replace(|c| !is_plain(c), "-").to_lowercase();
    let parts = ["model", &name, by];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let mut results = Results::new(&parts.join("-"), Machine::default());
    results.title = match by {
        "" => format!("Model: {}", model.name),
        by => format!("Model: {} by {by}", model.name),
    };
    results.command = command;
    results.notes.push(format!(
        "Computed by the resource-constraint model for {}; nothing was measured here.",
        machine(&model.scenario)
    ));
    results
}

fn figure(
    name: &str,
    title: &str,
    caption: &str,
    kind: FigureKind,
    (x, y): (Axis, Axis),
    series: &[&str],
) -> Figure {
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        kind,
        x,
        y,
        series: series.iter().map(|&name| name.to_owned()).collect(),
        baselines: Vec::new(),
        paper: Vec::new(),
        marks: Vec::new(),
        bar_labels: Vec::new(),
    }
}

/// Adds a value, unless it is not finite: a component without cost has no limit.
fn push(series: &mut Series, x: impl Into<Abscissa>, value: f64) {
    series.points.extend(Point::of(x, vec![value]));
}
