//! About how much a chain carries: where to look for its limit.

use std::time::Duration;

use weft_dpdk::tsc;

use weft_rig::Failure;
use weft_rig::traffic::capture::Content;
use weft_rig::{Offer, Rig, Setup, Standing, USERS};

/// Shares of what functions alone would let a core carry, at which a chain is tried that
/// has a core beside the node's.
const SHARES: [f64; 3] = [0.8, 1.0, 1.2];
/// A look takes no longer.
const LOOK: Duration = Duration::from_millis(300);

/// Packets per second that a chain carries: by the cost of a packet where it has the node's
/// core, and where it has another by the most that it delivers. Its functions spend so many
/// cycles on a packet.
///
/// # Errors
/// When it cannot be built, or nothing comes through.
pub fn of_chain(
    rig: &Rig,
    standing: &mut Standing<'_>,
    (number, setup): (usize, &Setup),
    cycles: f64,
    length: Duration,
) -> Result<f64, Failure> {
    let length = length.min(LOOK);
    if !setup.composition.is_elsewhere() {
        let capture = rig.capture(Content::of(USERS, 64))?;
        // The capture never ends, which is no overload.
        let setup = setup.clone().within(0);
        return Ok(rig.cost(&setup, &capture, length)?.0.rate.mean);
    }
    let mut most: f64 = 0.0;
    for share in SHARES {
        let offer = Offer::new(tsc::hz() as f64 / cycles * share, length);
        let ((arrivals, _), _) = standing.node(number, setup)?.offer(&offer)?;
        most = most.max(arrivals.goodput());
    }
    match most > 0.0 {
        true => Ok(most),
        false => Err("no packet came through".into()),
    }
}
