//! Trials of a function alone: what it adds to bursts of packets that lie in the
//! cache, each of another of so many flows. Ports, classification and the way through
//! a node are left out, and so is what it takes to make the packets anew.
//!
//! Where it takes little, trials with the function and without are told apart. Where it
//! takes as much as the function itself (packets that are to be decrypted must be
//! encrypted first), the clock is read before and behind each burst.

use std::time::{Duration, Instant};

use serde_json::Value;
use weft_compose::{Burst, Instance, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Pool, tsc};
use weft_function::{Metadata, PacketMetadata, Setup, TagTable};

use crate::Failure;
use crate::Rig;
use crate::machine::disturbance::Look;
use crate::machine::slices::{Measured, Slices};
use crate::trials::closed::{WARM_UP, taken};

/// Packets of a burst.
pub const BURST: usize = 32;
/// Bursts between two looks at the clock.
const BURSTS_AT_ONCE: usize = 16;
/// Nanoseconds from one burst to the next, on the clock of the function.
const INTERVAL: u64 = 1_000;
/// Octets that a flow's headers may have.
pub const HEADERS: usize = 84;

/// The headers of a flow's packets, and whose they are.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// From the Ethernet header on.
    pub headers: [u8; HEADERS],
    /// Slot of the user.
    pub user: u32,
}

/// What is done to a packet of the flow of this number, behind its headers.
pub type Finish = Box<dyn FnMut(usize, &mut [u8]) + Send>;

/// Packets, which are made anew for each burst.
pub struct Packets {
    /// In the order in which they come.
    pub flows: Vec<Flow>,
    /// Octets of their headers that differ.
    pub headers: usize,
    /// Octets of a frame, without its checksum.
    pub length: usize,
    /// What a parser notes of them, but for the user.
    pub metadata: PacketMetadata,
    /// None where headers are all that differs.
    pub finish: Option<Finish>,
}

/// What a function is told of users.
#[derive(Clone, Copy)]
pub enum Told<'a> {
    /// Nothing.
    Nothing,
    /// The same of all, as in a node's file; it counts up by itself.
    Alike(&'a Value),
    /// Something else of each.
    Each(fn(u32) -> Value),
}

/// A function that is measured.
#[derive(Clone)]
pub struct Alone<'a> {
    /// Its name.
    pub function: &'a str,
    /// As in a node's file.
    pub config: Value,
    /// What it is told of users.
    pub settings: Told<'a>,
    /// Users.
    pub users: u32,
}

/// What is measured by itself.
pub trait Subject: Send {
    /// Gets ready for the next burst.
    fn prepare(&mut self);

    /// Works on the burst, which is what is measured.
    fn work(&mut self);

    /// Does all that there is to do once.
    ///
    /// # Errors
    /// When it goes wrong.
    fn check(&mut self) -> Result<(), Failure>;

    /// Whether to get ready takes about as long as the work.
    fn takes_long_to_prepare(&self) -> bool;
}

/// A function and a burst for it.
pub struct Bench {
    instance: Box<dyn Instance>,
    burst: Burst,
    outcome: Outcome,
    packets: Packets,
    next: usize,
}

impl Bench {
    /// Makes the function and its packets.
    ///
    /// # Errors
    /// When the function is unknown or its configuration wrong, or without memory.
    pub fn new(rig: &Rig, alone: &Alone<'_>, packets: Packets) -> Result<Bench, Failure> {
        let kind = weft_functions::kind(alone.function)
            .ok_or_else(|| format!("{} is no function", alone.function))?;
        let mut tags = TagTable::default();
        for tag in kind.reads.iter().chain(kind.writes) {
            tags.declare(tag.name, tag.values.into()).map_err(|error| error.to_string())?;
        }
        let contexts = alone.users.max(1) as usize;
        let tsc_hz = tsc::hz();
        let setup = Setup {
            instance: "alone",
            tags: &tags,
            contexts,
            worker: 0,
            tsc_hz,
            trial: false,
            events: None,
        };
        let wrong = |error: weft_function::ConfigError| format!("{}: {error}", alone.function);
        let mut instance = kind.make(&alone.config, &setup, SlotShift(0)).map_err(wrong)?;
        match alone.settings {
            Told::Nothing => {}
            Told::Alike(settings) => {
                let settings = kind.settings(settings).map_err(wrong)?;
                (0..alone.users).for_each(|user| instance.configure(user, &settings, user));
            }
            Told::Each(settings) => {
                for user in 0..alone.users {
                    instance.configure(user, &kind.settings(&settings(user)).map_err(wrong)?, 0);
                }
            }
        }
        let pool = Pool::new(rig.eal, &format!("alone{}", rig.serial()), 127)?;
        let mut burst = Burst { packets: Batch::new(), now: 1, pool: pool.clone() };
        let frame = vec![0; packets.length];
        for _ in 0..BURST {
            let packet = pool.packet(&frame).ok_or("the pool of packets is empty")?;
            burst.packets.push(packet).map_err(|_| "the burst is full")?;
        }
        Ok(Bench { instance, burst, outcome: Outcome::default(), packets, next: 0 })
    }

