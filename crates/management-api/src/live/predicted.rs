//! What the model says the node could carry, beside what it carries ([`weft_model::running`]).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_model::Calibration;
use weft_model::running::{Change, Observed, Place, Prediction, Step, Visited, What};
use weft_node::show::{FunctionView, Snapshot};
use weft_node_config::Composition;

/// Bytes of a frame's checksum, which ports do not count and the model does.
const CHECKSUM: f64 = 4.0;
/// Calibrations whose counter has another rate than the node's, by more than this share, are of
/// another machine.
const SAME: f64 = 0.01;

/// What the model says the node could carry beside what it carries, over the last seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelView {
    /// Seconds that it is of; 0 before two looks.
    pub seconds: f64,
    /// Packets per second that the node received.
    pub carries: f64,
    /// Packets per second that it could carry; none where none came.
    pub could_carry: Option<f64>,
    /// What limits that.
    pub limit: String,
    /// Bytes of a frame with its checksum, the mean.
    pub size: f64,
    /// Packets of a burst, the mean. Costs that were counted hold for bursts of this size;
    /// full ones of 32 cost less.
    pub burst: f64,
    /// What brings most, if it is changed alone, is first.
    pub changes: Vec<ModelChange>,
    /// What a received packet costs.
    pub steps: Vec<ModelStep>,
    /// Functions whose cores the node does not see, or whose cost is not known.
    pub left_out: Vec<String>,
    /// The calibration; none where all costs are those that were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<CalibrationView>,
}

/// Something to change, and what would come of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelChange {
    /// What to change.
    pub what: String,
    /// Packets per second that the node could carry then.
    pub could_carry: f64,
    /// What would limit that.
    pub limit: String,
}

/// A step of a packet's way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelStep {
    /// On which core.
    pub core: String,
    /// What.
    pub what: String,
    /// Cycles for each packet that the node receives.
    pub cycles: f64,
    /// Cycles as they were counted, where they were.
    pub counted: Option<f64>,
    /// Whether `cycles` are those of the calibration.
    pub calibrated: bool,
}

/// A calibration, and whether it is of this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalibrationView {
    /// The machine, as the calibration says.
    pub machine: String,
    /// When it was measured, as it says.
    pub measured: String,
    /// Whether its counter runs at another rate than the node's: then it is of another machine.
    pub other_machine: bool,
}

/// What the model says of the time between two looks.
pub(super) fn predict(
    before: Option<&Snapshot>,
    now: &Snapshot,
    calibration: Option<&Calibration>,
) -> ModelView {
    let calibrated = calibration.map(|known| CalibrationView {
        machine: known.metadata.machine.clone(),
        measured: known.metadata.measured.clone(),
        other_machine: (known.frequency.0 / now.tsc_hz as f64 - 1.0).abs() > SAME,
    });
    let mut view = ModelView { calibration: calibrated, ..ModelView::default() };
    let Some(between) = before.and_then(|before| Between::new(before, now)) else { return view };
    let observed = between.observed();
    view.seconds = between.seconds;
    (view.carries, view.size) = (observed.rate, observed.size);
    view.burst = between.burst();
    if let Some(prediction) = observed.predict(calibration) {
        let Prediction { steps, rate, bottleneck, changes, left_out, .. } = prediction;
        (view.could_carry, view.limit, view.left_out) = (Some(rate), bottleneck, left_out);
        view.changes = changes.into_iter().map(ModelChange::from).collect();
        view.steps = steps.into_iter().map(ModelStep::from).collect();
    }
    view
}

/// Share of the time of its busiest core that packets took between two looks, from 0 to 1; none
/// where the node has started anew, or costs of its packets are not known yet.
pub fn busy(before: &Snapshot, now: &Snapshot) -> Option<f64> {
    let observed = Between::new(before, now)?.observed();
    if observed.rate <= 0.0 {
        return Some(0.0);
    }
    Some((observed.rate / observed.predict(None)?.rate).min(1.0))
}

/// What was counted between two looks.
struct Between<'a> {
    before: &'a Snapshot,
    now: &'a Snapshot,
    seconds: f64,
    received: f64,
}

