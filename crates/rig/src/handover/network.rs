//! The network between the nodes: what leaves one comes to the one it is addressed to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_dpdk::{Batch, Eal, Pool, Port, PortOptions, RxQueue, TxQueue, tsc};

use super::nodes::ADDRESSES;
use crate::Failure;

/// Packets that are taken from a node at once.
const BURST: usize = 32;
/// Where the last octet of the destination, the type of a GTP-U message and its TEID
/// stand in a frame without options or tags (RFC 791, TS 29.281 §5.1).
const DESTINATION: usize = 33;
const MESSAGE_TYPE: usize = 43;
const TEID: usize = 46;
const G_PDU: u8 = 255;
/// TEIDs of tunnels from station to station, and no others, are as high.
const FORWARDED: u32 = 2 << 30;

/// What another thread may know of the network.
#[derive(Debug, Default)]
pub struct Seen {
    /// Packets that one station has forwarded to the other.
    forwarded: AtomicU64,
    /// When the last of them was there, in cycles.
    last: AtomicU64,
    /// Frames to no user.
    astray: AtomicU64,
}

impl Seen {
    /// Packets that one station has forwarded to the other.
    pub fn forwarded(&self) -> u64 {
        self.forwarded.load(Ordering::Acquire)
    }

    /// When the last of them was there, in cycles.
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Frames to no user.
    pub fn astray(&self) -> u64 {
        self.astray.load(Ordering::Acquire)
    }
}

/// The far end of a port.
pub struct Far {
    pub(super) rx: RxQueue,
    pub(super) tx: TxQueue,
    /// It closes with the last of port and queues.
    _port: Port,
}

impl Far {
    /// Opens a device whose queues hold so many packets; those it receives lie in `pool`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(
        eal: &'static Eal,
        device: &str,
        descriptors: u16,
        pool: &Pool,
    ) -> Result<Far, Failure> {
        let options = PortOptions { descriptors, ..PortOptions::default() };
        let port = Port::open(eal, device, &options, pool)?;
        let queues = port.take_rx(0).zip(port.take_tx(0));
        let (rx, tx) = queues.ok_or("a device without queues")?;
        Ok(Far { rx, tx, _port: port })
    }
}

/// A switch between the nodes.
pub struct Network {
    ends: [Far; 3],
    going: [Batch; 3],
    pub seen: Arc<Seen>,
}

impl Network {
    /// A switch at the far ends of the nodes' ports.
    pub fn new(ends: [Far; 3]) -> Network {
        let going = std::array::from_fn(|_| Batch::new());
        Network { ends, going, seen: Arc::default() }
    }

    /// Carries what has left the nodes; whether there was anything.
    pub fn carry(&mut self) -> bool {
        let mut busy = false;
        let mut batch = Batch::new();
        for from in 0..self.ends.len() {
            if self.ends[from].rx.receive(&mut batch, BURST) == 0 {
                continue;
            }
            busy = true;
            for packet in batch.drain() {
                let Some(to) = self.look(packet.data()) else { continue };
                // There is room: what goes leaves before more is received.
                let _ = self.going[to].push(packet);
            }
            for (end, going) in self.ends.iter_mut().zip(&mut self.going) {
                if !going.is_empty() {
                    end.tx.transmit(going);
                }
            }
        }
        busy
    }

    /// The node that a frame is for.
    fn look(&self, frame: &[u8]) -> Option<usize> {
        let octet = frame.get(DESTINATION);
        let to = ADDRESSES.iter().position(|address| octet == Some(&address[3]));
        if to.is_none() {
            self.seen.astray.fetch_add(1, Ordering::Release);
        }
        let teid = frame.get(TEID..TEID + 4).and_then(|octets| octets.try_into().ok());
        let teid = teid.map_or(0, u32::from_be_bytes);
        if frame.get(MESSAGE_TYPE) == Some(&G_PDU) && teid >= FORWARDED {
            self.seen.last.store(tsc::now(), Ordering::Release);
            self.seen.forwarded.fetch_add(1, Ordering::Release);
        }
        to
    }
}
