//! The page: a table of contents, the machine, and a section for each experiment.

use std::collections::{BTreeMap, BTreeSet};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::area::{DrawError, Room};
use super::figure;
use super::glance::glance;
use super::lines::{paper, shown};
use super::scale::{digits, stands_on};
use super::{ReportError, in_figure};
use crate::machine::Machine;
use crate::results::{Abscissa, Figure, FigureKind, PaperValue, Point, Results, Series, Way};
use weft_rig::Account;

const STYLE: &str = include_str!("page.css");

/// Rows of a table that are shown without being asked for.
const SHORT_TABLE: usize = 12;

/// The page over all of these results.
pub fn page(all: &[Results]) -> Result<Markup, ReportError> {
    let sections = all.iter().map(section).collect::<Result<Vec<_>, _>>()?;
    let glance = glance(all)?;
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Weft: what was measured" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Weft: what was measured" }
                    p.lead { (lead(all)) }
                    @if let Some(trials) = trials(all) { p.trials { (trials) } }
                }
                (glance)
                (contents(all))
                @for machine in machines(all) { (machine) }
                main { @for section in &sections { (section) } }
                footer { p {
                    "Means with 95 % confidence intervals (Student’s t) of the repetitions. "
                    "Where a trial is cut into slices, its mean is of all that its core spent, "
                    "less what the kernel says was taken; the median of the slices and what the "
                    "undisturbed ones say (the fifth percentile) stand beside it. "
                    "Absolute figures of a paper come from its hardware; what carries over is "
                    "the shape, and the ratio to a baseline measured in the same run."
                } }
            }
        }
    })
}

fn lead(all: &[Results]) -> String {
    let begun: BTreeSet<_> = all.iter().map(|results| results.began.as_str()).collect();
    let when = begun.first().map_or(String::new(), |first| format!(", begun {first}"));
    match all.len() {
        1 => format!("One experiment{when}."),
        count => format!("{count} experiments{when}."),
    }
}

/// What became of all trials.
fn trials(all: &[Results]) -> Option<String> {
    let whole = all.iter().fold(Account::default(), |whole, one| whole.and(one.trials));
    (!whole.is_empty()).then(|| format!("Trials: {}.", whole.line()))
}

fn contents(all: &[Results]) -> Markup {
    html! {
        nav aria-label="Contents" { ol {
            @for results in all {
                li { a href={ "#" (results.experiment) } { (title(results)) } }
            }
        } }
    }
}

/// Each machine once, with the experiments made on it if there are several.
fn machines(all: &[Results]) -> Vec<Markup> {
    let mut known: Vec<(&Results, Vec<&str>)> = Vec::new();
    // What a model computed was measured nowhere.
    for results in all.iter().filter(|results| results.machine != Machine::default()) {
        match known.iter_mut().find(|(first, _)| first.machine == results.machine) {
            Some((_, names)) => names.push(&results.experiment),
            None => known.push((results, vec![&results.experiment])),
        }
    }
    let several = known.len() > 1;
    let show = |(results, names): &(&Results, Vec<&str>)| {
        html! {
            section.machine {
                h2 { "Machine" @if several { " of " (names.join(", ")) } }
                dl {
                    @for (name, value) in results.machine.facts() {
                        div { dt { (name) } dd { (value) } }
                    }
                }
            }
        }
    };
    known.iter().map(show).collect()
}

fn title(results: &Results) -> &str {
    if results.title.is_empty() { &results.experiment } else { &results.title }
}

