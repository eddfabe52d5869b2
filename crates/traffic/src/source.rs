//! Sends what a load describes.

use weft_dpdk::{Batch, Pool, TxQueue, tsc};

use crate::random::Random;
use crate::source::captured::Captured;
use crate::source::link::link_bits;
use crate::source::load::{CapturedShare, Load, Rate, Share};
use crate::source::pace::Pace;
use crate::source::pacing::Pacing;
use crate::source::selection::{Choice, Selection};
use crate::stamp::Stamp;
use crate::template::prototype::Prototype;
use crate::template::{Template, TemplateError};

pub(crate) mod captured;
pub(crate) mod link;
pub(crate) mod load;
pub(crate) mod pace;
pub(crate) mod pacing;
pub(crate) mod selection;

/// Packets that are sent at once.
const BURST: usize = 32;

/// What became of the packets that were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The port took them.
    pub sent: u64,
    /// The port did not take them.
    pub refused: u64,
    /// The pool had no buffers for them.
    pub no_buffer: u64,
    /// The source was held up until it was too late for them, or ended before it
    /// had sent them.
    pub late: u64,
}

impl Tally {
    /// Packets that were due and never left.
    pub fn unsent(&self) -> u64 {
        self.refused + self.no_buffer + self.late
    }

    /// Packets that were due.
    pub fn offered(&self) -> u64 {
        self.sent + self.unsent()
    }
}

/// What was sent of one stream.
#[derive(Debug)]
pub struct Sending {
    /// Number of the stream.
    pub stream: u16,
    /// Packets sent so far.
    pub sent: u64,
    /// Packets sent so far, by flow: of these follows the next sequence number.
    pub flows: Vec<u64>,
    /// Of the packets sent so far, those of a capture that have no stamp.
    pub unstamped: u64,
    packets: Packets,
}

/// Where the packets of a stream come from.
#[derive(Debug)]
enum Packets {
    Made { prototype: Box<Prototype>, choice: Choice },
    Captured { packets: Captured, next: u32 },
}

/// Sends packets in an open loop: what cannot leave when it is due does not wait
/// for better times.
#[derive(Debug)]
pub struct Source {
    streams: Vec<Sending>,
    /// Which stream the next packet is of.
    shares: Choice,
    pace: Pace,
    pacing: Pacing,
    random: Random,
    tally: Tally,
    batch: Batch,
}

/// A packet that is due.
#[derive(Clone, Copy, Default)]
struct Draw {
    stream: u32,
    /// Of those made: the number of the length. Of those captured: that of the packet.
    kind: u32,
    /// In bytes.
    length: u32,
    due: f64,
}

impl Source {
    /// A source of one stream with `rate` packets per second, a constant gap
    /// between them, for as many flows as there are weights. Of the packets a
    /// flow has a share that is proportional to its weight, evenly spread. The
    /// environment must have been started.
    ///
    /// # Errors
    /// What is wrong with the template or the weights.
    pub fn new(template: &Template, weights: &[u32], rate: u64) -> Result<Source, TemplateError> {
        let users = weights.len() as u32 / u32::from(template.bearers.max(1));
        let mut load = Load::constant(template.clone(), users, Rate::Packets(rate as f64));
        load.shares[0].selection = Selection::Weighted(weights.to_vec());
        Source::of(&load)
    }

    /// A source of a load. The environment must have been started.
    ///
    /// # Errors
    /// What is wrong with the templates, the selections or the weights.
    pub fn of(load: &Load) -> Result<Source, TemplateError> {
        let mut random = Random::new(load.seed);
        let streams = load.shares.iter().map(|share| Sending::new(share, &mut random));
        let mut streams: Vec<Sending> = streams.collect::<Result<_, _>>()?;
        streams.extend(load.captured.iter().map(Sending::captured));
        let captured = load.captured.iter().map(|share| share.weight);
        let weights = load.shares.iter().map(|share| share.weight).chain(captured);
        let weights: Vec<u32> = weights.collect();
        let shares = Selection::Weighted(weights.clone());
        let shares = Choice::new(&shares, streams.len() as u32, &mut random);
        let shares = shares.ok_or(TemplateError::Silent)?;
        let gaps = Random::new(load.seed.wrapping_add(1));
        let bits = mean_bits(&streams, &weights);
        Ok(Source {
            streams,
            shares,
            pace: Pace::new(load.rate, load.arrivals, bits, tsc::hz(), gaps),
            pacing: Pacing::new(tsc::hz()),
            random,
            tally: Tally::default(),
            batch: Batch::new(),
        })
    }

    /// Sends what is due, at most one burst; returns how many packets left. The
    /// clock starts with the first call.
    #[inline]
    pub fn send(&mut self, tx: &mut TxQueue, pool: &Pool) -> usize {
        let now = tsc::now();
        let moment = self.pace.moment(now);
        if !self.pace.is_due(moment) {
            return 0;
        }
        let late = self.pace.give_up(moment);
        if late > 0 {
            self.tally.late += late;
            self.pacing.interrupt();
        }
        let mut draws = [Draw::default(); BURST];
        let count = self.draw(moment, &mut draws);
        if !pool.allocate_bulk(&mut self.batch, count) {
            self.tally.no_buffer += count as u64;
            self.pacing.interrupt();
            return 0;
        }
        self.write(now, &draws);
        let sent = tx.transmit(&mut self.batch);
        self.tally.sent += sent as u64;
        self.note(moment, &draws[..sent]);
        if sent < count {
            self.take_back(&draws[sent..count]);
        }
        sent
    }

