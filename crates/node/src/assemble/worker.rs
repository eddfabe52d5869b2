//! Makes the workers.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;
use weft_compose::SlotShift;
use weft_dataplane::buffering::limits::{Bounds, Limits};
use weft_dataplane::buffering::queues::Queues;
use weft_dataplane::classify::{Classifier, PortClass};
use weft_dataplane::clock::Clock;
use weft_dataplane::command::Waker;
use weft_dataplane::counters::WorkerCounters;
use weft_dataplane::forward::{Choices, Element, Forwarding, Plan};
use weft_dataplane::parse::local::{AddressFilter, OwnAddresses, broadcast_of};
use weft_dataplane::service_path::{Service, ServicePlan};
use weft_dataplane::transmit::outlet::{Outlet, OutletKind, Routed};
use weft_dataplane::transmit::to_agent::{PUNT_RING, ToAgent};
use weft_dataplane::transmit::{Departure, Peer};
use weft_dataplane::worker::{Inlet, Worker, WorkerParts};
use weft_dpdk::{Batch, Eal, Pool, Producer, Ring, Wakeup};
use weft_function::EventSender;
use weft_node_config::{Blueprint, Classification, PortPlan};
use weft_rules::Program;
use weft_wire::MacAddress;

use super::rings::Rings;
use super::{COMMAND_RING, KEPT_PACKETS, OpenPort, own_addresses};
use crate::error::BuildError;
use crate::subscribers::{Keys, Room};
use crate::workers::Link;

/// What all workers are made from.
pub(super) struct Shared<'a> {
    pub(super) blueprint: &'a Blueprint,
    pub(super) ports: &'a [OpenPort],
    pub(super) pool: &'a Pool,
    /// Where the agent's copies of packets come from.
    pub(super) punts: &'a Pool,
    pub(super) clock: &'a Clock,
    pub(super) room: Room,
    pub(super) waker: &'a Waker,
    /// By the number of the worker: what ends its sleep. Empty where none sleeps until something
    /// comes.
    pub(super) wakeups: &'a [Wakeup],
    /// Where functions tell what is exported.
    pub(super) events: Option<&'a EventSender>,
}

