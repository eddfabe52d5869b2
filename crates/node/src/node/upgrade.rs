//! The old process: gives the node to another one, or goes on.

mod closing;
mod elsewhere;
mod received;
mod relay;

pub use self::elsewhere::GivenShare;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use weft_dataplane::worker::Worker;
use weft_dpdk::{Eal, Holder, Ingress, await_delivery};
use weft_function::Scope;

use self::received::Received;
use super::Running;
use super::conversation::{Conversation, Kind, OF_NEW, PortTransfer, UpgradeError};
use crate::agent::{Agent, Lease, Offer, Piece, Prepared, Stopped, position};
use crate::bearer::session::Keep;
use crate::ports::Ports;

/// How long the new process may take to build its node: a million bearers take some seconds.
const PREPARING: Duration = Duration::from_secs(120);
/// How long it may take for an answer once packets wait.
const STOPPED: Duration = Duration::from_secs(5);
/// How long what has been received may take to be carried.
const DRAINING: Duration = Duration::from_secs(2);
/// How long changes that were made already may take until packets see them.
const REST: Duration = Duration::from_secs(2);
/// Octets of contexts that go at once.
const PIECE: usize = 256 << 10;
/// Pause between two looks for packets that come back from other nodes.
const RETURNING: Duration = Duration::from_micros(20);
/// Pieces of contexts that are read ahead.
const AHEAD: usize = 2;
/// A packet that is on its way through the kernel has come to its socket after so long.
const IN_KERNEL: Duration = Duration::from_micros(100);

/// A port of the node whose interface the new process may have open, too.
struct SharedPort {
    number: u16,
    name: String,
    ingress: Ingress,
}

/// A node that another process has.
#[derive(Debug)]
pub struct HandedOver {
    /// For how long packets waited.
    pub waited: Duration,
    /// Packets that waited for idle bearers or functions, and were dropped and counted.
    pub dropped: usize,
    /// Number of that process.
    pub process: u32,
    /// How its ports went over.
    pub transfer: PortTransfer,
    /// For how long no process had them open, where they went over [in turn](PortTransfer::InTurn).
    pub closed: Option<Duration>,
    /// That process waits for its end to open its ports, if it has not.
    conversation: Conversation,
}

/// What has come of it, as above.
struct Handover {
    waited: Duration,
    dropped: usize,
    process: u32,
    transfer: PortTransfer,
    closed: Option<Duration>,
}

/// What speaks for the node beside it: with control planes and other nodes, in threads of its
/// own.
pub trait Beside {
    /// Does what is under way, takes nothing new, and says what is to be kept of PFCP sessions:
    /// all of it.
    ///
    /// # Errors
    /// Why it cannot.
    fn pause(&mut self) -> Result<Vec<Keep>, String>;

    /// The node stays: takes requests again.
    fn resume(&mut self);

    /// In the moment before the process of that number goes on with the node: says with what
    /// those go on that speak for it there. So many packets are `waiting` for idle bearers or
    /// functions, and are dropped then.
    ///
    /// # Errors
    /// Why it cannot.
    fn before_yours(&mut self, process: u32, waiting: usize) -> Result<Vec<u8>, String>;
}

/// Nothing is beside the node.
impl Beside for () {
    fn pause(&mut self) -> Result<Vec<Keep>, String> {
        Ok(Vec::new())
    }

    fn resume(&mut self) {}

    fn before_yours(&mut self, _: u32, _: usize) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }
}

impl Running {
    /// Gives the node to the process at the other end of `stream`. If that comes to nothing, the
    /// node goes on. Otherwise its workers have ended; `beside` is told the number of the new
    /// process, as it was given, before that goes on.
    ///
    /// # Errors
    /// Why it came to nothing.
    pub fn hand_over(
        &mut self,
        eal: &'static Eal,
        stream: UnixStream,
        beside: &mut dyn Beside,
    ) -> Result<HandedOver, UpgradeError> {
        let mut conversation = Conversation::new(stream, OF_NEW)?;
        conversation.wait_at_most(STOPPED)?;
        let mut received = Received::default();
        match self.try_to_hand_over(&mut conversation, beside, &mut received) {
            Ok(handover) => {
                let Handover { waited, dropped, process, transfer, closed } = handover;
                Ok(HandedOver { waited, dropped, process, transfer, closed, conversation })
            }
            Err(error) => {
                let error = conversation.why(error);
                conversation.refuse(&error.to_string());
                self.resume(eal, received);
                // The node has stopped where the agent does not answer.
                let _ = self.handle.ask(Agent::end_upgrade);
                beside.resume();
                Err(error)
            }
        }
    }