    /// Ends the sending for good: what is due by now and was not sent counts as
    /// late.
    pub fn finish(&mut self) {
        let moment = self.pace.moment(tsc::now());
        self.tally.late += self.pace.stop(moment);
    }

    /// What became of the packets so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The streams, in the order of the load.
    pub fn streams(&self) -> &[Sending] {
        &self.streams
    }

    /// How well the set gaps were kept. There are none where the rate is
    /// unlimited.
    pub fn pacing(&self) -> &Pacing {
        &self.pacing
    }

    /// Draws the packets that are due; returns how many there are.
    #[inline]
    fn draw(&mut self, moment: f64, draws: &mut [Draw; BURST]) -> usize {
        let mut count = 0;
        for draw in draws {
            if !self.pace.is_due(moment) {
                break;
            }
            draw.stream = self.shares.turn(&mut self.random);
            let packets = &mut self.streams[draw.stream as usize].packets;
            (draw.kind, draw.length) = packets.turn(&mut self.random);
            draw.due = self.pace.pass(draw.length as usize);
            count += 1;
        }
        count
    }

    /// Writes the packets of the batch, which are empty.
    #[inline]
    fn write(&mut self, now: u64, draws: &[Draw; BURST]) {
        for (packet, draw) in self.batch.iter_mut().zip(draws) {
            let stream = &mut self.streams[draw.stream as usize];
            // A buffer of a pool has room for every packet.
            if let Some(frame) = packet.append(draw.length as usize) {
                stream.write(frame, draw.kind, now, &mut self.random);
            }
        }
    }

    /// Notes the gaps before packets that left.
    #[inline]
    fn note(&mut self, moment: f64, sent: &[Draw]) {
        if self.pace.is_limited() {
            sent.iter().for_each(|draw| self.pacing.note(moment, draw.due));
        }
    }

    /// Drops what the port did not take. A sequence number that was not sent is
    /// free again, so that a gap at the receiver is always a loss.
    #[cold]
    fn take_back(&mut self, refused: &[Draw]) {
        self.tally.refused += refused.len() as u64;
        self.pacing.interrupt();
        for (packet, draw) in self.batch.iter().zip(refused) {
            self.streams[draw.stream as usize].take_back(packet.data(), draw.kind);
        }
        self.batch.clear();
    }
}

impl Sending {
    fn new(share: &Share, random: &mut Random) -> Result<Sending, TemplateError> {
        let flows = share.template.flows(share.users)?;
        let prototype = Box::new(Prototype::new(&share.template)?);
        let choice = Choice::new(&share.selection, flows, random).ok_or(TemplateError::Silent)?;
        let packets = Packets::Made { prototype, choice };
        Ok(Sending::of(share.template.stream, flows as usize, packets))
    }

    fn captured(share: &CapturedShare) -> Sending {
        let packets = Packets::Captured { packets: share.packets.clone(), next: 0 };
        Sending::of(share.stream, share.packets.flows().len(), packets)
    }

    fn of(stream: u16, flows: usize, packets: Packets) -> Sending {
        Sending { stream, sent: 0, flows: vec![0; flows], unstamped: 0, packets }
    }

    /// Writes a packet that leaves at cycle `now`.
    #[inline]
    fn write(&mut self, frame: &mut [u8], kind: u32, now: u64, random: &mut Random) {
        self.sent += 1;
        let mut stamp = Stamp { stream: self.stream, sent: now, ..Stamp::default() };
        let mut count = |flow: u32| {
            let sent = &mut self.flows[flow as usize];
            (stamp.flow, stamp.sequence) = (flow, *sent as u32);
            *sent += 1;
        };
        match &mut self.packets {
            Packets::Made { prototype, choice } => {
                count(choice.turn(random));
                prototype.write(frame, kind as u16, &stamp);
            }
            Packets::Captured { packets, .. } => {
                match packets.flow(kind) {
                    Some(flow) => count(flow),
                    None => self.unstamped += 1,
                }
                packets.write(frame, kind, &stamp);
            }
        }
    }

    /// Forgets a packet that was written and did not leave.
    fn take_back(&mut self, frame: &[u8], kind: u32) {
        self.sent -= 1;
        let flow = match &self.packets {
            Packets::Made { prototype, .. } => prototype.stamp_of(frame).map(|stamp| stamp.flow),
            Packets::Captured { packets, .. } => packets.flow(kind),
        };
        match flow {
            Some(flow) => self.flows[flow as usize] -= 1,
            None => self.unstamped -= 1,
        }
    }
}

impl Packets {
    /// Which packet is next, and how many bytes it has.
    #[inline]
    fn turn(&mut self, random: &mut Random) -> (u32, u32) {
        match self {
            Packets::Made { prototype, .. } => {
                let length = prototype.lengths.turn(random);
                (length.into(), prototype.lengths.all[usize::from(length)] as u32)
            }
            Packets::Captured { packets, next } => {
                let packet = *next;
                *next = packets.after(packet);
                (packet, packets.length(packet) as u32)
            }
        }
    }

    /// Bits that a packet takes on a link, the mean of all.
    fn mean_bits(&self) -> f64 {
        match self {
            Packets::Made { prototype, .. } => prototype.lengths.mean(link_bits),
            Packets::Captured { packets, .. } => packets.mean_bits(),
        }
    }
}

/// Bits that a packet takes on a link, the mean of all streams.
fn mean_bits(streams: &[Sending], weights: &[u32]) -> f64 {
    let weighted = streams
        .iter()
        .zip(weights)
        .map(|(stream, weight)| stream.packets.mean_bits() * f64::from(*weight));
    weighted.sum::<f64>() / weights.iter().map(|weight| f64::from(*weight)).sum::<f64>()
}
