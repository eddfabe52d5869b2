//! The first packet of each of many users. Sender and receiver touch little memory for each, so
//! that they are no limit beside a node that touches all that it knows of the user.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use weft_dpdk::{Batch, Eal, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_wire::checksum;

use crate::Failure;
use crate::traffic::datagram::datagram;
use crate::traffic::offered::PEER;

/// Packets that a node has not sent on yet do not fill more than this share of a ring.
const SHARE: u16 = 2;
/// Buffers for each descriptor of a ring: more than there can be packets under way.
const BUFFERS: u32 = 4;
/// Time between two looks at how many have left.
const STEP: Duration = Duration::from_millis(1);
/// Packets that do not arrive for so long do not arrive any more.
const PATIENCE: Duration = Duration::from_secs(1);
/// Packets that are sent or received at once.
const BURST: usize = 32;
/// Octets of an Ethernet header.
const ETHERNET: usize = 14;
/// Where a frame has the checksum of its IPv4 header, and the source.
const CHECKSUM: usize = ETHERNET + 10;
const SOURCE: usize = ETHERNET + 12;
/// Where the datagram begins.
const DATAGRAM: usize = ETHERNET + 20;
/// Address of the first user; those of the others follow.
const FIRST: u32 = 0x0a00_0000;
/// The order of users is the same each time.
const SEED: u64 = 1;

/// When packets of users that had none before left.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The first of all.
    pub first: Instant,
    /// The first of the user that was last.
    pub all: Instant,
    /// How many had left at which times, [`STEP`] apart at least.
    progress: Vec<(Instant, u64)>,
    users: u64,
}

impl Passed {
    /// The share of users whose packet had left by then, a step more or less.
    pub fn share_by(&self, time: Instant) -> f64 {
        let at = self.progress.partition_point(|(at, _)| *at <= time);
        let left = at.checked_sub(1).map_or(0, |at| self.progress[at].1);
        left as f64 / self.users as f64
    }

    /// When the packet of this share of users had left, a step later at most.
    pub fn time_of(&self, share: f64) -> Instant {
        let wanted = self.users as f64 * share;
        let at = self.progress.iter().find(|(_, left)| *left as f64 >= wanted);
        at.map_or(self.all, |(at, _)| *at)
    }
}

/// One packet of each user, in random order.
#[derive(Debug)]
pub struct FirstPackets {
    /// The packet of the first user.
    frame: Vec<u8>,
    checksum: u16,
    /// Users whose packet is to come, the next one last.
    left: Vec<u32>,
    /// Users whose packet has left the node, a bit each.
    seen: Vec<u64>,
    received: u64,
    /// Packets of users that had one before, and others than were sent.
    wrong: u64,
    pool: Pool,
    descriptors: u16,
}