    /// Ends what is left of a node that another process has, and the processes of its functions.
    /// Ports that both have open stay as they are until this process ends: to close them would
    /// change their interfaces.
    pub fn leave(self, handed_over: HandedOver) {
        self.leave_and(handed_over, || ());
    }

    /// The same. `closed` is called once nothing of the node is left that the other process waits
    /// for, before that hears it.
    pub fn leave_and(self, handed_over: HandedOver, closed: impl FnOnce()) {
        let HandedOver { transfer, conversation, .. } = handed_over;
        if transfer == PortTransfer::Beside {
            // The node has stopped where the agent does not answer.
            let _ = self.handle.ask(|agent| agent.functions.end_processes());
        } else {
            self.agent_stop.store(true, Ordering::Release);
            drop(self.agent.join());
            drop(self.paused);
        }
        closed();
        drop(conversation);
    }

    fn try_to_hand_over(
        &mut self,
        conversation: &mut Conversation,
        beside: &mut dyn Beside,
        received: &mut Received,
    ) -> Result<Handover, UpgradeError> {
        let stopped = |_| UpgradeError::Refused("the node is stopping".to_owned());
        let offer = self.handle.ask(|agent| agent.offering().offer()).map_err(stopped)?;
        let offer = offer.map_err(UpgradeError::Refused)?;
        let octets = serde_json::to_vec(&offer).map_err(io::Error::other)?;
        conversation.say(Kind::Offer, &octets)?;
        let accepted = conversation.hear_only(Kind::Accept)?;
        let (process, versions) = accepted_of(&accepted, &offer)?;
        let keep = beside.pause().map_err(UpgradeError::Refused)?;
        self.wait_for_rest().map_err(stopped)?;
        let prepared = self.handle.ask(|agent| agent.offering().begin(keep)).map_err(stopped)?;
        let prepared = prepared.map_err(UpgradeError::Refused)?;
        conversation.wait_at_most(PREPARING)?;
        send_prepared(conversation, &prepared)?;
        let transfer = PortTransfer::heard(&conversation.hear_only(Kind::Ready)?)?;
        let is_beside = transfer == PortTransfer::Beside;
        let ports = match is_beside {
            true => self.handle.ask(|agent| shared(&agent.ports)).map_err(stopped)??,
            false => Vec::new(),
        };
        conversation.wait_at_most(STOPPED)?;
        // From here on packets wait.
        let since = Instant::now();
        self.pause();
        self.owns_users()?;
        self.finish(conversation, (&ports, is_beside, since), received)?;
        self.send_contexts(conversation, (&offer, &versions), &prepared)?;
        // What was in the kernel still, if anything.
        self.drain(received)?;
        let drained = received.by_name(&ports);
        let octets = serde_json::to_vec(&drained).map_err(io::Error::other)?;
        conversation.say(Kind::Drained, &octets)?;
        conversation.hear_only(Kind::Taken)?;
        let closed = match transfer {
            PortTransfer::InTurn => Some(self.give_ports(conversation)?),
            _ => None,
        };
        let goes_on_with =
            beside.before_yours(process, self.waiting()).map_err(UpgradeError::Refused)?;
        self.owns_users()?;
        conversation.say(Kind::Yours, &goes_on_with)?;
        if !is_beside {
            received.drop_uncarried(&mut self.paused);
        }
        let dropped = self.drop_waiting();
        Ok(Handover { waited: since.elapsed(), dropped, process, transfer, closed })
    }

    /// Opens the ports of the other process, stops receiving, and carries all that was received.
    /// From a moment on both have their ports open. Behind it, and before this process shuts its
    /// own, it stops receiving packets of users where functions are reached by ports, and finishes
    /// what is there: however much comes meanwhile, that has an end.
    fn finish(
        &mut self,
        conversation: &mut Conversation,
        (ports, is_beside, since): (&[SharedPort], bool, Instant),
        received: &mut Received,
    ) -> Result<(), UpgradeError> {
        let are_at_ports = self.paused.iter().any(Worker::has_functions_at_ports);
        if is_beside {
            if !are_at_ports {
                // What is received before the other process receives has no copy there.
                for worker in &mut self.paused {
                    worker.drain_received(&mut |_, _| {});
                }
            }
            let waited = since.elapsed().as_nanos() as u64;
            conversation.say(Kind::Open, &waited.to_le_bytes())?;
            conversation.hear_only(Kind::Opened)?;
            // A packet that the other process was closed to when it came must find this one open.
            match are_at_ports {
                true => await_delivery()?,
                false => thread::sleep(IN_KERNEL),
            }
        }
        if are_at_ports {
            if !received.receive_all(&mut self.paused) {
                let why = "too few packet buffers for what is received (`memory.packets`)";
                return Err(UpgradeError::Refused(why.to_owned()));
            }
            self.drain(received)?;
        }
        for port in ports {
            port.ingress.shut()?;
        }
        self.drain(received)
    }

