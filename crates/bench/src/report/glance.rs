//! The first page: each figure of a paper small, what the paper states beside what was
//! measured here, and whether the shape holds.

use maud::{Markup, PreEscaped, html};

use super::area::Room;
use super::{ReportError, figure, in_figure};
use crate::experiment::Effort;
use crate::results::{Results, Shape};
use crate::shapes;

/// All experiments that have a figure in a paper; nothing without any.
///
/// # Errors
/// The first figure that cannot be drawn.
pub fn glance(all: &[Results]) -> Result<Markup, ReportError> {
    let cards = all.iter().filter_map(|results| Some((results, results.shape.as_ref()?)));
    let cards: Vec<Markup> = cards.map(card).collect::<Result<_, _>>()?;
    let is_there = |name: &str| all.iter().any(|results| results.experiment == name);
    let missing: Vec<&str> = shapes::experiments().filter(|name| !is_there(name)).collect();
    Ok(html! {
        @if !cards.is_empty() {
            section.glance id="glance" {
                h2 { "The papers’ figures at a glance" }
                p.lead {
                    "What carries over from a paper is the shape of its figure. Each is drawn as it "
                    "was measured here; its section has all values, and how to repeat it."
                }
                div.cards { @for card in &cards { (card) } }
                @if !missing.is_empty() {
                    p.missing { "Not in this report: " (missing.join(", ")) "." }
                }
            }
        }
    })
}

fn card((results, shape): (&Results, &Shape)) -> Result<Markup, ReportError> {
    let drawn = results.figures.first();
    let drawing = drawn.map(|drawn| {
        figure::inline(results, drawn, Room::Narrow).map_err(in_figure(results, &drawn.name))
    });
    let drawing = drawing.transpose()?;
    let (class, verdict) = match shape.holds {
        Some(true) => ("holds", "The shape holds."),
        Some(false) => ("fails", "The shape does not hold here."),
        None => ("open", "Not enough was measured to tell."),
    };
    let how = match Effort::of(results) {
        _ if !results.complete => Some("interrupted"),
        Some(Effort::Quick) => Some("quick"),
        _ => None,
    };
    Ok(html! {
        article.card {
            h3 {
                a href={ "#" (results.experiment) } { (results.title) }
                @if let Some(how) = how { small { " (" (how) ")" } }
            }
            @if let Some(drawing) = drawing {
                a href={ "#" (results.experiment) } tabindex="-1" aria-hidden="true" {
                    figure { (PreEscaped(drawing)) }
                }
            }
            dl {
                div { dt { "Paper" @if !results.from.is_empty() { " (" (results.from) ")" } } dd { (shape.paper) } }
                @if let Some(ours) = &shape.ours { div { dt { "Here" } dd { (ours) "." } } }
            }
            p class=(class) { (verdict) }
        }
    })
}