impl FirstPackets {
    /// Packets of the users 10.0.0.0 and on, so many, in frames of so many octets with their
    /// checksum; for ports with so many descriptors. `name` is that of their pool.
    ///
    /// # Errors
    /// When the machine has no room.
    pub fn of(
        eal: &Eal,
        name: &str,
        (users, frame_bytes): (u32, usize),
        descriptors: u16,
    ) -> Result<FirstPackets, Failure> {
        // The checksum is not in memory.
        let mut frame = vec![0; frame_bytes.saturating_sub(4).max(DATAGRAM)];
        frame[..ETHERNET].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        let addresses = [Ipv4Addr::from_bits(FIRST), PEER.into()];
        datagram(&mut frame[ETHERNET..], addresses, [1024, 9])?;
        let checksum = u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]);
        let mut left: Vec<_> = (0..users).collect();
        Rng::with_seed(SEED).shuffle(&mut left);
        Ok(FirstPackets {
            frame,
            checksum,
            left,
            seen: vec![0; users.div_ceil(u64::BITS) as usize],
            received: 0,
            wrong: 0,
            pool: Pool::new(eal, name, BUFFERS * u32::from(descriptors) - 1)?,
            descriptors,
        })
    }

    /// Lets them pass a node that receives at the device `from` and sends to `to`.
    ///
    /// # Errors
    /// When a user's packet does not leave, leaves twice or is another.
    pub fn pass(mut self, eal: &Eal, from: &str, to: &str) -> Result<Passed, Failure> {
        let options = PortOptions { descriptors: self.descriptors, ..PortOptions::default() };
        let from = Port::open(eal, from, &options, &self.pool)?;
        let to = Port::open(eal, to, &options, &self.pool)?;
        let queues = from.take_tx(0).zip(to.take_rx(0));
        let (mut tx, mut rx) = queues.ok_or("a device without queues")?;
        let users = self.left.len() as u64;
        let passed = self.exchange(&mut tx, &mut rx);
        let (received, wrong) = (self.received, self.wrong);
        if received < users || wrong > 0 {
            let of =
                format!("packets of {received} of {users} users have left, and {wrong} others");
            return Err(of.into());
        }
        passed.ok_or_else(|| "there are no users".into())
    }

    fn exchange(&mut self, tx: &mut TxQueue, rx: &mut RxQueue) -> Option<Passed> {
        let (users, window) = (self.left.len(), u64::from(self.descriptors / SHARE));
        let mut batch = Batch::new();
        let mut passed: Option<Passed> = None;
        let begun = Instant::now();
        while self.received < users as u64 {
            let sent = (users - self.left.len()) as u64;
            if !self.left.is_empty() && sent.saturating_sub(self.received) < window {
                self.send(tx, &mut batch);
            }
            let before = self.received;
            self.receive(rx, &mut batch);
            if self.received > before {
                let now = Instant::now();
                let (progress, users) = (Vec::new(), users as u64);
                let passed = passed.get_or_insert(Passed { first: now, all: now, progress, users });
                passed.all = now;
                let last = passed.progress.last();
                if self.received == users || last.is_none_or(|(at, _)| now - *at >= STEP) {
                    passed.progress.push((now, self.received));
                }
                continue;
            }
            if passed.as_ref().map_or(begun, |passed| passed.all).elapsed() > PATIENCE {
                break;
            }
            // On a machine with few cores the node waits for this one.
            thread::yield_now();
        }
        passed
    }

    fn send(&mut self, tx: &mut TxQueue, batch: &mut Batch) {
        let count = self.left.len().min(BURST);
        if !self.pool.allocate_bulk(batch, count) {
            return;
        }
        for (packet, user) in batch.iter_mut().zip(self.left.iter().rev()) {
            // A buffer of a pool has room for every packet.
            let Some(frame) = packet.append(self.frame.len()) else { continue };
            frame.copy_from_slice(&self.frame);
            let source = FIRST + user;
            let checksum = checksum::update32(self.checksum, FIRST, source);
            frame[CHECKSUM..SOURCE].copy_from_slice(&checksum.to_be_bytes());
            frame[SOURCE..SOURCE + 4].copy_from_slice(&source.to_be_bytes());
        }
        let sent = tx.transmit(batch);
        batch.clear();
        self.left.truncate(self.left.len() - sent);
    }

    fn receive(&mut self, rx: &mut RxQueue, batch: &mut Batch) {
        rx.receive(batch, BURST);
        batch.iter().for_each(|packet| packet.prefetch());
        for packet in batch.iter() {
            match self.user_of(packet.data()) {
                Some((word, bit)) if self.seen[word] & bit == 0 => {
                    self.seen[word] |= bit;
                    self.received += 1;
                }
                _ => self.wrong += 1,
            }
        }
        batch.clear();
    }

    /// Where it is noted that a user's packet has left, if it is one.
    fn user_of(&self, frame: &[u8]) -> Option<(usize, u64)> {
        let is_same = frame.get(DATAGRAM..)? == &self.frame[DATAGRAM..];
        let header = frame[ETHERNET..].first_chunk()?;
        let source = frame[SOURCE..].first_chunk()?;
        let user = u32::from_be_bytes(*source).checked_sub(FIRST)?;
        let word = (user / u64::BITS) as usize;
        let is_whole = is_same && checksum::sum20(header) == u16::MAX && word < self.seen.len();
        is_whole.then_some((word, 1 << (user % u64::BITS)))
    }
}