    /// Waits until nothing is under way, but not for long.
    fn wait_for_rest(&self) -> Result<(), Stopped> {
        let until = Instant::now() + REST;
        while self.handle.ask(|agent| agent.offering().under_way().is_some())?
            && Instant::now() < until
        {
            thread::sleep(IN_KERNEL);
        }
        Ok(())
    }

    /// Ends the threads of the workers.
    fn pause(&mut self) {
        self.paused = self.threads.stop();
    }

    /// Whether the node may carry packets: another one may have the users.
    fn owns_users(&self) -> Result<(), UpgradeError> {
        match self.lease.as_ref().is_none_or(Lease::holds) {
            true => Ok(()),
            false => {
                let why = "neither controller nor standby is heard; try again";
                Err(UpgradeError::Refused(why.to_owned()))
            }
        }
    }

    /// Takes packets in and carries them again, those that were `received` first.
    fn resume(&mut self, eal: &'static Eal, mut received: Received) {
        let mut workers = std::mem::take(&mut self.paused);
        if workers.is_empty() {
            return;
        }
        self.take_ports_back(&mut workers);
        let ports = self.handle.ask(|agent| shared(&agent.ports));
        for port in ports.ok().and_then(Result::ok).into_iter().flatten() {
            if let Err(error) = port.ingress.open() {
                tracing::error!(port = port.name, %error, "the port takes nothing in any more");
            }
        }
        match self.owns_users() {
            Ok(()) => received.carry_uncarried(&mut workers),
            Err(_) => received.drop_uncarried(&mut workers),
        }
        if let Err(error) = self.threads.start(eal, workers) {
            tracing::error!(%error, "no thread for the workers");
        }
    }

    /// Carries all that was received, and where packets of users are left to the other process,
    /// waits for what is at functions.
    ///
    /// # Errors
    /// When that has no end: a device that this process cannot shut goes on to receive, or
    /// functions do not give packets back, nor do these count as lost.
    fn drain(&mut self, received: &mut Received) -> Result<(), UpgradeError> {
        let until = Instant::now() + DRAINING;
        loop {
            let mut busy = false;
            self.owns_users()?;
            for (number, worker) in self.paused.iter_mut().enumerate() {
                busy |= received.drain(number, worker);
            }
            if !busy {
                return Ok(());
            }
            if received.leaves_too_much() || Instant::now() >= until {
                return Err(UpgradeError::Refused(self.why_without_end(received).to_owned()));
            }
            if received.leaves_users() {
                thread::sleep(RETURNING);
            }
        }
    }

    fn why_without_end(&self, received: &Received) -> &'static str {
        if received.leaves_too_much() {
            return "more packets come than can wait for those at functions at other nodes; try \
                    again with less traffic, or call the functions back first (`weft ctl \
                    function NAME --composition call --peer NODE`)";
        }
        if self.paused.iter().any(Worker::waits_for_functions) {
            return "a function in a process does not give its packets back; try again";
        }
        match received.leaves_users() {
            true => "functions at other nodes do not give packets back; try again",
            false => "packets come without end at a port that cannot be shut",
        }
    }

    fn send_contexts(
        &mut self,
        conversation: &mut Conversation,
        (offer, versions): (&Offer, &[u16]),
        prepared: &Prepared,
    ) -> Result<(), UpgradeError> {
        let shift = weft_compose::SlotShift::for_workers(self.paused.len());
        for (number, (function, version)) in offer.functions.iter().zip(versions).enumerate() {
            let number = number as u16;
            let slots = &prepared.slots[position(function.scope)];
            let mut pieces = Pieces::of(number, conversation);
            if prepared.in_processes.contains(&number) {
                self.send_from_process((number, *version), slots, &mut pieces)?;
                continue;
            }
            for (at, slot) in slots.iter().enumerate() {
                let worker = &mut self.paused[shift.worker(*slot)];
                // A process that takes sessions has given them their rules already.
                let is_session = at >= prepared.before_sessions[position(function.scope)];
                pieces.add(at, |piece| match is_session && *version == function.version {
                    true => worker.export_state(number, *slot, piece),
                    false => worker.export_context((number, *version), *slot, piece),
                })?;
            }
            pieces.end()?;
        }
        Ok(())
    }

    /// The same of a function whose contexts are in its process.
    fn send_from_process(
        &self,
        (function, version): (u16, u16),
        slots: &[u32],
        pieces: &mut Pieces<'_>,
    ) -> Result<(), UpgradeError> {
        let (to, from) = sync_channel::<Piece>(AHEAD);
        let count = slots.len();
        let slots = slots.to_vec();
        let read = move |agent: &mut Agent| {
            agent.process_contexts().read((function, version), &slots, &to);
        };
        let stopped = |_| UpgradeError::Refused("the node is stopping".to_owned());
        self.handle.tell(read).map_err(stopped)?;
        let mut at = 0;
        for contexts in from {
            for context in contexts.map_err(UpgradeError::Refused)? {
                pieces.add(at, |piece| piece.extend(context))?;
                at += 1;
            }
        }
        if at < count {
            // Its agent has ended meanwhile.
            return Err(stopped(Stopped));
        }
        Ok(pieces.end()?)
    }
}

