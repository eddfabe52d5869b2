//! What packets cost a node: cycles by stage and function, from the sample of the bursts whose
//! time the node takes.

use serde::Serialize;
use weft_node::show::{FunctionView, Snapshot, StageView};

/// What packets cost the node.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Cycles per second of the time-stamp counter.
    pub tsc_hz: u64,
    pub packets_per_burst: f64,
    /// The stages of the way of a packet; *forward* is without the functions.
    pub stages: Vec<CostPart>,
    pub functions: Vec<CostPart>,
}

/// What packets cost in one place.
#[derive(Clone, Debug, Serialize)]
pub struct CostPart {
    pub name: String,
    /// Of the packets that come there.
    pub cycles_per_packet: f64,
    /// The part of all packets that come there, from 0 to 1.
    pub share: f64,
}

impl CostPart {
    /// Cycles here of a packet on average, be it one that comes here or not.
    pub fn mean(&self) -> f64 {
        self.cycles_per_packet * self.share
    }
}

impl Cost {
    /// The cost of all that a node has counted.
    pub fn of(node: &Snapshot) -> Cost {
        Counts::of(node).cost(node)
    }

    /// Cycles of a packet on average, with all functions that it comes to.
    pub fn mean(&self) -> f64 {
        self.stages.iter().chain(&self.functions).map(CostPart::mean).sum()
    }
}

/// What a node had counted at some time, or between two times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    packets: u64,
    bursts: u64,
    stages: Vec<Sample>,
    functions: Vec<(Sample, u64)>,
}

/// Cycles, and the packets that took them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    cycles: u64,
    packets: u64,
}

impl Counts {
    /// What a node has counted until now.
    pub fn of(node: &Snapshot) -> Counts {
        let mut stages =
            vec![Sample::default(); node.workers.first().map_or(0, |one| one.stages.len())];
        for worker in &node.workers {
            for (sum, StageView { cycles, packets, .. }) in stages.iter_mut().zip(&worker.stages) {
                *sum = Sample { cycles: sum.cycles + cycles, packets: sum.packets + packets };
            }
        }
        let function = |one: &FunctionView| {
            (Sample { cycles: one.sampled_cycles, packets: one.sampled_packets }, one.packets)
        };
        Counts {
            packets: node.workers.iter().map(|worker| worker.packets).sum(),
            bursts: node.workers.iter().map(|worker| worker.bursts).sum(),
            stages,
            functions: node.functions.iter().map(function).collect(),
        }
    }

    /// What was counted since an earlier time.
    pub fn since(&self, before: &Counts) -> Counts {
        self.with(before, u64::saturating_sub)
    }

    /// Both together.
    pub fn and(&self, other: &Counts) -> Counts {
        self.with(other, |one, other| one + other)
    }

    fn with(&self, other: &Counts, combine: fn(u64, u64) -> u64) -> Counts {
        let sample = |(one, other): (&Sample, &Sample)| Sample {
            cycles: combine(one.cycles, other.cycles),
            packets: combine(one.packets, other.packets),
        };
        let function = |(one, other): (&(Sample, u64), &(Sample, u64))| {
            (sample((&one.0, &other.0)), combine(one.1, other.1))
        };
        Counts {
            packets: combine(self.packets, other.packets),
            bursts: combine(self.bursts, other.bursts),
            stages: self.stages.iter().zip(&other.stages).map(sample).collect(),
            functions: self.functions.iter().zip(&other.functions).map(function).collect(),
        }
    }

    /// What that comes to for a packet, with the names that `node` has for its parts.
    pub fn cost(&self, node: &Snapshot) -> Cost {
        let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let part = |name: &str, sample: &Sample, share: f64| CostPart {
            name: name.to_owned(),
            cycles_per_packet: ratio(sample.cycles, sample.packets),
            share,
        };
        let names = node.workers.first().map_or(&[][..], |worker| &worker.stages);
        let stages = names.iter().zip(&self.stages);
        let functions = node.functions.iter().zip(&self.functions);
        Cost {
            tsc_hz: node.tsc_hz,
            packets_per_burst: ratio(self.packets, self.bursts),
            stages: stages.map(|(stage, sample)| part(&stage.name, sample, 1.0)).collect(),
            functions: functions
                .map(|(one, (sample, all))| part(&one.name, sample, ratio(*all, self.packets)))
                .collect(),
        }
    }
}
