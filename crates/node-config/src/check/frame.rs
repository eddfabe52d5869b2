//! Workers, memory and limits.

use std::time::Duration;

use weft_dataplane::clock::rate_limit::Rate;
use weft_dataplane::transmit::to_agent::LocalLimits;

use super::nics::Nics;
use super::within;
use crate::blueprint::{Echo, Gtpu, Limits, Memory, Overrules, PortPlan, StatePlan, Workers};
use crate::locate::Source;
use crate::yaml::{
    GtpuFile, LimitsFile, LocalFile, MemoryFile, NodeFile, RateFile, StateFile, WatchdogFile,
    WorkersFile,
};

/// Most workers of a node.
pub(super) const WORKERS: u32 = 64;
/// Cores that the kernel's affinity masks can name.
pub(super) const CORES: u32 = 1024;
/// Most users, and most dedicated bearers.
const USERS: u32 = 1 << 24;
/// Most groups, and most neighbours.
const GROUPS: u32 = 1 << 20;
/// Most answers a second, and at once, of one kind at one port and worker.
const MOST_ANSWERS: u64 = 1_000_000;

pub(super) fn workers(file: &WorkersFile, source: &mut Source<'_>) -> Workers {
    within(source, "workers.count", file.count.into(), 1, WORKERS.into());
    within(source, "workers.maxSleep", file.max_sleep.into(), 1, 1_000_000);
    if let Some(cores) = &file.cores {
        if cores.len() != file.count as usize {
            let message = format!("{} cores for {} workers", cores.len(), file.count);
            source.wrong("workers.cores", message).hint("one core for each worker");
        }
        for (index, core) in cores.iter().enumerate() {
            let path = format!("workers.cores.{index}");
            within(source, &path, u64::from(*core), 0, u64::from(CORES - 1));
            if cores[..index].contains(core) {
                source.wrong(&path, format!("core {core} has a worker already"));
            }
        }
    }
    Workers {
        count: file.count as usize,
        cores: file.cores.as_ref().map(|cores| cores.iter().map(|core| *core as usize).collect()),
        polling: file.polling,
        max_sleep_us: file.max_sleep,
        interrupts: file.interrupts,
        overrules: Overrules::default(),
    }
}

/// Least limit of the watchdog, in milliseconds: a few looks.
const LEAST_LIMIT: u64 = 500;

pub(super) fn watchdog(file: &WatchdogFile, source: &mut Source<'_>) -> Option<Duration> {
    let limit = u64::from(file.limit);
    if limit > 0 {
        within(source, "watchdog.limit", limit, LEAST_LIMIT, 600_000);
    }
    (limit > 0).then(|| Duration::from_millis(limit))
}

pub(super) fn memory(
    file: &MemoryFile,
    (ports, nics, workers): (&[PortPlan], &Nics, usize),
    source: &mut Source<'_>,
) -> Memory {
    let packets = u64::from(file.packets);
    within(source, "memory.packets", packets, 512, (1 << 24) - 1);
    if let Some(megabytes) = file.megabytes {
        within(source, "memory.megabytes", megabytes.into(), 16, 1 << 20);
    }
    // A virtual function of a switch in software has one queue in each direction, so long at most.
    let size = |port: &PortPlan, queues: usize| match nics.is_software(&port.device) {
        true => u64::from(port.descriptors.min(weft_vf::QUEUE)),
        false => queues as u64 * u64::from(port.descriptors),
    };
    let queued: u64 = ports.iter().map(|port| size(port, port.queues.into())).sum();
    // The driver of a NIC gives back what it has sent when it needs the place again, and so does
    // that of such a switch's: the transmit queue of each worker is full sooner or later.
    let of_nics = |port: &&PortPlan| {
        port.device.starts_with(weft_vf::PREFIX) || weft_dpdk::is_pci_address(&port.device)
    };
    let sent = |port: &PortPlan| size(port, workers);
    let sent: u64 = ports.iter().filter(of_nics).map(sent).sum();
    if queued + sent >= packets {
        let which = if sent > 0 { "queues of the ports" } else { "receive queues of the ports" };
        let message = format!("the {which} alone hold {} packets", queued + sent);
        let mistake = source.wrong("memory.packets", message);
        mistake.hint("more packets here, or fewer descriptors there");
    }
    Memory { packets: file.packets, megabytes: file.megabytes, huge_pages: file.huge_pages }
}

