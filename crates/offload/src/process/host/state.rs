//! The instances that a function process has, and what it does with them.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_compose::{Burst, Kind, Outcome, SlotShift};
use weft_dpdk::{Batch, Packet, Pool, tsc};
use weft_function::{Setup, TagSlot, TagTable, TagValues};

use super::instance::{self, HostedInstance, Through, order_of};
use super::line::Line;
use super::{BURST, HostError, PATIENCE};
use crate::frame::{Form, FrameKind};
use crate::process::protocol::{Connection, Message, Welcome};
use crate::vf::direct_path;
use crate::vf::fabric::PATHS;

/// Rounds between two looks at the socket: each costs as much as some packets do.
const ROUNDS: u32 = 64;
/// Rounds without a packet before the process sleeps.
const SPIN_ROUNDS: u32 = 512;

/// The instances of one function, one for each worker of the node.
pub(super) struct HostState {
    pub(super) kind: &'static Kind,
    pub(super) instances: Vec<HostedInstance>,
    /// The way of packets through a NIC, where they do not go by the ring.
    pub(super) line: Option<Line>,
    /// What was asked, and the orders before it, by worker.
    questions: VecDeque<(Message, Vec<u32>)>,
}

impl HostState {
    pub(super) fn new(
        kind: &'static Kind,
        welcome: &Welcome,
        pool: &Pool,
    ) -> Result<HostState, HostError> {
        let tags = tag_table(&welcome.tags);
        let shift = SlotShift::for_workers(usize::from(welcome.workers));
        let hosted = |worker: u16| {
            let setup = Setup {
                instance: &welcome.instance,
                tags: &tags,
                contexts: welcome.contexts,
                worker: usize::from(worker),
                tsc_hz: tsc::hz(),
                trial: false,
                events: None,
            };
            let instance = kind
                .make(&welcome.config, &setup, shift)
                .map_err(|error| HostError::Config { instance: welcome.instance.clone(), error })?;
            Ok(HostedInstance {
                instance,
                queues: None,
                form: Form::new(welcome.path, welcome.tags.len()),
                through: welcome.fabric.map(|ends| {
                    let own = welcome.path.saturating_sub(PATHS) as u16;
                    let to = (ends, welcome.peers.clone().into());
                    Through::new(direct_path::Line::new(own, welcome.tags.len(), to, worker))
                }),
                shift,
                burst: Burst { packets: Batch::new(), now: 0, pool: pool.clone() },
                coming: Batch::new(),
                leaving: Batch::new(),
                tickets: [0; Batch::CAPACITY],
                outcome: Outcome::default(),
                orders: VecDeque::new(),
                refused: Vec::new(),
                done: 0,
                settings: HashMap::new(),
                dirty: vec![false; welcome.contexts],
                changed: Vec::new(),
            })
        };
        let instances = (0..welcome.workers).map(hosted).collect::<Result<_, HostError>>()?;
        Ok(HostState { kind, instances, line: None, questions: VecDeque::new() })
    }

    /// An order before the ring is there.
    pub(super) fn beginning(&mut self, message: Message) {
        let kind = self.kind;
        if let Some(((worker, _), _)) = order_of(&message)
            && let Some(hosted) = self.instances.get_mut(usize::from(worker))
            && let Some((slot, error)) = hosted.apply_order(kind, &message)
        {
            tracing::warn!(slot, error, "a context could not be imported");
        }
    }

    pub(super) fn start(&mut self, numbers: &[u32]) {
        for (hosted, number) in self.instances.iter_mut().zip(numbers) {
            hosted.done = *number;
        }
    }

    /// Handles packets and messages until the node is gone.
    pub(super) fn work(
        &mut self,
        connection: &mut Connection,
        pause: Option<Duration>,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let (mut rounds, mut empty) = (0u32, 0u32);
        while !stop.load(Ordering::Acquire) {
            rounds = rounds.wrapping_add(1);
            if empty > SPIN_ROUNDS || rounds.is_multiple_of(ROUNDS) {
                // What follows is on its way most likely: contexts come and go in thousands.
                if self.listen(connection)? {
                    empty = empty.min(SPIN_ROUNDS + 1);
                }
                self.answer(connection)?;
            }
            if let Some(line) = &mut self.line {
                line.receive(|worker, packet| instance::give(&mut self.instances, worker, packet));
            }
            let mut any = false;
            for number in 0..self.instances.len() {
                any |= self.take(number, connection)?;
            }
            if any {
                empty = 0;
                continue;
            }
            empty = empty.saturating_add(1);
            match pause {
                Some(longest) if empty > SPIN_ROUNDS => {
                    let pause = Duration::from_micros(10) * (empty - SPIN_ROUNDS).min(1000);
                    thread::sleep(pause.min(longest));
                }
                _ => std::hint::spin_loop(),
            }
        }
        Ok(())
    }

