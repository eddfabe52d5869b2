//! A worker of a node that another process goes on with, and one of the node that goes on.

mod in_flight;
mod relayed;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weft_dpdk::Batch;

pub use self::in_flight::Uncarried;
pub use self::relayed::{Direct, END_OF_RELAYED, Relayed};
use super::{BURST, Worker};
use crate::command::attachment::Inlet;
use crate::counters::DropReason;

/// Bursts that a queue is emptied of before it is the turn of others: all that a queue of a
/// kernel interface holds.
const BURSTS_AT_ONCE: usize = 128;
/// How long functions in processes are waited for before it is asked whether to wait on.
const LATE: Duration = Duration::from_millis(100);

/// Received packets, by their octets: how many of each there were.
pub type Seen = HashMap<u64, u32>;

/// Packets that another process has carried, of which a port may deliver copies.
#[derive(Debug, Default)]
pub struct Copies {
    /// By the number of the port.
    ports: Mutex<HashMap<u16, Seen>>,
    are_delivered: AtomicBool,
    /// How many were left out.
    dropped: AtomicU64,
}

impl Copies {
    /// Of what the other process has received from each port.
    pub fn new(ports: HashMap<u16, Seen>) -> Copies {
        Copies { ports: Mutex::new(ports), ..Copies::default() }
    }

    /// Every copy has been delivered: workers look once more, and then carry all that comes.
    pub fn end(&self) {
        self.are_delivered.store(true, Ordering::Release);
    }

    /// How many were left out so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Drops the copies among packets of a port.
    fn take_out(&self, port: u16, packets: &mut Batch) {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(seen) = ports.get_mut(&port) else { return };
        let received = packets.len();
        packets.retain(|packet| match seen.get_mut(&digest(packet.data())) {
            Some(times) if *times > 0 => {
                *times -= 1;
                false
            }
            _ => true,
        });
        self.dropped.fetch_add((received - packets.len()) as u64, Ordering::Relaxed);
    }
}

/// A number for the octets of a received packet.
pub fn digest(octets: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(octets);
    hasher.finish()
}

impl Worker {
    /// Calls functions back from their threads, and carries what has been received: all queues
    /// are empty once there was nothing, and functions in processes have no packet. For each
    /// packet that came from a port `note` is told the port and a number for its octets. Returns
    /// whether there was anything.
    pub fn drain_received(&mut self, note: &mut dyn FnMut(u16, u64)) -> bool {
        while let Some(busy) = self.recall() {
            if !busy {
                thread::yield_now();
            }
        }
        let mut busy = self.apply_commands();
        busy |= self.waits_for_functions();
        if !self.take_all_back() {
            return true;
        }
        self.carry_all_waiting();
        for inlet in 0..self.inlets.len() {
            for _ in 0..BURSTS_AT_ONCE {
                // A burst finds room at every function then.
                if !self.take_all_back() {
                    return true;
                }
                if self.receive(inlet) == 0 {
                    break;
                }
                busy = true;
                let port = self.inlets[inlet].port;
                for packet in self.state.burst.packets.iter() {
                    note(port, digest(packet.data()));
                }
                self.carry_received(inlet);
                self.drive_away();
            }
        }
        busy |= self.take_over();
        busy |= self.drive_away();
        busy |= self.waits_for_functions();
        busy | self.departure.relay()
    }

    /// Sends what goes to functions elsewhere, and carries on what has come back.
    fn drive_away(&mut self) -> bool {
        if self.remote_queues.is_empty() {
            return false;
        }
        let busy = self.take_back();
        busy | self.drive_remotes()
    }

    /// The path to a function at another node is known to be there.
    pub fn begin_reachable(&mut self, function: &str) {
        let paths = self.service().into_iter().flat_map(|service| &mut service.remote_paths);
        paths.filter(|path| path.function == function).for_each(|path| path.endpoint.begin_up());
    }

    /// Waits for the packets that functions in processes have, and carries them on. False where
    /// one of them is late.
    fn take_all_back(&mut self) -> bool {
        let until = Instant::now() + LATE;
        while self.waits_for_functions() {
            if self.take_back() {
                continue;
            }
            if Instant::now() >= until {
                return false;
            }
            thread::yield_now();
        }
        true
    }

    /// Drops what its queues hold, which another process carries.
    pub fn discard_received(&mut self) {
        for inlet in &mut self.inlets {
            while inlet.queue.receive(&mut self.state.burst.packets, BURST) > 0 {
                self.state.burst.packets.clear();
            }
        }
    }

    /// Receives no packet that is among `copies`, until ports deliver none of them any more.
    pub fn leave_out(&mut self, copies: Arc<Copies>) {
        self.copies = Some(copies);
    }

    /// A round of all ports, without the packets that another process has carried.
    #[cold]
    pub(super) fn carry_without_copies(&mut self) -> bool {
        let Some(copies) = self.copies.take() else { return false };
        // What is delivered before this is looked at is in the queues, and seen below.
        let is_last = copies.are_delivered.load(Ordering::Acquire);
        let mut busy = false;
        for inlet in 0..self.inlets.len() {
            for _ in 0..BURSTS_AT_ONCE {
                let Inlet { port, queue, .. } = &mut self.inlets[inlet];
                let packets = &mut self.state.burst.packets;
                if queue.receive(packets, BURST) == 0 {
                    break;
                }
                busy = true;
                copies.take_out(*port, packets);
                let new = packets.len();
                if new > 0 {
                    self.note_received(inlet, new);
                    self.carry_received(inlet);
                }
            }
        }
        self.copies = (!is_last).then_some(copies);
        busy
    }

    /// Appends what a function exports of the context at `slot`, as `version` has it, once no
    /// packet comes any more; nothing where it has none.
    pub fn export_context(
        &mut self,
        (function, version): (u16, u16),
        slot: u32,
        out: &mut Vec<u8>,
    ) {
        let now = self.clock.now();
        if let Some(function) = self.element.functions_mut().get_mut(usize::from(function)) {
            function.instance.export_as(version, slot, now, out);
        }
    }

    /// The same without settings, which the context has at the other end as well, where the
    /// function writes that.
    pub fn export_state(&mut self, function: u16, slot: u32, out: &mut Vec<u8>) {
        let now = self.clock.now();
        if let Some(function) = self.element.functions_mut().get_mut(usize::from(function)) {
            function.instance.export_state(slot, now, out);
        }
    }

    /// Packets that wait for functions or for their bearers.
    pub fn waiting(&self) -> usize {
        self.queues.packets() + self.remote_queues.held()
    }

    /// Drops them, as another process or node carries the users from now on; returns how many
    /// that were.
    pub fn drop_waiting(&mut self) -> usize {
        // What is held stays where it is to the end: functions may have the rest of the queue.
        let dropped = self.remote_queues.held() + self.queues.clear();
        self.counters.dropped(DropReason::TakenOver, dropped);
        dropped
    }
}
