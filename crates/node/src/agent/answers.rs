//! What the agent answers: views of the node, and traces.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, channel, sync_channel};

use weft_dataplane::command::{Command, Punt, Shown};
use weft_dataplane::counters::{Counter, DropReason, FusedChoice, Ignored, Stage};
use weft_dataplane::trace::{Point, Sighting, Tap, Watch};
use weft_dpdk::tsc;
use weft_function::Reason;
use weft_node_config::FusedWhen;

use super::Agent;
use super::show::{
    BearerView, Buffers, DedicatedView, DropView, FunctionView, FusedChoiceView, FusedView,
    IgnoredView, NeighbourView, PortView, ProcessView, SignalCounts, Snapshot, StageView, UserView,
    WithheldView, WorkerView,
};
use super::show::{TopologyView, paths};
use crate::bearer::BearerId;
use crate::functions::FunctionEntry;
use crate::gtpu_peers::PeerView;
use crate::ports::{ExtendedView, LinkState, PortControl};

/// Sightings that wait for the client that watches.
const SIGHTINGS: usize = 4096;

/// Bits that number the packets of one worker in a tap; those above are the
/// worker's.
const PACKETS_BITS: u32 = 48;

/// Packets of the node's own that were not made.
const NO_BUFFER: Reason =
    Reason::new("no_buffer", "anything that the node sends: too much waits to be sent");

/// A tap at work.
#[derive(Debug)]
pub struct Watching {
    /// Names the tap, to remove it.
    pub number: u64,
    /// What it sees.
    pub sightings: Receiver<Sighting>,
    /// What did not fit.
    pub missed: Arc<AtomicU64>,
}

impl Agent {
    /// Name of the node.
    pub fn name(&self) -> &str {
        &self.configuration.blueprint.name
    }

    /// The configuration at work.
    pub fn blueprint(&self) -> &weft_node_config::Blueprint {
        &self.configuration.blueprint
    }

    /// Whether all changes asked for so far are made.
    pub fn is_settled(&self) -> bool {
        self.workers.is_settled() && !self.migration.has_function()
    }

    /// Everything that is counted.
    pub fn snapshot(&self) -> Snapshot {
        let sum = |counter: fn(&weft_dataplane::counters::WorkerCounters) -> &Counter| -> u64 {
            self.workers.iter().map(|link| counter(&link.counters).get()).sum()
        };
        let threads = self.workers.threads();
        let views = self.workers.iter().enumerate().map(|(number, link)| WorkerView {
            thread: threads.get(number).copied(),
            ..worker_view(&link.counters)
        });
        Snapshot {
            node: self.configuration.blueprint.name.clone(),
            uptime: self.clock.now(),
            started: self.started,
            tsc_hz: tsc::hz(),
            users: self.user_views().count(),
            buffers: Buffers { size: self.pool.size(), available: self.pool.available() },
            workers: views.collect(),
            ports: (0..self.ports.count()).map(|port| self.port_view(port)).collect(),
            functions: self.function_views(),
            drops: self.drop_views(),
            withheld: self.withheld_views(),
            ignored: self.ignored_views(),
            local: sum(|counters| &counters.local),
            originated: sum(|counters| &counters.originated),
            emitted: sum(|counters| &counters.emitted),
            fragments: sum(|counters| &counters.fragments),
            panics: sum(|counters| &counters.panics),
            handover: self.handover_view(),
            moved_out: sum(|counters| &counters.moved_out),
            moved_in: sum(|counters| &counters.moved_in),
            state: self.persistence.view(self.clock.now()),
            signals: SignalCounts {
                end_markers: sum(|counters| &counters.end_markers),
                ..self.gtpu_peers.counts()
            },
        }
    }

    fn port_view(&self, number: usize) -> PortView {
        let port_control = self.ports.get(number);
        let device = port_control.statistics();
        let (queues, spread, flows) = port_control.spreading();
        let mut view = PortView {
            name: port_control.name().to_owned(),
            device: port_control.device().to_owned(),
            mac: port_control.mac().to_string(),
            up: port_control.state() == LinkState::Up,
            state: port_control.state(),
            link_changes: port_control.link_changes(),
            rx_missed: device.rx_missed,
            rx_errors: device.rx_errors,
            queues,
            spread,
            offloads: port_control.offloads(),
            flow_rules: flows.present,
            flow_rules_refused: flows.refused,
            ..PortView::default()
        };
        for link in self.workers.iter() {
            let counters = &link.counters.ports[number];
            view.rx_packets += counters.received.packets.get();
            view.rx_bytes += counters.received.bytes.get();
            view.by_worker.push(counters.received.packets.get());
            view.misdirected += counters.misdirected.get();
            view.tx_packets += counters.transmitted.packets.get();
            view.tx_bytes += counters.transmitted.bytes.get();
        }
        view
    }

