//! Those behind the nodes: a host that sends and receives, and the users, who return
//! each packet by the station that it came from (Pinczel et al., §V).

use std::time::Instant;

use weft_dpdk::{Batch, Packet, Pool, tsc};
use weft_wire::{EtherType, MacAddress, ethernet, ipv4, udp};

use super::SILENCE;
use super::journal::{Arrived, Faults, Journal, Passage};
use super::network::Far;
use super::nodes::FIRST_ADDRESS;
use crate::traffic::datagram::datagram;

/// Packets that are sent or received at once.
const BURST: usize = 32;
/// The host's address.
const HOST: [u8; 4] = [198, 51, 100, 1];
/// A packet ends with the number of its user and its own, in network byte order, so
/// they are found whatever became of the headers.
const TAIL: usize = 8;

/// A packet that waits to be sent, for each user and direction.
struct Frames {
    octets: Vec<u8>,
    length: usize,
}

impl Frames {
    /// UDP packets of so many octets, from or to the users.
    fn new(users: u32, length: usize, from_user: bool) -> Result<Frames, weft_wire::Error> {
        let mut octets = Vec::with_capacity(users as usize * length);
        for user in 0..users {
            let address = u32::from_be_bytes(FIRST_ADDRESS) + user;
            let ends = [HOST, address.to_be_bytes()];
            let (source, destination) =
                if from_user { (ends[1], ends[0]) } else { (ends[0], ends[1]) };
            octets.extend(frame(source, destination, length)?);
        }
        Ok(Frames { octets, length })
    }

    fn of(&self, user: u32) -> &[u8] {
        &self.octets[user as usize * self.length..][..self.length]
    }
}

fn frame(
    source: [u8; 4],
    destination: [u8; 4],
    length: usize,
) -> Result<Vec<u8>, weft_wire::Error> {
    const HEADERS: usize = ethernet::HEADER_LENGTH + ipv4::MIN_HEADER_LENGTH + udp::HEADER_LENGTH;
    let mut frame = vec![0; length.max(HEADERS + TAIL)];
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 0xee]),
        source: MacAddress([2, 0, 0, 0, 0, 0xaa]),
        ether_type: EtherType::IPV4,
    };
    link.emit(&mut frame)?;
    // Without a checksum, as the payload differs from packet to packet.
    let ends = [source.into(), destination.into()];
    datagram(&mut frame[ethernet::HEADER_LENGTH..], ends, [1000, 2000])?;
    Ok(frame)
}

/// What a trial sends, and when.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// When it begins, in cycles.
    start: u64,
    /// Cycles between two packets.
    gap: f64,
    sent: u64,
}

/// Host and users.
pub struct Ends {
    pool: Pool,
    host: Far,
    /// The radios of both stations.
    radios: [Far; 2],
    down: Frames,
    up: Frames,
    users: u32,
    /// The station that packets came from last: 0 or 1.
    station: usize,
    pace: Option<Pace>,
    /// How many packets the host may be late with, by the clock; further ones are due later.
    pub most_late: u64,
    /// Packets that no buffer was there for.
    pub unsent: u64,
    pub(super) journal: Journal,
}

impl Ends {
    /// Host and so many users with packets of so many octets, at the far ends of the
    /// nodes' ports.
    ///
    /// # Errors
    /// When packets cannot be as short or as long.
    pub fn new(
        pool: Pool,
        host: Far,
        radios: [Far; 2],
        users: u32,
        length: usize,
    ) -> Result<Ends, weft_wire::Error> {
        let (down, up) = (Frames::new(users, length, false)?, Frames::new(users, length, true)?);
        Ok(Ends {
            pool,
            host,
            radios,
            down,
            up,
            users,
            station: 0,
            pace: None,
            most_late: u64::MAX,
            unsent: 0,
            journal: Journal::new(users, 0),
        })
    }

    /// Sends so many packets a second from now on, of all users in turn, on a new page of
    /// the journal with room for so many.
    pub fn start(&mut self, rate: f64, room: usize) {
        self.journal = Journal::new(self.users, room);
        self.unsent = 0;
        self.pace = Some(Pace { start: tsc::now(), gap: tsc::hz() as f64 / rate, sent: 0 });
    }

    /// Sends no more.
    pub fn stop(&mut self) {
        self.pace = None;
    }