impl Between<'_> {
    /// None where the node has started anew, or no time has gone by.
    fn new<'a>(before: &'a Snapshot, now: &'a Snapshot) -> Option<Between<'a>> {
        let seconds = now.uptime.checked_sub(before.uptime)? as f64 / 1e9;
        let received = now.received().saturating_sub(before.received()) as f64;
        (seconds > 0.0).then_some(Between { before, now, seconds, received })
    }

    fn observed(&self) -> Observed {
        let bytes =
            |snapshot: &Snapshot| -> u64 { snapshot.ports.iter().map(|port| port.rx_bytes).sum() };
        let bytes = bytes(self.now).saturating_sub(bytes(self.before)) as f64;
        let size = if self.received > 0.0 { bytes / self.received + CHECKSUM } else { 0.0 };
        Observed {
            frequency: self.now.tsc_hz as f64,
            workers: self.now.workers.len(),
            rate: self.received / self.seconds,
            size,
            stages: self.stages(),
            functions: self.now.functions.iter().map(|function| self.visited(function)).collect(),
        }
    }

    fn burst(&self) -> f64 {
        let sum = |of: fn(&weft_node::show::WorkerView) -> u64| {
            let all = |snapshot: &Snapshot| -> u64 { snapshot.workers.iter().map(of).sum() };
            all(self.now).saturating_sub(all(self.before)) as f64
        };
        let bursts = sum(|worker| worker.bursts);
        if bursts > 0.0 { sum(|worker| worker.packets) / bursts } else { 0.0 }
    }

    fn stages(&self) -> Vec<(String, f64)> {
        let Some(first) = self.now.workers.first() else { return Vec::new() };
        let stage = |at: usize| {
            let all = |snapshot: &Snapshot| {
                let stages = snapshot.workers.iter().filter_map(|worker| worker.stages.get(at));
                stages.fold((0, 0), |sum, one| (sum.0 + one.cycles, sum.1 + one.packets))
            };
            each(all(self.now), all(self.before)).unwrap_or(0.0)
        };
        let stages = first.stages.iter().enumerate();
        stages.map(|(at, one)| (one.name.clone(), stage(at))).collect()
    }

    fn visited(&self, function: &FunctionView) -> Visited {
        let before = self.before.functions.iter().find(|known| known.name == function.name);
        let of = |get: fn(&FunctionView) -> u64| before.map_or(0, get);
        let visits = function.packets.saturating_sub(of(|one| one.packets)) as f64;
        let place = match (&function.composition, &function.stage) {
            (Composition::Fused, _) => Place::Fused,
            (Composition::Thread, Some(stage)) => Place::Thread(stage.clone()),
            (Composition::Thread, None) => Place::Thread(function.name.clone()),
            (Composition::Call, _) => Place::Worker,
            (Composition::Process | Composition::Remote | Composition::Vf, _) => Place::Away,
        };
        Visited {
            name: function.name.clone(),
            kind: function.kind.clone(),
            share: if self.received > 0.0 { visits / self.received } else { 0.0 },
            cycles: each(
                (function.sampled_cycles, function.sampled_packets),
                (of(|one| one.sampled_cycles), of(|one| one.sampled_packets)),
            ),
            place,
        }
    }
}

/// Cycles of a packet between two looks; of all packets where none was timed between them.
fn each(now: (u64, u64), before: (u64, u64)) -> Option<f64> {
    match (now.1.saturating_sub(before.1), now.1) {
        (0, 0) => None,
        (0, all) => Some(now.0 as f64 / all as f64),
        (more, _) => Some(now.0.saturating_sub(before.0) as f64 / more as f64),
    }
}

impl From<Change> for ModelChange {
    fn from(Change { what, rate, bottleneck }: Change) -> ModelChange {
        let what = match what {
            What::Worker => "one more worker on a core of its own".to_owned(),
            What::Thread(name) => format!("a thread of its own for {name}"),
            What::Fuse(names) => format!("fusing {}", names.join(", ")),
            What::Half(name) => format!("half the cycles of {name}"),
        };
        ModelChange { what, could_carry: rate, limit: bottleneck }
    }
}

impl From<Step> for ModelStep {
    fn from(Step { component, what, cycles, counted, calibrated }: Step) -> ModelStep {
        ModelStep { core: component, what, cycles, counted, calibrated }
    }
}