/// Contexts of a function on their way.
struct Pieces<'a> {
    conversation: &'a mut Conversation,
    function: u16,
    octets: Vec<u8>,
}

impl Pieces<'_> {
    fn of(function: u16, conversation: &mut Conversation) -> Pieces<'_> {
        let mut octets = Vec::with_capacity(2 * PIECE);
        octets.extend(function.to_le_bytes());
        Pieces { conversation, function, octets }
    }

    /// Adds that of the subject `at`, which `export` appends.
    fn add(&mut self, at: usize, export: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let piece = &mut self.octets;
        piece.extend((at as u32).to_le_bytes());
        let length = piece.len();
        piece.extend([0; 4]);
        export(piece);
        let octets = (piece.len() - length - 4) as u32;
        piece[length..length + 4].copy_from_slice(&octets.to_le_bytes());
        if piece.len() >= PIECE { self.end() } else { Ok(()) }
    }

    /// Sends what is there.
    fn end(&mut self) -> io::Result<()> {
        if self.octets.len() > 2 {
            self.conversation.say(Kind::Contexts, &self.octets)?;
            self.octets.truncate(0);
            self.octets.extend(self.function.to_le_bytes());
        }
        Ok(())
    }
}

/// Sends what goes over before packets stop.
fn send_prepared(conversation: &mut Conversation, prepared: &Prepared) -> io::Result<()> {
    for octets in &prepared.records {
        conversation.say(Kind::Records, octets)?;
    }
    for (scope, octets) in &prepared.subjects {
        conversation.say(Kind::Subjects, &[&[position(*scope) as u8], &octets[..]].concat())?;
    }
    if let Some(octets) = &prepared.moves {
        conversation.say(Kind::Moves, octets)?;
    }
    conversation.say(Kind::Prepared, &[])
}

/// The ports whose interfaces two processes may have open.
fn shared(ports: &Ports) -> io::Result<Vec<SharedPort>> {
    let mut shared = Vec::new();
    for (number, port) in ports.iter().enumerate() {
        if let Some(ingress) = port.port_device().ingress(Holder::First)? {
            let name = port.name().to_owned();
            shared.push(SharedPort { number: number as u16, name, ingress });
        }
    }
    Ok(shared)
}

/// What the new process has said as it accepts: its number, and the version of each function's
/// contexts that it wants.
fn accepted_of(octets: &[u8], offer: &Offer) -> Result<(u32, Vec<u16>), UpgradeError> {
    let (process, versions) = octets.split_first_chunk().unwrap_or((&[0; 4], &[]));
    let process = u32::from_le_bytes(*process);
    let wanted: Vec<_> = versions.as_chunks().0.iter().copied().map(u16::from_le_bytes).collect();
    if wanted.is_empty() {
        return Ok((process, offer.functions.iter().map(|one| one.version).collect()));
    }
    let are_written = offer.functions.iter().zip(&wanted).all(|(offered, wanted)| {
        (offered.oldest.unwrap_or(offered.version)..=offered.version).contains(wanted)
    });
    match wanted.len() == offer.functions.len() && are_written {
        true => Ok((process, wanted)),
        false => Err(UpgradeError::Foreign("versions that contexts are not written as")),
    }
}

/// The scope at a position among slots.
pub(super) fn scope_at(position: u8) -> Option<Scope> {
    [Scope::Bearer, Scope::User, Scope::Group].get(usize::from(position)).copied()
}