impl Shared<'_> {
    pub(super) fn worker(
        &self,
        eal: &Eal,
        number: usize,
        rings: &mut Rings,
    ) -> Result<(Worker, Link), BuildError> {
        let shift = SlotShift::for_workers(self.blueprint.workers.count);
        let counters = Arc::new(WorkerCounters::new(self.blueprint.ports.len()));
        let (commands, mailbox) = rtrb::RingBuffer::new(COMMAND_RING);
        let (outbox, reports) = rtrb::RingBuffer::new(COMMAND_RING);
        let (to_neighbours, neighbours) = Ring::new(eal, "neighbours", PUNT_RING)?;
        let (to_punts, punts) = Ring::new(eal, "punts", PUNT_RING)?;
        let agent = ToAgent::new(
            (to_neighbours, to_punts),
            self.punts.clone(),
            &self.blueprint.limits.local,
            self.blueprint.ports.len(),
            counters.clone(),
        );
        let peers = std::mem::take(&mut rings.to[number]).into_iter().enumerate();
        let peers = peers.map(|(other, to)| {
            Some(Peer { wakeup: self.wakeups.get(other).cloned(), to: to?, batch: Batch::new() })
        });
        let departure = Departure {
            outlets: self.outlets(number, std::mem::take(&mut rings.to_relay[number])),
            peers: peers.collect(),
            relays: std::mem::take(&mut rings.relays[number]),
            agent,
            gated: Batch::new(),
            originals: ArrayVec::new(),
            reports: outbox,
            pool: self.pool.clone(),
            counters: counters.clone(),
            shift,
            service: self.service(number),
        };
        let mut worker = Worker::new(WorkerParts {
            inlets: self.inlets(number),
            crossings: std::mem::take(&mut rings.from[number]),
            classifier: self.classifier(number, shift),
            element: Element::new(Box::new(self.empty_plan()), self.blueprint.ports.len())
                .with_paths(self.blueprint.has_paths()),
            queues: self.queues(),
            idle: self.idle(),
            delay_bound: self.blueprint.limits.delay.map(|delay| delay.as_nanos() as u64),
            departure,
            counters: counters.clone(),
            clock: self.clock.clone(),
            commands: mailbox,
            waker: self.waker.clone(),
            pool: self.pool.clone(),
        });
        let wakeup = self.wakeups.get(number).cloned();
        wakeup.iter().for_each(|wakeup| worker.set_wakeup(wakeup.clone()));
        let backlog = VecDeque::new();
        let aside = None;
        let link = Link { commands, backlog, aside, reports, neighbours, punts, counters, wakeup };
        Ok((worker, link))
    }

    /// A plan that leads nowhere, until the first one is put in its place.
    fn empty_plan(&self) -> Plan {
        let rules = Arc::new(self.blueprint.rules.clone());
        let program = Program { states: Vec::new(), entries: Vec::new(), chain_slot: None };
        let forwarding = Forwarding::Compiled { program, classes: 0 };
        let (functions, choices) = (Vec::new(), Choices::default());
        Plan { rules, forwarding, functions, fused: None, choices }
    }

    /// The receive queues that a worker polls.
    fn inlets(&self, number: usize) -> Vec<Inlet> {
        let count = self.blueprint.workers.count;
        let mut inlets = Vec::new();
        for (port, (open, plan)) in self.ports.iter().zip(&self.blueprint.ports).enumerate() {
            // One that another process has is received from later.
            let Some(device) = &open.port else { continue };
            let own = looked_at(self.blueprint, plan, open.mac);
            for queue in 0..device.rx_queues() {
                if (plan.worker + usize::from(queue)) % count == number
                    && let Some(queue) = device.take_rx(queue)
                {
                    inlets.push(Inlet { port: port as u16, queue, own: own.clone() });
                }
            }
        }
        inlets
    }

    fn service(&self, worker: usize) -> Option<Box<Service>> {
        let blueprint = self.blueprint;
        if !blueprint.has_service_headers() {
            return None;
        }
        let macs: Vec<_> = self.ports.iter().map(|open| open.mac).collect();
        let ports = blueprint.ports.iter().enumerate();
        let paths = ports.filter_map(|(at, port)| Some((at as u16, port.path.as_ref()?)));
        let plan = ServicePlan {
            paths: &paths.collect::<Vec<_>>(),
            devices: blueprint.devices().len(),
            macs: &macs,
            tags: &blueprint.tags,
            written: blueprint.written_tags(),
        };
        Some(Box::new(Service::new(&plan, worker)))
    }

    fn queues(&self) -> Queues {
        let room = (self.pool.size() as usize).min(KEPT_PACKETS);
        Queues::new(self.blueprint.limits.kept_packets as usize, room)
    }

    fn idle(&self) -> Limits {
        let limits = &self.blueprint.limits;
        Limits::new(Bounds {
            packets: limits.waiting_packets as usize,
            bytes: limits.waiting_bytes as usize,
            in_all: limits.waiting_in_all as usize / self.blueprint.workers.count,
        })
    }

    fn outlets(&self, number: usize, relays: Vec<Option<Producer>>) -> Vec<Outlet> {
        let ports = self.ports.iter().zip(&self.blueprint.ports).zip(relays).enumerate();
        let paths = self.blueprint.ports.iter().enumerate().skip(self.ports.len());
        let paths =
            paths.map(|(port, plan)| Outlet::new(port as u16, OutletKind::Path, plan.mtu, None));
        ports
            .filter_map(|(port, ((open, plan), relay))| {
                let way = match (relay, &open.port) {
                    (Some(ring), _) => {
                        let sender = number % usize::from(open.tx_queues);
                        OutletKind::Worker(ring, self.wakeups.get(sender).cloned())
                    }
                    (None, Some(device)) => OutletKind::Queue(device.take_tx(number as u16)?),
                    (None, None) => OutletKind::Gone,
                };
                Some(Outlet::new(port as u16, way, plan.mtu, self.routed(open, plan)))
            })
            .chain(paths)
            .collect()
    }

    fn routed(&self, open: &OpenPort, plan: &PortPlan) -> Option<Routed> {
        plan.is_routed().then(|| {
            let mut routed = Routed::new(open.mac, self.blueprint.limits.neighbours as usize);
            routed.next_hop = plan.next_hop_mac.map(MacAddress);
            routed.subnets = plan.addresses.clone();
            routed.gateways = plan.gateways.clone();
            // Packets do not wait for what is configured.
            for (address, mac) in &plan.neighbours {
                routed.neighbours.set(*address, Some(MacAddress(*mac)));
            }
            routed
        })
    }

    fn classifier(&self, number: usize, shift: SlotShift) -> Classifier {
        let ports = self
            .blueprint
            .ports
            .iter()
            .map(|port| PortClass { network: port.network, direction: port.direction })
            .collect();
        let capacity = Keys::of(self.blueprint).capacity(self.blueprint, self.room);
        let classifier = Classifier::new(capacity, ports, shift, number);
        match self.blueprint.classification {
            Classification::Table => classifier,
            Classification::Linear => classifier.linear(),
        }
    }
}

/// What workers look at before a packet from a port with this MAC address is routed; none at a
/// transparent port.
pub(super) fn looked_at(
    blueprint: &Blueprint,
    plan: &PortPlan,
    mac: MacAddress,
) -> Option<OwnAddresses> {
    if plan.addresses.is_empty() {
        return None;
    }
    let addresses: Vec<_> = own_addresses(blueprint).collect();
    let is_ipv4 = |address: &IpAddr| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    };
    let subnets = blueprint.ports.iter().flat_map(|port| &port.addresses);
    let broadcasts = subnets.filter_map(|(address, length)| broadcast_of(*address, *length));
    let broadcasts: Vec<_> = broadcasts.collect();
    let ipv4: Vec<_> = addresses.iter().filter_map(is_ipv4).collect();
    let routed = blueprint.ports.iter().filter(|plan| plan.is_routed());
    Some(OwnAddresses {
        mac,
        known: AddressFilter::of(ipv4.iter().chain(&broadcasts)),
        ipv4,
        addresses,
        broadcasts,
        least_mtu: routed.map(|plan| plan.mtu).min().unwrap_or(u16::MAX),
        service: blueprint.has_service_headers(),
    })
}