    /// Takes messages in; orders wait for the packets before them. Returns whether there was one
    /// that something is to be done for.
    pub(super) fn listen(&mut self, connection: &mut Connection) -> io::Result<bool> {
        let mut busy = false;
        while let Some(message) = connection.receive()? {
            busy |= !matches!(message, Message::Ping(_));
            match message {
                Message::Ping(number) => connection.send(&Message::Pong(number))?,
                message @ (Message::Fence(_)
                | Message::Checkpoint { .. }
                | Message::Export { .. }) => {
                    let before = self.instances.iter().map(HostedInstance::last_order).collect();
                    self.questions.push_back((message, before));
                }
                message => {
                    if let Some(((worker, _), _)) = order_of(&message)
                        && let Some(hosted) = self.instances.get_mut(usize::from(worker))
                    {
                        hosted.orders.push_back(message);
                    }
                }
            }
        }
        if let Some(line) = &mut self.line
            && let Some(counters) = line.news()?
        {
            connection.send(&Message::Counted(counters))?;
        }
        connection.flush()?;
        Ok(busy)
    }

    /// Takes a burst from the ring of one worker; returns whether there was one.
    pub(super) fn take(&mut self, number: usize, connection: &mut Connection) -> io::Result<bool> {
        let hosted = &mut self.instances[number];
        // Orders that were here before the ring was seen empty have no packets
        // before them any more.
        let waiting = hosted.orders.len();
        if let Some(queues) = &mut hosted.queues {
            queues.rx.receive(&mut hosted.coming, BURST);
        }
        if hosted.coming.is_empty() {
            for _ in 0..waiting {
                hosted.apply_next(self.kind);
            }
            return Ok(false);
        }
        let mut coming = std::mem::take(&mut hosted.coming);
        coming.iter().for_each(Packet::prefetch);
        for mut packet in coming.drain() {
            let hosted = &mut self.instances[number];
            let Some((record, trail)) = hosted.open(&mut packet) else { continue };
            if record.what != FrameKind::Packet {
                continue;
            }
            if record.now != hosted.burst.now && !hosted.burst.packets.is_empty() {
                hosted.visit(self.kind, &mut self.line);
            }
            if (record.order.wrapping_sub(hosted.done) as i32) > 0 {
                hosted.visit(self.kind, &mut self.line);
                self.catch_up(number, record.order, connection)?;
            }
            self.instances[number].accept(packet, (&record, trail));
        }
        let hosted = &mut self.instances[number];
        hosted.visit(self.kind, &mut self.line);
        hosted.coming = coming;
        let mut spins = 0u32;
        while !self.instances[number].send(&mut self.line) {
            spins += 1;
            if spins.is_multiple_of(1024) {
                // The node may be gone, or ask whether we are.
                self.listen(connection)?;
                thread::yield_now();
            }
        }
        Ok(true)
    }

    /// Carries out orders up to the one of this number, which must be on its way.
    pub(super) fn catch_up(
        &mut self,
        number: usize,
        order: u32,
        connection: &mut Connection,
    ) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.listen(connection)?;
            let hosted = &mut self.instances[number];
            while (order.wrapping_sub(hosted.done) as i32) > 0 && hosted.apply_next(self.kind) {}
            if (order.wrapping_sub(hosted.done) as i32) <= 0 {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::yield_now();
        }
    }

    /// Answers what was asked, as far as the orders before it are carried out.
    pub(super) fn answer(&mut self, connection: &mut Connection) -> io::Result<()> {
        for (worker, hosted) in self.instances.iter_mut().enumerate() {
            for (slot, reason) in hosted.refused.drain(..) {
                let worker = worker as u16;
                connection.send(&Message::NotImported { worker, slot, reason })?;
            }
        }
        while let Some((question, before)) = self.questions.pop_front() {
            let mut instances = self.instances.iter().zip(&before);
            if !instances.all(|(hosted, number)| (number.wrapping_sub(hosted.done) as i32) <= 0) {
                self.questions.push_front((question, before));
                break;
            }
            match question {
                Message::Fence(number) => connection.send(&Message::Fenced(number))?,
                Message::Export { worker, slot, now } => {
                    let mut context = Vec::new();
                    if let Some(hosted) = self.instances.get(usize::from(worker)) {
                        hosted.instance.export(slot, now, &mut context);
                    }
                    connection.send_with_next(&Message::Exported { worker, slot, context })?;
                }
                Message::Checkpoint { now } => {
                    for (worker, hosted) in self.instances.iter_mut().enumerate() {
                        for slot in std::mem::take(&mut hosted.changed) {
                            if let Some(dirty) = hosted.dirty.get_mut(hosted.shift.index(slot)) {
                                *dirty = false;
                            }
                            let mut context = Vec::new();
                            hosted.instance.export(slot, now, &mut context);
                            let worker = worker as u16;
                            connection.send_with_next(&Message::Context {
                                worker,
                                slot,
                                context,
                            })?;
                        }
                    }
                    connection.send(&Message::Checkpointed)?;
                }
                _ => {}
            }
        }
        connection.flush()
    }
}

/// The node's tags, in their slots.
fn tag_table(tags: &[(String, Option<Vec<String>>)]) -> TagTable {
    let mut table = TagTable::default();
    for (name, values) in tags {
        let values = values.clone().map_or(TagValues::Number, TagValues::Named);
        match table.slot(name) {
            Some(slot @ (TagSlot::CHAIN | TagSlot::NETWORK)) => {
                if let TagValues::Named(names) = values {
                    table.name_values(slot, names);
                }
            }
            Some(_) => {}
            // The node had room for all of them.
            None => drop(table.declare(name, values)),
        }
    }
    table
}
