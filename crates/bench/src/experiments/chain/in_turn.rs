//! Small functions fused beside the same called, and beside one loop that was written by hand.
//! All take turns within milliseconds, so that a busy machine hits them alike.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::chains::Part;
use crate::experiments::figure::{Drawing, figure};
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Run, Values};
use weft_rig::trials::by_hand::functions;
use weft_rig::trials::five::{Five, FiveCosts};
use weft_rig::{Failure, Rig, Setup, USERS};

/// In a node, whose worker measures both by itself.
pub const FUSED: &str = "weft fused, small functions in turn";
const CALLED: &str = "weft called, small functions in turn";
/// On bursts in the cache, without a node.
pub const FUSED_ALONE: &str = "fused alone, small functions";
const CALLED_ALONE: &str = "called alone, small functions";
const BY_HAND: &str = "by hand, small functions";
const OVER_CALL: &str = "fused over called, alone";
const OVER_BY_HAND: &str = "fused over by hand, alone";

/// Said where the chain is another one than was written by hand.
pub const NOT_BY_HAND: &str =
    "The small functions are not those that are written by hand: these are not compared.";

/// Whether the functions are those that are written by hand.
pub fn is_by_hand(mix: &[Part]) -> bool {
    let by_hand = functions().map(|(function, config)| json!([function, config]));
    mix.iter().map(|part| json!([part.function, part.config])).eq(by_hand)
}

/// Begins the series.
pub fn series(run: &mut Run<'_>, x: &str, by_hand: bool) {
    let alone = [FUSED_ALONE, CALLED_ALONE, BY_HAND];
    let cycles = [FUSED, CALLED].into_iter().chain(alone.into_iter().filter(|_| by_hand));
    cycles.for_each(|name| run.series(name, x, "cycles/packet", Some(Better::Lower)));
    for name in [OVER_CALL, OVER_BY_HAND].into_iter().filter(|_| by_hand) {
        run.series(name, x, "ratio", Some(Better::Lower));
    }
}

/// What the functions cost in a node, fused and called.
///
/// # Errors
/// When the node cannot be built, or its worker does not choose.
pub fn in_node(
    rig: &Rig,
    setup: &Setup,
    capture: &Path,
    length: Duration,
) -> Result<(Values, f64), Failure> {
    let (cost, disturbance) = rig.cost_in_turn(setup, capture, length)?;
    Ok((Values::of(cost.fused_cycles).and(CALLED, Some(cost.called_cycles)), disturbance))
}

/// What they cost alone, each way.
///
/// # Errors
/// When they cannot be made.
pub fn alone(rig: &Rig, octets: usize, length: Duration) -> Result<(Values, f64), Failure> {
    let mut five = Five::new(rig, USERS, octets)?;
    let (costs, disturbance) = rig.cost_of_five(&mut five, length)?;
    let FiveCosts { of: [called, fused, by_hand], fused_over_call, fused_over_by_hand } = costs;
    let values = Values::of(fused)
        .and(CALLED_ALONE, Some(called))
        .and(BY_HAND, Some(by_hand))
        .and(OVER_CALL, Some(fused_over_call))
        .and(OVER_BY_HAND, Some(fused_over_by_hand));
    Ok((values, disturbance))
}

/// All ways side by side.
pub fn drawing() -> Drawing {
    let names = [FUSED, CALLED, FUSED_ALONE, CALLED_ALONE, BY_HAND];
    figure("small", "Small functions, each way in turn", FigureKind::Bars, names)
        .caption(
            "What the small functions add to a packet. In turn: in a node whose worker runs them \
             both ways. Alone: on bursts in the cache, beside one loop of Rust that does the same, \
             octet for octet.",
        )
        .axes(Axis::linear("Functions", ""), Axis::linear("Cost", "cycles/packet"))
}

/// Derives the ratios, for so many functions.
pub fn derive(results: &mut Results, count: usize) {
    let of = |name: &str| results.series(name)?.mean_at(count as f64);
    let in_node = of(FUSED).zip(of(CALLED)).map(|(fused, called)| fused / called);
    let ratios = [
        ("fused_over_call", in_node),
        ("fused_over_call_alone", of(OVER_CALL)),
        ("fused_over_by_hand", of(OVER_BY_HAND)),
    ];
    for (name, ratio) in ratios {
        if let Some(ratio) = ratio {
            results.derive(format!("{name}_at_{count}"), ratio);
        }
    }
}