pub(super) fn gtpu(file: &GtpuFile, source: &mut Source<'_>) -> Gtpu {
    let GtpuFile { echo_interval: interval, t3_response, n3_requests, error_indication } = *file;
    within(source, "gtpu.echoInterval", interval.into(), 0, 86_400);
    within(source, "gtpu.t3Response", t3_response.into(), 1, 60);
    within(source, "gtpu.n3Requests", n3_requests.into(), 1, 10);
    Gtpu { echo: Echo { interval, t3_response, n3_requests }, error_indication }
}

pub(super) fn state(file: &StateFile, source: &mut Source<'_>) -> StatePlan {
    let StateFile { directory, durability, loading, checkpoints } = file;
    if directory.is_empty() {
        source.wrong("state.directory", "a folder is needed");
    }
    within(source, "state.checkpoints.rate", checkpoints.rate.into(), 0, 1_000_000);
    StatePlan {
        directory: directory.into(),
        durability: *durability,
        loading: *loading,
        checkpoint_rate: checkpoints.rate,
    }
}

/// Microseconds below which what a worker is kept from its core for would be taken for overload.
const LEAST_DELAY: u64 = 100;

pub(super) fn limits(file: &NodeFile, source: &mut Source<'_>) -> Limits {
    let bearers = |user: &crate::yaml::Users| u64::from(user.count) * user.bearers.len() as u64;
    let users: u64 = file.users.iter().map(|user| u64::from(user.count)).sum();
    let bearers: u64 = file.users.iter().map(bearers).sum();
    let LimitsFile { kept_packets, waiting_packets, waiting_bytes, neighbours, .. } = file.limits;
    let most = file.memory.packets;
    let waiting_in_all = file.limits.waiting_in_all.unwrap_or(most / 4);
    within(source, "limits.waitingInAll", waiting_in_all.into(), 0, most.into());
    within(source, "limits.waitingPackets", waiting_packets.into(), 0, 1 << 16);
    within(source, "limits.keptPackets", kept_packets.into(), 0, 1 << 16);
    within(source, "limits.neighbours", neighbours.into(), 16, GROUPS.into());
    let delay = u64::from(file.limits.delay);
    if delay > 0 {
        within(source, "limits.delay", delay, LEAST_DELAY, 1_000_000);
    }
    let limits = &file.limits;
    Limits {
        users: room(source, "users", users, limits.users, (1024, USERS)),
        groups: room(source, "groups", file.groups.0.len() as u64, limits.groups, (16, GROUPS)),
        bearers: room(source, "bearers", bearers, limits.bearers, (0, USERS)),
        kept_packets,
        waiting_packets,
        waiting_bytes,
        waiting_in_all,
        delay: (delay > 0).then(|| Duration::from_micros(delay)),
        neighbours,
        local: local(&limits.local, source),
    }
}

fn local(file: &LocalFile, source: &mut Source<'_>) -> LocalLimits {
    within(source, "limits.local.answers", file.answers.into(), 64, 1 << 16);
    within(source, "limits.local.sources", file.sources.into(), 1, 1 << 20);
    let mut rate = |key: &str, RateFile { rate, burst }: RateFile| {
        let path = format!("limits.local.{key}");
        within(source, &format!("{path}.rate"), rate.into(), 0, MOST_ANSWERS);
        within(source, &format!("{path}.burst"), burst.into(), 1, MOST_ANSWERS);
        Rate { rate, burst }
    };
    LocalLimits {
        answers: file.answers,
        sources: file.sources,
        per_source: rate("perSource", file.per_source),
        rates: file.rates().map(|(key, file)| rate(key, file)),
    }
}

/// A limit as it is given, or else as it is needed; what is needed beyond it is
/// noted. `bounds` are the least that is taken by itself and the most there is.
fn room(
    source: &mut Source<'_>,
    what: &str,
    needed: u64,
    given: Option<u32>,
    bounds: (u32, u32),
) -> u32 {
    let (least, most) = bounds;
    let path = format!("limits.{what}");
    let limit = match given {
        Some(limit) => {
            within(source, &path, limit.into(), u64::from(what == "users"), most.into());
            limit
        }
        None => u32::try_from(needed).unwrap_or(u32::MAX).clamp(least, most),
    };
    if needed > u64::from(limit) {
        let path = if given.is_some() { &path } else { "users" };
        source.wrong(path, format!("room for {limit} {what}, but the file has {needed}"));
    }
    limit
}