    /// A function at another node, as its process would be shown: the path to it is
    /// there when it is for all workers.
    fn remote_view(&self, function: &str) -> Option<ProcessView> {
        let shared = self.functions.remote(function)?;
        let sum = |of: fn(&weft_dataplane::offload::Shared) -> u32| {
            shared.iter().map(|one| u64::from(of(one))).sum::<u64>()
        };
        Some(ProcessView {
            state: if self.functions.is_reachable(function) { "reachable" } else { "unreachable" }
                .to_owned(),
            failures: shared.iter().map(|one| u64::from(one.failures())).max().unwrap_or(0),
            away: sum(weft_dataplane::offload::Shared::away),
            lost: sum(weft_dataplane::offload::Shared::lost),
            strays: sum(weft_dataplane::offload::Shared::strays),
            ..ProcessView::default()
        })
    }

    fn process_view(&self, function: &str) -> Option<ProcessView> {
        let view = self.functions.supervisor(function)?.view();
        Some(ProcessView {
            state: view.status.name().to_owned(),
            process: view.process,
            failures: view.failures,
            last_failure: view.last_failure,
            away: view.away,
            lost: view.lost,
            strays: view.strays,
            port: view.port.map(Into::into),
        })
    }

    fn function_views(&self) -> Vec<FunctionView> {
        self.functions
            .entries
            .iter()
            .map(|entry| {
                let mut view = FunctionView {
                    name: entry.name.to_string(),
                    kind: entry.kind.name.to_owned(),
                    process: self
                        .process_view(&entry.name)
                        .or_else(|| self.remote_view(&entry.name)),
                    ..FunctionView::default()
                };
                let mut plans = self.configuration.blueprint.functions.iter();
                if let Some(plan) = plans.find(|plan| *plan.name == *entry.name) {
                    view.composition = plan.composition;
                    view.stage = plan.stage.as_ref().map(|stage| stage.name.clone());
                    let why = || {
                        self.migration.split.why.clone().unwrap_or_else(|| "too few packets".into())
                    };
                    view.chosen = plan.auto.as_ref().map(|_| why());
                }
                view.fused = self.fused_view(entry);
                for counters in &entry.counters {
                    let (cycles, packets) = counters.cycles.get();
                    view.packets += counters.handled.packets.get();
                    view.bytes += counters.handled.bytes.get();
                    view.bursts += counters.bursts.get();
                    view.sampled_cycles += cycles;
                    view.sampled_packets += packets;
                    view.disturbed += counters.cycles.disturbed();
                    view.drops += counters.drops.iter().map(Counter::get).sum::<u64>();
                }
                view
            })
            .collect()
    }

    fn drop_views(&self) -> Vec<DropView> {
        let mut views = Vec::new();
        for (number, (_, reason)) in DropReason::ALL.iter().enumerate() {
            let packets = self.workers.iter().map(|link| link.counters.drops[number].get()).sum();
            views.push(DropView { packets, ..drop_view(reason) });
        }
        for entry in self.functions.entries.iter().chain(&self.functions.retired) {
            for (number, reason) in entry.kind.reasons().enumerate() {
                let packets = entry.counters.iter().map(|one| one.drops[number].get()).sum();
                let function = Some(entry.name.to_string());
                views.push(DropView { function, packets, ..drop_view(reason) });
            }
        }
        for port_control in self.ports.iter() {
            let device = port_control.statistics();
            let port = Some(port_control.name().to_owned());
            let lost = [
                ("rx_missed", "receive queue full", device.rx_missed),
                ("rx_errors", "received in error, or without a buffer", device.rx_errors),
            ];
            for (reason, meaning, packets) in lost {
                let (reason, meaning) = (reason.to_owned(), meaning.to_owned());
                let port = port.clone();
                views.push(DropView { reason, meaning, port, packets, function: None });
            }
        }
        views.retain(|view| view.packets > 0);
        views
    }

    fn withheld_views(&self) -> Vec<WithheldView> {
        let by_workers = Punt::ALL.iter().enumerate().map(|(number, (_, reason))| {
            let packets = self.workers.iter().map(|link| link.counters.withheld[number].get());
            (*reason, packets.sum())
        });
        let all = by_workers.chain([(NO_BUFFER, self.ports.unsent())]);
        all.filter(|(_, packets)| *packets > 0)
            .map(|(Reason { name, meaning }, packets)| WithheldView {
                cause: name.to_owned(),
                meaning: meaning.to_owned(),
                packets,
            })
            .collect()
    }

