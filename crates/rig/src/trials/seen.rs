//! What a node under test has counted, before and after a trial.

use weft_node::show::Snapshot;

/// What a node has counted so far.
pub(super) struct Seen {
    pub received: u64,
    pub missed: u64,
    pub refused: u64,
    pub dropped: u64,
    /// Sampled cycles and packets of each stage that a refused packet passes.
    stages: Vec<(u64, u64)>,
}

/// The stages that a packet passes before it can be refused.
const TO_CLASSIFY: [&str; 3] = ["receive", "parse", "classify"];

impl Seen {
    pub fn of(snapshot: &Snapshot) -> Seen {
        let dropped_as = |reason: &str| -> u64 {
            let drops = snapshot.drops.iter().filter(|drop| drop.reason == reason);
            drops.map(|drop| drop.packets).sum()
        };
        let (refused, overload) = (dropped_as("backpressure"), dropped_as("overload"));
        let stages = snapshot.workers.first().map(|worker| &worker.stages[..]).unwrap_or(&[]);
        let stage = |name: &str| {
            let stage = stages.iter().find(|stage| stage.name == name);
            stage.map_or((0, 0), |stage| (stage.cycles, stage.packets))
        };
        Seen {
            received: snapshot.received(),
            missed: snapshot.ports.iter().map(|port| port.rx_missed).sum::<u64>() + overload,
            refused,
            dropped: snapshot.dropped() - refused - overload,
            stages: TO_CLASSIFY.into_iter().map(stage).collect(),
        }
    }

    /// Cycles that a packet took from receiving it to knowing whose it is.
    pub fn cycles_to_classify(&self, before: &Seen) -> Option<f64> {
        let between = self.stages.iter().zip(&before.stages);
        let each = between.map(|((cycles, packets), (cycles_before, packets_before))| {
            let packets = packets - packets_before;
            (packets > 0).then(|| (cycles - cycles_before) as f64 / packets as f64)
        });
        each.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_packet_has_cost_what_it_takes_to_know_whose_it_is() {
        let seen = |stages: [(u64, u64); 3]| Seen {
            received: 0,
            missed: 0,
            refused: 0,
            dropped: 0,
            stages: stages.into(),
        };
        let before = seen([(100, 10), (0, 0), (7, 1)]);
        let after = seen([(300, 20), (50, 10), (107, 11)]);
        assert_eq!(after.cycles_to_classify(&before), Some(20.0 + 5.0 + 10.0));
        assert_eq!(before.cycles_to_classify(&before), None, "without a sample");
    }
}
