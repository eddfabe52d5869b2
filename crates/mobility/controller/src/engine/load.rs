//! What nodes carry, by what they say once a second.
//!
//! A node may say anything, as often as it likes: of each node that is connected a few looks
//! are kept, with some time of its own clock between them. Figures are shown; users move because
//! of them only where the site or an operator says so (`balance.rs`), so many at a time at most.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use weft_mobility_protocol::NodeId;
use weft_mobility_transport::Load;

/// Looks of one node: rates are of about five seconds.
const LOOKS: usize = 6;
/// Nanoseconds of the node's clock between two looks, at least.
const APART: u64 = 500_000_000;
/// After how long without a word nothing is known.
const SILENT: Duration = Duration::from_secs(10);

/// What a node carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLoad {
    /// Packets that it has received since it started.
    pub received: u64,
    /// Packets that it has dropped since then.
    pub dropped: u64,
    /// Packets a second that it received in the last seconds, and that it dropped; none before
    /// its second look.
    pub rates: Option<[f64; 2]>,
    /// Share of its busiest core that packets took (0 to 1); none where it does not say so.
    pub busy: Option<f64>,
}

/// The loads of all nodes that are connected.
#[derive(Debug, Default)]
pub struct Loads(BTreeMap<NodeId, Looks>);

#[derive(Debug)]
struct Looks {
    heard: Instant,
    /// The newest at the end; never empty.
    looks: VecDeque<Load>,
}

impl Loads {
    /// A node says what it carries.
    pub fn said(&mut self, node: NodeId, load: Load, now: Instant) {
        let known = self.0.entry(node);
        let known = known.or_insert_with(|| Looks { heard: now, looks: VecDeque::new() });
        known.heard = now;
        if let Some(last) = known.looks.back() {
            let grows = load.uptime >= last.uptime
                && load.received >= last.received
                && load.dropped >= last.dropped;
            if !grows {
                // It has started anew.
                known.looks.clear();
            } else if load.uptime - last.uptime < APART {
                return;
            }
        }
        known.looks.push_back(load);
        if known.looks.len() > LOOKS {
            known.looks.pop_front();
        }
    }

    /// A node is connected no longer, or is none any more.
    pub fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// What a node carries; none if it has not said so of late.
    pub fn of(&self, node: NodeId, now: Instant) -> Option<NodeLoad> {
        let known = self.0.get(&node)?;
        if now.saturating_duration_since(known.heard) > SILENT {
            return None;
        }
        let (first, last) = (known.looks.front()?, known.looks.back()?);
        let seconds = (last.uptime - first.uptime) as f64 / 1e9;
        let rate = |of: fn(&Load) -> u64| (of(last) - of(first)) as f64 / seconds;
        Some(NodeLoad {
            received: last.received,
            dropped: last.dropped,
            rates: (seconds > 0.0).then(|| [rate(|look| look.received), rate(|look| look.dropped)]),
            busy: last.busy.map(|busy| f64::from(busy) / f64::from(Load::WHOLE)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(2);
    const SECOND: u64 = 1_000_000_000;

    fn load(seconds: u64, received: u64, dropped: u64) -> Load {
        Load { uptime: seconds * SECOND, received, dropped, busy: Some(2500) }
    }

    #[test]
    fn rates_are_of_the_last_seconds() {
        let (mut loads, now) = (Loads::default(), Instant::now());
        assert_eq!(loads.of(NODE, now), None);
        loads.said(NODE, load(0, 0, 0), now);
        assert_eq!(loads.of(NODE, now).unwrap().rates, None);
        for second in 1..=10 {
            loads.said(NODE, load(second, 100 * second, second), now);
        }
        let before = loads.of(NODE, now).unwrap();
        let expected =
            NodeLoad { received: 1000, dropped: 10, rates: Some([100.0, 1.0]), busy: Some(0.25) };
        assert_eq!(before, expected);
        for second in 11..=15 {
            loads.said(NODE, load(second, 1000 + 300 * (second - 10), 10), now);
        }
        assert_eq!(loads.of(NODE, now).unwrap().rates, Some([300.0, 0.0]));
    }

    #[test]
    fn one_that_starts_anew_or_is_silent_has_no_rates() {
        let (mut loads, now) = (Loads::default(), Instant::now());
        (0..4).for_each(|second| loads.said(NODE, load(second, 100 * second, 0), now));
        loads.said(NODE, load(1, 7, 0), now);
        let anew = loads.of(NODE, now).unwrap();
        assert_eq!((anew.received, anew.rates), (7, None));
        assert!(loads.of(NODE, now + SILENT).is_some());
        assert_eq!(loads.of(NODE, now + SILENT + Duration::from_millis(1)), None);
        loads.forget(NODE);
        assert_eq!(loads.of(NODE, now), None);
    }

    /// Whatever it says and however often, little is kept, and what is shown is a number.
    #[test]
    fn a_hostile_node_is_kept_in_bounds() {
        let (mut loads, now) = (Loads::default(), Instant::now());
        let values = [0, 1, APART - 1, APART, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        for round in 0..10_000_usize {
            let pick = |step: usize| values[(round * step + round / 7) % values.len()];
            let load = Load {
                uptime: pick(3),
                received: pick(5),
                dropped: pick(11),
                busy: (round % 2 == 0).then_some(Load::WHOLE),
            };
            loads.said(NODE, load, now);
            assert!(loads.0[&NODE].looks.len() <= LOOKS);
            let shown = loads.of(NODE, now).unwrap();
            let finite = |rate: &f64| rate.is_finite() && *rate >= 0.0;
            assert!(shown.rates.iter().flatten().all(finite), "{shown:?}");
            assert!(shown.busy.is_none_or(|busy| (0.0..=1.0).contains(&busy)));
        }
        // One that floods within a moment is not listened to.
        let mut flooded = Loads::default();
        for more in 0..10_000 {
            flooded.said(NODE, Load { uptime: SECOND + more, ..load(0, more, 0) }, now);
        }
        assert_eq!(flooded.0[&NODE].looks.len(), 1);
        assert_eq!(flooded.of(NODE, now).unwrap().received, 0);
    }
}