    fn ignored_views(&self) -> Vec<IgnoredView> {
        let view = |(number, (_, reason)): (usize, &(Ignored, Reason))| {
            let workers = self.workers.iter().map(|link| link.counters.ignored[number].get());
            let ports = self.ports.iter().map(|port| port.ignored()[number]);
            IgnoredView {
                cause: reason.name.to_owned(),
                meaning: reason.meaning.to_owned(),
                packets: workers.chain(ports).sum(),
            }
        };
        let all = Ignored::ALL.iter().enumerate().map(view);
        all.filter(|view| view.packets > 0).collect()
    }

    /// Up to `count` users from the `first` on, without what their contexts hold; see
    /// [`Agent::contexts_of`]. Those of the configuration come in its order, and behind them
    /// sessions in no order.
    pub fn users(&self, first: usize, count: usize) -> Vec<UserView> {
        self.user_views().users(first, count)
    }

    /// Users of the configuration whose name has `text` in it or that are found by it: an
    /// address, TEID, SPI, VLAN or session of a link; and the PFCP sessions of that name, SEID,
    /// address or TEID. Up to `count` from the `first` on.
    pub fn search_users(&self, text: &str, first: usize, count: usize) -> Vec<UserView> {
        self.user_views().search(text, first, count)
    }

    /// Default bearers that commands have added and that are found by `text`, and the bearer
    /// of that number.
    pub fn search_bearers(&self, text: &str) -> Vec<BearerView> {
        self.user_views().search_bearers(text)
    }

    /// The ways through the rules of the packets of the user of that name, as text.
    pub fn ways_of_user(&self, name: &str) -> Option<String> {
        self.user_views().ways_of(name)
    }

    /// The dedicated bearers of the user of that name: those of the configuration, then those
    /// that commands have added. A session has none.
    pub fn bearers_of_user(&self, name: &str) -> Option<Vec<DedicatedView>> {
        self.user_views().dedicated(name)
    }

    /// Bearers that commands have added, in the order of their numbers: up to
    /// `count` from `first` on, without what their contexts hold.
    pub fn bearers(&self, first: BearerId, count: usize) -> Vec<BearerView> {
        self.user_views().bearers(first, count)
    }

    /// One bearer, and what its contexts hold: that comes once its worker has
    /// read the question.
    pub fn bearer(&mut self, id: BearerId) -> Option<(BearerView, Receiver<Shown>)> {
        let view = self.user_views().bearer(id)?;
        let (answer, wait) = channel();
        let user = view.slot;
        self.workers.send_to_owner(user, Command::Show { user, answer });
        Some((view, wait))
    }

    /// Names of the users at these slots. One pass over all users of the configuration: not for
    /// each packet.
    pub fn user_names(&self, slots: &[u32]) -> HashMap<u32, String> {
        self.user_views().names(slots)
    }

    /// What the drivers of all ports count, by their own names. NICs may take milliseconds to
    /// answer.
    pub fn extended_ports(&self) -> Vec<ExtendedView> {
        self.ports.iter().map(PortControl::extended).collect()
    }

    /// The node as a graph.
    pub fn topology(&self) -> TopologyView {
        TopologyView::of(&self.configuration.blueprint, &self.configuration.trials)
    }

    /// The GTP-U peers in use.
    pub fn peers(&self) -> Vec<PeerView> {
        self.gtpu_peers.views(&self.ports)
    }

    /// The neighbours at all ports, up to `count`.
    pub fn neighbours(&self, count: usize) -> Vec<NeighbourView> {
        let now = self.clock.now();
        self.ports.iter().flat_map(|port| port.neighbours(now)).take(count).collect()
    }

    /// Asks the user's worker what the contexts of the user hold. The answer comes once the
    /// worker has read the question.
    pub fn contexts_of(&mut self, name: &str) -> Option<(UserView, Receiver<Shown>)> {
        let view = self.user_views().named(name)?;
        let (answer, wait) = channel();
        self.workers.send_to_owner(view.slot, Command::Show { user: view.slot, answer });
        Some((view, wait))
    }

    /// The ways of all classes through the rules, as text.
    pub fn paths(&self) -> String {
        paths(&self.configuration.blueprint)
    }

    /// What is fused, with micro-operations and machine code, as text.
    pub fn fused(&self) -> String {
        match &self.configuration.fused {
            Some(fused) => {
                let functions = &self.configuration.blueprint.functions;
                fused.text(|number| {
                    functions.get(usize::from(number)).map_or("?", |plan| plan.name.as_str())
                })
            }
            None => "no functions are fused\n".to_owned(),
        }
    }