fn section(results: &Results) -> Result<Markup, ReportError> {
    let figures = results
        .figures
        .iter()
        .map(|drawn| drawing(results, drawn).map_err(in_figure(results, &drawn.name)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(html! {
        section id=(results.experiment) {
            h2 { (title(results)) }
            @if !results.complete {
                p.warning { "Interrupted: this is what was measured until then." }
            }
            @if !results.says.is_empty() { p.says { (results.says) } }
            @for figure in &figures { (figure) }
            (peers(results))
            (derived(results))
            @if !results.notes.is_empty() {
                ul.notes { @for note in &results.notes { li { (note) } } }
            }
            (repeat(results))
        }
    })
}

fn drawing(results: &Results, drawn: &Figure) -> Result<Markup, DrawError> {
    let wide = figure::inline(results, drawn, Room::Wide)?;
    let narrow = figure::inline(results, drawn, Room::Narrow)?;
    let omitted = omitted(results, drawn);
    let series = shown(results, drawn);
    let points = series.iter().flat_map(|(series, _)| &series.points);
    let short = points.filter(|point| point.short).count();
    Ok(html! {
        figure {
            h3 { (drawn.title) }
            div.wide role="img" aria-label=(drawn.title) { (PreEscaped(wide)) }
            div.narrow aria-hidden="true" { (PreEscaped(narrow)) }
            figcaption {
                (drawn.caption)
                @if omitted > 0 {
                    " Points that a logarithmic axis has no place for: " (omitted) "."
                }
                @if short > 0 {
                    " Struck out, at what was really sent: " (short) " points whose load the "
                    "generator did not reach; they do not count."
                }
            }
            (values(results, drawn))
        }
    })
}

/// Points of a figure that are in its table only.
fn omitted(results: &Results, drawn: &Figure) -> usize {
    let stands = |point: &Point| {
        let x = match (point.position(), drawn.kind) {
            (Some(x), FigureKind::Lines) => stands_on(&drawn.x, x),
            _ => true,
        };
        x && stands_on(&drawn.y, point.mean)
    };
    let series = shown(results, drawn);
    series.iter().flat_map(|(series, _)| &series.points).filter(|point| !stands(point)).count()
}

/// The table of a figure: a row for each x; ours, baselines, then the paper's.
fn values(results: &Results, drawn: &Figure) -> Markup {
    let mut series: Vec<&Series> =
        shown(results, drawn).iter().map(|(series, _)| *series).collect();
    series.sort_by_key(|series| drawn.baselines.contains(&series.name));
    let paper = paper(results, drawn);
    let mut papers: Vec<&str> = paper.iter().map(|value| value.name.as_str()).collect();
    papers.dedup();
    let rows = rows(&series, &paper);
    let table = html! {
        div.scroll { table {
            thead { tr {
                th { (series.first().map_or("", |series| series.x.as_str())) }
                @for series in &series {
                    th {
                        (series.name) small { " " (series.unit) }
                        @if results.is_of_peer(&series.name) { small { " peer" } }
                        @else if drawn.baselines.contains(&series.name) { small { " baseline" } }
                    }
                }
                @for name in &papers { th.paper { (name) small { " paper" } } }
            } }
            tbody { @for x in &rows { tr {
                th { (x.map_or("–".to_owned(), place)) }
                @for series in &series { td { (cell(series, *x)) } }
                @for name in &papers { td.paper { (stated(&paper, name, *x)) } }
            } } }
        } }
    };
    html! {
        @if rows.len() <= SHORT_TABLE { (table) } @else {
            details { summary { "All " (rows.len()) " rows" } (table) }
        }
    }
}

/// Each x once, in the order in which they come; none stands for a paper's values
/// that belong to no x.
fn rows<'a>(series: &[&'a Series], paper: &[&'a PaperValue]) -> Vec<Option<&'a Abscissa>> {
    let measured = series.iter().flat_map(|series| &series.points).map(|point| Some(&point.x));
    let mut rows = Vec::new();
    for x in measured.chain(paper.iter().map(|value| value.x.as_ref())) {
        if !rows.contains(&x) {
            rows.push(x);
        }
    }
    if let Some(numbers) = rows.iter().map(|x| number(*x)).collect::<Option<Vec<f64>>>() {
        let mut order: Vec<_> = numbers.into_iter().zip(rows).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows = order.into_iter().map(|(_, x)| x).collect();
    }
    rows
}

/// A number to sort by; what belongs to no x comes last.
fn number(x: Option<&Abscissa>) -> Option<f64> {
    match x {
        Some(Abscissa::Number(number)) => Some(*number),
        Some(Abscissa::Name(_)) => None,
        None => Some(f64::INFINITY),
    }
}

fn place(x: &Abscissa) -> String {
    match x {
        Abscissa::Number(number) => digits(*number, 6),
        Abscissa::Name(name) => name.clone(),
    }
}

fn cell(series: &Series, x: Option<&Abscissa>) -> Markup {
    let Some(point) = x.and_then(|x| series.points.iter().find(|point| point.x == *x)) else {
        return html! {};
    };
    html! {
        (digits(point.mean, 4))
        @if let Some([low, high]) = point.ci95 {
            span.interval { " ± " (digits((high - low) / 2.0, 2)) }
        }
        @if let Some(sent) = sent_elsewhere(point) {
            small.percentiles { " " span { "sent " (digits(sent, 4)) } }
        }
        @let ways = Way::ALL.iter().filter_map(|way| Some((way.name(), point.seen(*way)?.mean)));
        @for (name, value) in ways {
            small.percentiles { " " span { (name) " " (digits(value, 3)) } }
        }
        @if !point.percentiles.is_empty() {
            small.percentiles {
                @for (name, value) in in_order(&point.percentiles) {
                    " " span { (name) " " (digits(value, 3)) }
                }
            }
        }
    }
}

/// The load that was really sent, where that is not the one of the row.
fn sent_elsewhere(point: &Point) -> Option<f64> {
    let Abscissa::Number(x) = point.x else { return None };
    let sent = point.position()?;
    (point.short || (sent - x).abs() > 0.005 * x.abs()).then_some(sent)
}

/// Percentiles from low to high: the greatest is none by its name.
fn in_order(percentiles: &BTreeMap<String, f64>) -> Vec<(&str, f64)> {
    let mut all: Vec<_> = percentiles.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    all.sort_by_key(|(name, _)| *name == "max");
    all
}

fn stated(paper: &[&PaperValue], name: &str, x: Option<&Abscissa>) -> Markup {
    let value = paper.iter().find(|value| value.name == name && value.x.as_ref() == x);
    html! {
        @if let Some(value) = value { span title=(value.source) { (digits(value.value, 4)) } }
    }
}

/// Other programs that were measured in the same run.
fn peers(results: &Results) -> Markup {
    html! {
        @if !results.peers.is_empty() {
            h3 { "Peers, measured in this run" }
            div.scroll { table.peers {
                thead { tr { th { "peer" } th { "version" } th { "how" } th { "where" } } }
                tbody { @for peer in &results.peers { tr {
                    th { (peer.name) }
                    td { (peer.version) }
                    td { (peer.how) }
                    td { code { (peer.place) } }
                } } }
            } }
        }
    }
}

fn derived(results: &Results) -> Markup {
    if results.derived.is_empty() {
        return html! {};
    }
    let stated = |name: &str| results.paper.iter().find(|value| value.name == *name);
    let any_stated = results.derived.keys().any(|name| stated(name).is_some());
    let of_way = |name: &str, way: Way| format!("{name}_{}", way.name());
    let any_ways = Way::ALL.map(|way| {
        results.derived.keys().any(|name| results.derived.contains_key(&of_way(name, way)))
    });
    let is_of_way = |name: &str| {
        let whole = |way: Way| name.strip_suffix(way.name())?.strip_suffix('_');
        Way::ALL.into_iter().filter_map(whole).any(|whole| results.derived.contains_key(whole))
    };
    html! {
        h3 { "Derived numbers" }
        div.scroll { table.derived {
            thead { tr {
                th { "name" }
                th { "value" }
                @for (way, _) in Way::ALL.iter().zip(any_ways).filter(|(_, any)| *any) {
                    th { (way.name()) }
                }
                @if any_stated { th.paper { "paper" } }
            } }
            tbody { @for name in results.derived.keys().filter(|name| !is_of_way(name)) { tr {
                th { code { (name) } }
                td { (derived_number(results, name)) }
                @for (way, _) in Way::ALL.iter().zip(any_ways).filter(|(_, any)| *any) {
                    td { (derived_number(results, &of_way(name, *way))) }
                }
                @if any_stated {
                    td.paper { @if let Some(paper) = stated(name) {
                        span title=(paper.source) { (digits(paper.value, 4)) }
                    } }
                }
            } } }
        } }
    }
}

/// A derived number with its interval, if there is one of the name.
fn derived_number(results: &Results, name: &str) -> Markup {
    html! {
        @if let Some(value) = results.derived.get(name) {
            (digits(*value, 4))
            @if let Some([low, high]) = results.derived_ci95.get(name) {
                span.interval { " ± " (digits((high - low) / 2.0, 2)) }
            }
        }
    }
}

fn repeat(results: &Results) -> Markup {
    html! {
        details.repeat {
            summary { "To repeat it" }
            @if !results.command.is_empty() { pre { code { (results.command) } } }
            @if !results.parameters.is_empty() {
                dl {
                    @for (name, value) in &results.parameters {
                        div { dt { (name) } dd { (value.to_string()) } }
                    }
                }
            }
            p { "Measured values: " code { (results.experiment) "/results.json" } ", "
                code { (results.experiment) "/results.csv" } "." }
        }
    }
}