    /// Sends no more, and goes on until all packets are back, or nothing has come for a while.
    pub fn finish(&mut self) {
        self.stop();
        let (mut since, mut faults) = (Instant::now(), self.journal.faults());
        while !self.journal.is_whole() && since.elapsed() < SILENCE {
            self.turn();
            let now = self.journal.faults();
            if now != faults {
                (since, faults) = (Instant::now(), now);
            }
        }
    }

    /// What should not have happened. What has not come by now counts as lost.
    pub fn faults(&self) -> Faults {
        self.journal.faults()
    }

    /// The packets since [`Ends::start`], in the order in which they were sent.
    pub fn packets(&self) -> &[Passage] {
        self.journal.packets()
    }

    /// Sends what is due, returns what has come to users and takes what has come to the
    /// host.
    pub fn turn(&mut self) {
        self.send();
        self.return_all();
        let mut batch = Batch::new();
        self.host.rx.receive(&mut batch, BURST);
        let now = tsc::now();
        for packet in batch.drain() {
            if let Some((user, number)) = tail(packet.data()) {
                self.journal.arrive(Arrived::Host, user, number, now);
            }
        }
    }

    fn send(&mut self) {
        let Some(pace) = &mut self.pace else { return };
        let now = tsc::now();
        let mut due = ((now - pace.start) as f64 / pace.gap) as u64;
        let beyond = due.saturating_sub(pace.sent).saturating_sub(self.most_late);
        if beyond > 0 {
            pace.start += (beyond as f64 * pace.gap) as u64;
            due -= beyond;
        }
        let count = due.saturating_sub(pace.sent).min(BURST as u64);
        if count == 0 {
            return;
        }
        let mut batch = Batch::new();
        for _ in 0..count {
            let user = (pace.sent % u64::from(self.users)) as u32;
            pace.sent += 1;
            let Some(mut packet) = self.pool.packet(self.down.of(user)) else {
                self.unsent += 1;
                continue;
            };
            write_tail(&mut packet, user, self.journal.send(user, now));
            // A burst fits.
            let _ = batch.push(packet);
        }
        self.host.tx.transmit(&mut batch);
    }

    /// Users return what has come. Where packets come from another station than before, those of
    /// the station before have been sent earlier, and are returned first.
    fn return_all(&mut self) {
        self.drain(self.station);
        let other = 1 - self.station;
        let mut batch = Batch::new();
        if self.radios[other].rx.receive(&mut batch, BURST) > 0 {
            self.drain(self.station);
            self.reflect(other, batch);
            self.station = other;
        }
    }

    /// Users return all that has come from a station.
    pub fn drain(&mut self, station: usize) {
        let mut batch = Batch::new();
        while self.radios[station].rx.receive(&mut batch, BURST) > 0 {
            self.reflect(station, std::mem::take(&mut batch));
        }
    }

    /// Users return what has come from a station.
    fn reflect(&mut self, station: usize, mut batch: Batch) {
        let (mut back, now) = (Batch::new(), tsc::now());
        for mut packet in batch.drain() {
            let Some((user, number)) = tail(packet.data()) else { continue };
            if !self.journal.arrive(Arrived::User(station as u8), user, number, now) {
                continue;
            }
            let frame = self.up.of(user);
            packet.truncate(0);
            let Some(octets) = packet.append(frame.len()) else { continue };
            octets.copy_from_slice(frame);
            write_tail(&mut packet, user, number);
            // As many as came fit.
            let _ = back.push(packet);
        }
        self.radios[station].tx.transmit(&mut back);
    }
}

/// Number of the user, and of the packet; none of a frame of the kernel's own, which sends some
/// by every interface.
fn tail(frame: &[u8]) -> Option<(u32, u32)> {
    let ether_type = ethernet::Frame::new_checked(frame).ok()?.ether_type();
    if [EtherType::ARP, EtherType::IPV6].contains(&ether_type) {
        return None;
    }
    let (_, tail) = frame.split_last_chunk::<TAIL>()?;
    let [a, b, c, d, e, f, g, h] = *tail;
    Some((u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])))
}

fn write_tail(packet: &mut Packet, user: u32, number: u32) {
    if let Some((_, tail)) = packet.data_mut().split_last_chunk_mut::<TAIL>() {
        tail[..4].copy_from_slice(&user.to_be_bytes());
        tail[4..].copy_from_slice(&number.to_be_bytes());
    }
}