    /// What is fused from a function on, and which workers really run it fused.
    fn fused_view(&self, entry: &FunctionEntry) -> Option<FusedView> {
        let blueprint = &self.configuration.blueprint;
        let name = |number: &u16| Some(&blueprint.functions.get(usize::from(*number))?.name);
        let fused = self.configuration.fused.as_ref()?;
        let mut regions = fused.regions.iter().map(|region| &region.functions);
        let functions = regions.find(|functions| {
            functions.first().and_then(name).is_some_and(|first| *first == *entry.name)
        })?;
        let choice = |(choice, fused_cycles, called_cycles)| FusedChoiceView {
            is_fused: choice == FusedChoice::Fused,
            fused_cycles,
            called_cycles,
        };
        Some(FusedView {
            functions: functions.iter().filter_map(name).cloned().collect(),
            always: blueprint.fused == FusedWhen::Always,
            workers: entry.counters.iter().map(|one| one.fused.get().map(choice)).collect(),
        })
    }

    /// Whether the function of that name is fused with others: packets pass it in machine code,
    /// unless it turned out to be faster called.
    pub fn is_fused(&self, name: &str) -> bool {
        let functions = &self.configuration.blueprint.functions;
        let is_it = |number| functions.get(usize::from(number)).is_some_and(|of| of.name == name);
        self.configuration.fused.as_ref().is_some_and(|fused| fused.functions().any(is_it))
    }

    /// Watches packets at all workers.
    pub fn watch(&mut self, watch: &Watch) -> Watching {
        let (out, sightings) = sync_channel(SIGHTINGS);
        let missed = Arc::new(AtomicU64::new(0));
        self.next_tap += 1;
        for (worker, link) in self.workers.iter_mut().enumerate() {
            let first = (worker as u64) << PACKETS_BITS;
            let tap = Tap::new(watch.clone(), first, out.clone(), missed.clone());
            link.send(Command::Tap(self.next_tap, Box::new(tap)));
        }
        Watching { number: self.next_tap, sightings, missed }
    }

    /// Stops watching.
    pub fn unwatch(&mut self, number: u64) {
        for link in self.workers.iter_mut() {
            link.send(Command::Untap(number));
        }
    }

    /// The slot of the user of that name.
    pub fn user_slot(&self, name: &str) -> Option<u32> {
        self.user_views().slot(name)
    }

    /// What to say of a name that is no user's.
    pub fn no_user(&self, name: &str) -> String {
        let meant = self.subscribers.users.meant_by(name);
        format!("no user {name}{}", meant.map_or(String::new(), |meant| format!(" ({meant})")))
    }

    /// Name of the user at a slot; the slot's number where there is none.
    pub fn user_name(&self, slot: u32) -> String {
        self.subscribers.user_name(slot)
    }

    /// What a point is called: `access`, `police`, a reason.
    pub fn point_text(&self, point: Point) -> String {
        let port =
            |number: u16| self.configuration.blueprint.ports[usize::from(number)].name.clone();
        let function = |number: u16| {
            let known = self.functions.entries.get(usize::from(number));
            known.map_or_else(|| format!("function {number}"), |one| one.name.to_string())
        };
        match point {
            Point::Received(number) => format!("received at {}", port(number)),
            Point::Classified => "classified".to_owned(),
            Point::Before(number) => format!("to {}", function(number)),
            Point::After(number) => format!("from {}", function(number)),
            Point::Leaving(number) => format!("leaving at {}", port(number)),
            Point::Dropped(reason) => format!("dropped: {}", reason.reason()),
            Point::DroppedBy(number) => format!("dropped by {}", function(number)),
        }
    }
}

fn drop_view(reason: &Reason) -> DropView {
    let Reason { name, meaning } = *reason;
    DropView { reason: name.to_owned(), meaning: meaning.to_owned(), ..DropView::default() }
}

fn worker_view(counters: &weft_dataplane::counters::WorkerCounters) -> WorkerView {
    let stage = |stage: Stage| {
        let sample = &counters.stages[stage as usize];
        let (cycles, packets) = sample.get();
        let disturbed = sample.disturbed();
        StageView { name: stage.name().to_owned(), packets, cycles, disturbed }
    };
    let (burst_times, burst_time) = counters.times.get();
    WorkerView {
        thread: None,
        bursts: counters.bursts.total(),
        burst_sizes: counters.bursts.get(),
        burst_times,
        burst_time,
        packets: counters.ports.iter().map(|port| port.received.packets.get()).sum(),
        empty_polls: counters.empty_polls.get(),
        handed_over: counters.handed_over.get(),
        stages: Stage::ALL.into_iter().map(stage).collect(),
    }
}