#[cfg(test)]
mod tests {
    use weft_node::show::{PortView, StageView, WorkerView};

    use super::*;

    /// A look after so many seconds: 1,000 packets of 96 bytes a second, 100 cycles each and 60
    /// at a function that sees every second packet.
    fn look(seconds: u64) -> Snapshot {
        let packets = 1000 * seconds;
        let stage = |name: &str, cycles| StageView {
            name: name.into(),
            packets,
            cycles: cycles * packets,
            disturbed: 0,
        };
        let worker = WorkerView {
            bursts: packets / 4,
            packets,
            stages: vec![stage("receive", 70), stage("transmit", 30)],
            ..WorkerView::default()
        };
        let port = PortView {
            name: "access".into(),
            rx_packets: packets,
            rx_bytes: 96 * packets,
            ..PortView::default()
        };
        let function = FunctionView {
            name: "police".into(),
            kind: "marker".into(),
            packets: packets / 2,
            sampled_packets: packets / 20,
            sampled_cycles: 60 * (packets / 20),
            ..FunctionView::default()
        };
        Snapshot {
            uptime: seconds * 1_000_000_000,
            tsc_hz: 1_300_000_000,
            workers: vec![worker],
            ports: vec![port],
            functions: vec![function],
            ..Snapshot::default()
        }
    }

    #[test]
    fn what_was_counted_between_two_looks_is_predicted_from() {
        let view = predict(Some(&look(10)), &look(20), None);
        assert_eq!((view.seconds, view.carries, view.size, view.burst), (10.0, 1e3, 100.0, 4.0));
        // 130 cycles for a packet.
        assert!((view.could_carry.unwrap() - 1e7).abs() < 1.0, "{view:?}");
        assert_eq!(view.limit, "the worker's core");
        assert_eq!(view.changes[0].what, "one more worker on a core of its own");
        assert!((view.changes[0].could_carry - 2e7).abs() < 1.0);
        let steps: Vec<_> = view.steps.iter().map(|step| (&*step.what, step.cycles)).collect();
        assert_eq!(steps, [("receive", 70.0), ("transmit", 30.0), ("police", 30.0)]);
        assert_eq!(view.calibration, None);
    }

    #[test]
    fn packets_take_their_share_of_the_busiest_core() {
        // 1,000 packets of 130 cycles, of 1.3 GHz.
        let share = busy(&look(10), &look(20)).unwrap();
        assert!((share - 1e-4).abs() < 1e-9, "{share}");
        assert_eq!(busy(&look(9), &look(2)), None);
        let idle = Snapshot { uptime: 30_000_000_000, ..look(20) };
        assert_eq!(busy(&look(20), &idle), Some(0.0));
    }

    #[test]
    fn a_calibration_of_another_machine_is_said_to_be_one() {
        let text = |frequency: &str| {
            format!(
                "apiVersion: weft/v1\nkind: Calibration\n\
                 metadata: {{name: c, machine: a machine, measured: then}}\n\
                 frequency: {frequency}\ncpu: {{receive: 20, node: 30, transmit: 10}}\n"
            )
        };
        for (frequency, other_machine) in [("1.3 GHz", false), ("2 GHz", true)] {
            let calibration = Calibration::read(&text(frequency), "c.yaml").unwrap();
            let view = predict(Some(&look(10)), &look(20), Some(&calibration));
            assert!((view.could_carry.unwrap() - 1.3e9 / 90.0).abs() < 1.0, "{view:?}");
            let expected = CalibrationView {
                machine: "a machine".into(),
                measured: "then".into(),
                other_machine,
            };
            assert_eq!(view.calibration, Some(expected));
        }
    }

    #[test]
    fn a_node_that_started_anew_or_is_idle_predicts_nothing() {
        for (before, now) in [(None, look(1)), (Some(look(9)), look(2)), (Some(look(3)), look(3))] {
            assert_eq!(predict(before.as_ref(), &now, None), ModelView::default());
        }
        let idle = Snapshot { uptime: 30_000_000_000, ..look(20) };
        let view = predict(Some(&look(20)), &idle, None);
        assert_eq!((view.could_carry, view.carries), (None, 0.0));
    }
}
