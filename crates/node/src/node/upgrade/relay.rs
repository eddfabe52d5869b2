//! Packets that come to a node whose addresses another node has now: they go on to that one, out of
//! the port by which they came, until nothing comes any more.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_dataplane::worker::{BURST, END_OF_RELAYED};
use weft_dpdk::{Batch, Eal, Pool, RxQueue, TxQueue};

/// What comes within that time behind the announcement of the other node was under way before it:
/// then the other node hears that nothing comes any more.
const UNDER_WAY: Duration = Duration::from_millis(3);
/// After so long without a packet none is expected any more.
const QUIET: Duration = Duration::from_secs(2);
/// It ends then, whatever comes: neighbours have asked for the addresses again.
const LONGEST: Duration = Duration::from_secs(60);
/// Pause when there was nothing to do.
const PAUSE: Duration = Duration::from_micros(50);
/// How long the device may take nothing.
const STUCK: Duration = Duration::from_millis(100);
/// Octets of a frame without content (IEEE Std 802.3, 3.2.8, without the check sequence).
const SHORTEST: usize = 60;

/// A port of the node before.
pub(super) struct RelayedPort {
    /// Its MAC address, and that of the other node's port.
    own: [u8; 6],
    to: [u8; 6],
    /// Where packets come in.
    pub queues: Vec<RxQueue>,
    /// Where they go on.
    pub outlet: Option<TxQueue>,
    /// Since when the other node has said that the addresses are there.
    announced: Option<Instant>,
    /// Whether it was told that nothing comes any more.
    is_ended: bool,
    /// Packets that the device did not take.
    lost: usize,
}

impl RelayedPort {
    /// Without queues. One without addresses is never announced.
    pub fn new(own: [u8; 6], to: [u8; 6], has_addresses: bool) -> RelayedPort {
        let is_ended = !has_addresses;
        let (queues, outlet, announced) = (Vec::new(), None, None);
        RelayedPort { own, to, queues, outlet, announced, is_ended, lost: 0 }
    }

    /// Sends on what has come; how many packets.
    fn relay(&mut self, now: Instant) -> usize {
        let RelayedPort { own, to, queues, outlet, announced, lost, .. } = self;
        let (mut batch, mut count) = (Batch::new(), 0);
        for queue in queues {
            while queue.receive(&mut batch, BURST) > 0 {
                let mut is_announced = false;
                batch.retain(|packet| match addressed(packet.data(), *to) {
                    Addressed::Node => true,
                    Addressed::Others => false,
                    Addressed::Announcement => {
                        is_announced = true;
                        false
                    }
                });
                if is_announced {
                    announced.get_or_insert(now);
                }
                for packet in batch.iter_mut() {
                    let frame = packet.data_mut();
                    frame[..6].copy_from_slice(to);
                    frame[6..12].copy_from_slice(own);
                }
                count += batch.len();
                *lost += send(outlet.as_mut(), &mut batch);
            }
        }
        count
    }

    /// Tells the other node that nothing comes any more.
    fn end(&mut self, pool: &Pool) {
        let Some(mut packet) = pool.allocate() else { return };
        let Some(frame) = packet.append(SHORTEST) else { return };
        frame.fill(0);
        frame[..6].copy_from_slice(&self.to);
        frame[6..12].copy_from_slice(&self.own);
        frame[12..14].copy_from_slice(&END_OF_RELAYED.to_be_bytes());
        let mut batch = Batch::new();
        // It is empty.
        drop(batch.push(packet));
        self.lost += send(self.outlet.as_mut(), &mut batch);
        self.is_ended = true;
    }
}

/// Whom a frame is for.
enum Addressed {
    /// This node.
    Node,
    /// All, or a group.
    Others,
    /// All, and the other node has sent it.
    Announcement,
}

fn addressed(frame: &[u8], other: [u8; 6]) -> Addressed {
    match frame {
        [first, ..] if frame.len() >= 14 && first & 1 == 0 => Addressed::Node,
        _ if frame.get(6..12) == Some(&other) => Addressed::Announcement,
        _ => Addressed::Others,
    }
}

/// Sends packets; how many the device did not take.
fn send(outlet: Option<&mut TxQueue>, batch: &mut Batch) -> usize {
    if let Some(outlet) = outlet {
        let until = Instant::now() + STUCK;
        while !batch.is_empty() && Instant::now() < until {
            if outlet.transmit(batch) == 0 {
                thread::yield_now();
            }
        }
    }
    let lost = batch.len();
    batch.clear();
    lost
}

/// All ports.
pub(super) struct Relay {
    /// By number.
    pub ports: Vec<RelayedPort>,
    /// Where frames of its own come from.
    pub pool: Pool,
}

impl Relay {
    /// Relays in a thread of its own.
    ///
    /// # Errors
    /// The machine has none.
    pub fn start(mut self, eal: &'static Eal) -> io::Result<JoinHandle<()>> {
        let run = move || {
            let _registration = eal.register_thread();
            let (packets, ends) = self.run();
            let lost: usize = self.ports.iter().map(|port| port.lost).sum();
            tracing::info!(packets, lost, ends, "packets for addresses that another node has now");
        };
        thread::Builder::new().name("relay".to_owned()).spawn(run)
    }

    fn run(&mut self) -> (usize, usize) {
        let since = Instant::now();
        let (mut last, mut total) = (since, 0);
        loop {
            let now = Instant::now();
            let mut count = 0;
            for port in &mut self.ports {
                let came = port.relay(now);
                count += came;
                let is_over = |since: Instant| now.duration_since(since) >= UNDER_WAY;
                if came == 0 && !port.is_ended && port.announced.is_some_and(is_over) {
                    port.end(&self.pool);
                }
            }
            total += count;
            if count > 0 {
                last = now;
            } else {
                thread::sleep(PAUSE);
            }
            if now.duration_since(last) >= QUIET || now.duration_since(since) >= LONGEST {
                return (total, self.ports.iter().filter(|port| port.is_ended).count());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_for_the_node_go_on() {
        let other = [2, 0, 0, 0, 0, 9];
        let frame = |to: [u8; 6], from: [u8; 6]| [&to[..], &from, &[8, 0]].concat();
        let (own, peer, all) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 5], [255; 6]);
        assert!(matches!(addressed(&frame(own, peer), other), Addressed::Node));
        assert!(matches!(addressed(&frame(all, peer), other), Addressed::Others));
        assert!(matches!(addressed(&frame(all, other), other), Addressed::Announcement));
        for length in 0..14 {
            let short = addressed(&frame(own, peer)[..length], other);
            assert!(!matches!(short, Addressed::Node), "{length}");
        }
    }
}
