//! What is counted by worker.

use std::fmt;

use weft_dataplane::counters::{BurstSizes, BurstTimes};
use weft_http::metrics::{Distribution, Families};
use weft_node::show::{Snapshot, WorkerView};

pub(super) fn families(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let samples = |value: fn(&WorkerView) -> u64| {
        let workers = snapshot.workers.iter().enumerate();
        workers.map(move |(number, worker)| ([("worker", number)], value(worker)))
    };
    let help = "Bursts that held a packet.";
    families.counter("weft_bursts", help, samples(|worker| worker.bursts))?;
    distributions(families, snapshot)?;
    let help = "Polls that found nothing.";
    families.counter("weft_empty_polls", help, samples(|worker| worker.empty_polls))?;
    let help = "Packets handed to another worker.";
    families.counter("weft_handed_over", help, samples(|worker| worker.handed_over))?;
    let threads = snapshot
        .workers
        .iter()
        .enumerate()
        .filter_map(|(number, worker)| Some(([("worker", number)], worker.thread? as u64)));
    let help = "The thread that runs a worker; one that is parked has that of another one.";
    families.gauge("weft_worker_thread", help, threads)
}

/// How bursts are distributed. Of those that the stages time, the time as well.
fn distributions(families: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let samples = |value: fn(&WorkerView) -> Distribution| {
        let workers = snapshot.workers.iter().enumerate();
        workers.map(move |(number, worker)| ([("worker", number)], value(worker)))
    };
    let sizes = |worker: &WorkerView| {
        let bounds = BurstSizes::BOUNDS.map(|bound| bound as f64);
        Distribution::new(worker.packets as f64, bounds, &worker.burst_sizes)
    };
    families.histogram("weft_burst_packets", "Packets of a burst.", samples(sizes))?;
    let times = |worker: &WorkerView| {
        let bounds = BurstTimes::BOUNDS.map(|bound| bound as f64 / 1e9);
        Distribution::new(worker.burst_time as f64 / 1e9, bounds, &worker.burst_times)
    };
    let help = "Time from the reception of a burst until its last packet was given to a device; \
                of one burst in 16.";
    families.histogram("weft_burst_duration_seconds", help, samples(times))
}