    /// Shows the function each flow once, and `seen` what it made of the packets.
    ///
    /// # Errors
    /// When it drops one.
    pub fn pass(&mut self, mut seen: impl FnMut(usize, &[u8])) -> Result<(), Failure> {
        self.next = 0;
        let count = self.packets.flows.len();
        for first in (0..count).step_by(BURST) {
            self.prepare();
            self.work();
            if !self.outcome.dropped.is_empty() {
                let reason = self.outcome.reasons[self.outcome.dropped.lowest().unwrap_or(0)];
                let reason = self.instance.kind().reasons().nth(reason.into());
                let reason = reason.map_or("no reason", |reason| reason.name);
                return Err(format!("the function drops packets: {reason}").into());
            }
            for (place, packet) in self.burst.packets.iter_mut().enumerate() {
                seen((first + place) % count, packet.data());
            }
        }
        Ok(())
    }

    /// Gives the function other packets.
    pub fn replace(&mut self, packets: Packets) {
        (self.packets, self.next) = (packets, 0);
    }
}

impl Subject for Bench {
    /// Makes the packets of the next flows.
    #[inline]
    fn prepare(&mut self) {
        let Packets { flows, headers, length, metadata, finish } = &mut self.packets;
        for packet in self.burst.packets.iter_mut() {
            let number = self.next;
            let flow = &flows[number];
            self.next = if number + 1 == flows.len() { 0 } else { number + 1 };
            // As it was before the function has added to it or taken from it.
            packet.reset();
            let Some(frame) = packet.append(*length) else { continue };
            frame[..*headers].copy_from_slice(&flow.headers[..*headers]);
            if let Some(finish) = finish {
                finish(number, frame);
            }
            *packet.metadata_mut() =
                PacketMetadata { user: flow.user, bearer: flow.user, ..*metadata };
        }
        self.burst.now += INTERVAL;
        self.outcome.clear();
    }

    #[inline]
    fn work(&mut self) {
        self.instance.prefetch(&self.burst.packets, Positions::first(BURST));
        self.instance.visit(&mut self.burst, Positions::first(BURST), &mut self.outcome);
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.pass(|_, _| {})
    }

    fn takes_long_to_prepare(&self) -> bool {
        self.packets.finish.is_some()
    }
}

/// What a packet costs, with the work or without, and the share of the time that was taken.
fn cycles(
    subject: &mut dyn Subject,
    (core, length): (usize, Duration),
    works: bool,
) -> Result<(Measured, f64), Failure> {
    let look = Look::now(core)?;
    let mut slices = Slices::of(length);
    let apart = subject.takes_long_to_prepare();
    let end = Instant::now() + length;
    // Once at least: others may have the core for all of a short trial.
    loop {
        let (mut spent, start) = (0, tsc::now());
        for _ in 0..BURSTS_AT_ONCE {
            subject.prepare();
            let start = if apart { tsc::now() } else { 0 };
            if works {
                subject.work();
            }
            if apart {
                spent += tsc::now().wrapping_sub(start);
            }
        }
        let all = tsc::now().wrapping_sub(start);
        slices.push(if apart { spent } else { all }, (BURSTS_AT_ONCE * BURST) as u64);
        if Instant::now() >= end {
            break;
        }
    }
    let between = look.since()?;
    let cost = slices.cost(between.disturbance()).ok_or("a trial without a packet")?;
    Ok((cost, taken(&between)))
}

impl Rig {
    /// What a function adds to a packet, in cycles, and how disturbed the trial was.
    ///
    /// # Errors
    /// When it goes wrong with a packet.
    pub fn cost_alone(
        &self,
        subject: &mut dyn Subject,
        length: Duration,
    ) -> Result<(Measured, f64), Failure> {
        subject.check()?;
        self.on_core(self.cores.system, || {
            let core = self.cores.system;
            cycles(subject, (core, length.mul_f64(WARM_UP)), true)?;
            let slow = self.probe.slowness();
            let (without, other) = cycles(subject, (core, length.mul_f64(0.5)), false)?;
            let (with, taken) = cycles(subject, (core, length), true)?;
            Ok((with - without, taken.max(other).max(slow).max(self.probe.slowness())))
        })
    }
}
