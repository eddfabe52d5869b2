//! What the thread does that looks after one function process.

mod greeting;
mod inquiries;
mod session;

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weft_compose::Kind;
use weft_dataplane::offload::Shared;
use weft_dpdk::Port;

use self::session::{Asked, Session, Stage};
use super::context_records::ContextRecords;
use super::gate::Gate;
use super::plan::{ResourceLimits, Restart, Start, Status, View};
use super::process::{self, Launch, Process};
use crate::process::inquiry::{ContextsAnswer, Inquiry};
use crate::process::order::{Change, Order, Request};
use crate::process::protocol::{Connection, Message, Welcome};

/// How often the thread looks whether a worker has given orders.
const ROUND: Duration = Duration::from_millis(1);
/// The same while the function is elsewhere, and there are no orders.
const RESTING_ROUND: Duration = Duration::from_millis(10);
/// How long a function may take from its hello to the ring.
const BEGINNING: Duration = Duration::from_secs(15);
/// Letters of the reason for which a context was not imported.
const LONGEST_REASON: usize = 256;
/// Messages that are heard in one round, whatever else has come: orders, health checks and
/// the end of the node are looked at in between.
const MESSAGES: usize = 1024;
/// Requests of the node's own that are taken in one round.
const REQUESTS: usize = 4096;
/// Connections that are accepted in one round.
const CONNECTIONS: usize = 16;
/// Who has failed and is not started by the node may come again after this.
const AGAIN: Duration = Duration::from_millis(100);
/// A process counts its devices once a second; what it says more often is not looked at.
const COUNTS: Duration = Duration::from_millis(500);
/// Refused contexts that the log names each; then each power of two.
const NAMED: u64 = 8;
/// A function that ran this long is started again without a long pause.
const STEADY: Duration = Duration::from_secs(5);

/// All that the thread works with.
pub(super) struct Watch {
    pub(super) kind: &'static Kind,
    pub(super) welcome: Welcome,
    pub(super) ring: PathBuf,
    /// The node's own end of it.
    pub(super) inner: PathBuf,
    /// Another process of the node has the places of its sockets.
    pub(super) given_away: Arc<AtomicBool>,
    pub(super) own_folder: bool,
    pub(super) plain: bool,
    pub(super) user: Option<u32>,
    pub(super) limits: ResourceLimits,
    pub(super) start: Start,
    pub(super) heartbeat: Duration,
    pub(super) checkpoint: Option<Duration>,
    /// The ring; none where packets go through a NIC.
    pub(super) port: Option<Port>,
    /// Where functions come to it.
    pub(super) _gate: Option<Gate>,
    /// Devices of the process, where it has any.
    pub(super) devices: Vec<String>,
    pub(super) listener: UnixListener,
    pub(super) requests: Receiver<Request>,
    pub(super) answers: Sender<ContextsAnswer>,
    pub(super) shared: Vec<Arc<Shared>>,
    pub(super) view: Arc<Mutex<View>>,
    pub(super) now: Box<dyn Fn() -> u64 + Send>,
    pub(super) records: ContextRecords,
    /// What the process was asked and has not answered.
    pub(super) inquiries: VecDeque<Inquiry>,
    /// Fences that were sent; wraps.
    pub(super) fences: u32,
    /// Whether the function has ever been there.
    pub(super) was_up: bool,
    /// Whether it is to be there.
    pub(super) wanted: Arc<AtomicU32>,
    /// What was heard of that.
    pub(super) heard: u32,
    pub(super) process: Option<Process>,
    pub(super) session: Option<Session>,
    pub(super) restart: Restart,
    pub(super) pause: Duration,
    pub(super) next_start: Instant,
}

impl Watch {
    pub(super) fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            self.round();
        }
        self.go_down();
        self.session = None;
        self.process = None;
        // What is left does no harm: the next node removes it.
        let _ = std::fs::remove_file(&self.inner);
        if self.own_folder || !self.given_away.load(Ordering::Acquire) {
            let _ = std::fs::remove_file(crate::process::control_path(&self.ring));
            let _ = std::fs::remove_file(&self.ring);
        }
        if let Some(folder) = self.ring.parent().filter(|_| self.own_folder) {
            // The last function's ring takes it along.
            let _ = std::fs::remove_dir(folder);
        }
    }

    fn round(&mut self) {
        self.wait();
        self.take_requests();
        if self.plain {
            return self.watch_ring();
        }
        if self.rests() {
            return;
        }
        if let Some(process) = &mut self.process
            && let Some(how) = process.ended()
        {
            self.process = None;
            self.fail(&how);
        }
        self.accept();
        if let Err(reason) = self.converse() {
            self.fail(&reason);
        }
        self.start_process();
    }

    /// A function without a socket is there while its end of the ring is.
    fn watch_ring(&mut self) {
        let (is_up, was_up) = (self.ring_is_up(), self.view_status() == Status::Running);
        match (was_up, is_up) {
            (false, true) => self.go_up(),
            (true, false) => self.fail("its end of the ring is closed"),
            _ => {}
        }
    }

    /// Whether the function's end of the ring is there. A function behind a NIC has said so.
    fn ring_is_up(&self) -> bool {
        self.port.as_ref().is_none_or(|port| port.link().up)
    }

    fn view_status(&self) -> Status {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).status
    }

    /// Waits until something happens, a millisecond at most.
    fn wait(&self) {
        let mut descriptors = Vec::with_capacity(3);
        if self.accepts() {
            descriptors.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        if let Some(session) = &self.session {
            let sending =
                if session.connection.is_sending() { PollFlags::OUT } else { PollFlags::empty() };
            descriptors.push(PollFd::new(session.connection.stream(), PollFlags::IN | sending));
        }
        if let Some(process) = &self.process {
            descriptors.push(PollFd::from_borrowed_fd(process.descriptor(), PollFlags::IN));
        }
        let round = if self.view_status() == Status::Resting { RESTING_ROUND } else { ROUND };
        let round = Timespec { tv_sec: 0, tv_nsec: round.as_nanos() as i64 };
        // Interrupted or not: the next round looks at everything.
        let _ = poll(&mut descriptors, Some(&round));
    }

    fn take_requests(&mut self) {
        for _ in 0..REQUESTS {
            let Ok(request) = self.requests.try_recv() else { return };
            match request {
                Request::Order(order) => self.pass_on(order),
                Request::Question(question) => self.ask(question),
                Request::Placed(ring) => self.ring = ring,
            }
        }
    }

    fn pass_on(&mut self, order: Order) {
        let now = (self.now)();
        let session = self.session.as_mut().filter(|session| session.stage != Stage::Greeting);
        let given = session.is_some();
        if let Some(session) = session {
            session.asked.imports += u64::from(matches!(order.change, Change::Import(_)));
            // An error shows again as the session is looked at.
            let _ = session.connection.send_with_next(&order.message(now));
        }
        self.records.note(order, given);
    }

    /// Whether who comes is heard: one that has just failed waits.
    fn accepts(&self) -> bool {
        self.start != Start::Elsewhere || Instant::now() >= self.next_start
    }

    fn accept(&mut self) {
        if !self.accepts() {
            return;
        }
        for _ in 0..CONNECTIONS {
            let Ok((stream, _)) = self.listener.accept() else { return };
            let Ok(mut connection) = Connection::new(stream) else { continue };
            if self.session.is_some() {
                let _ = connection.send(&Message::Refuse("another process is attached".into()));
                continue;
            }
            self.session = Some(Session::new(connection, self.shared.len()));
        }
    }

    /// Speaks with the function.
    ///
    /// # Errors
    /// What is wrong with it.
    fn converse(&mut self) -> Result<(), String> {
        let gone = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidData => format!("it sent {error}"),
            io::ErrorKind::StorageFull => "it does not read what it is told".to_owned(),
            _ => "it closed its socket".to_owned(),
        };
        for _ in 0..MESSAGES {
            let Some(session) = &mut self.session else { return Ok(()) };
            session.connection.flush().map_err(gone)?;
            let Some(message) = session.connection.receive().map_err(gone)? else { break };
            self.hear(message)?;
        }
        self.look_after()
    }

    fn hear(&mut self, message: Message) -> Result<(), String> {
        let Some(session) = &mut self.session else { return Ok(()) };
        match (session.stage, message) {
            (Stage::Greeting, Message::Hello { version, process, function }) => {
                self.greet(version, process, &function)
            }
            (Stage::Attaching, Message::Ready) => {
                session.stage = Stage::Ready;
                Ok(())
            }
            (_, Message::Pong(_)) => {
                Asked::take(&mut session.asked.pings, "an answer")?;
                session.last_pong = Instant::now();
                session.ticks = process::ticks(session.process);
                Ok(())
            }
            (Stage::Ready | Stage::Running, Message::Counted(counters)) => {
                let now = Instant::now();
                if session.last_counted.is_some_and(|last| now - last < COUNTS) {
                    return Ok(());
                }
                session.last_counted = Some(now);
                self.edit(|view| view.port = Some(counters));
                Ok(())
            }
            (Stage::Running, Message::Context { worker, slot, context }) => {
                Asked::take(&mut session.asked.contexts, "a context")?;
                match self.records.put_down(worker, slot, context) {
                    true => Ok(()),
                    false => Err("its contexts have more octets than the node keeps".to_owned()),
                }
            }
            (Stage::Running, Message::Checkpointed) if self.records.is_checkpointing() => {
                session.asked.contexts = 0;
                self.records.end_checkpoint();
                Ok(())
            }
            (Stage::Running, Message::Exported { worker, slot, context }) => {
                match self.take_exported(worker, slot, context) {
                    true => Ok(()),
                    false => Err("it sent a context that was not asked for".to_owned()),
                }
            }
            (Stage::Running, Message::Fenced(number)) => match self.pass_fence(number) {
                true => Ok(()),
                false => Err("it passed a fence out of turn".to_owned()),
            },
            (Stage::Ready | Stage::Running, Message::NotImported { worker, slot, reason }) => {
                Asked::take(&mut session.asked.imports, "the refusal of a context")?;
                session.asked.refused += 1;
                self.note_refusal(worker, slot, &reason);
                Ok(())
            }
            (_, message) => {
                Err(format!("it sent a message out of turn, of type {}", message.number()))
            }
        }
    }

    /// A process does not take a context.
    fn note_refusal(&mut self, worker: u16, slot: u32, reason: &str) {
        let Some(session) = &self.session else { return };
        let refused = session.asked.refused;
        let reason: String = reason.escape_debug().take(LONGEST_REASON).collect();
        if refused <= NAMED || refused.is_power_of_two() {
            let function = &self.welcome.instance;
            let what = "a context could not be imported";
            tracing::warn!(function, slot, reason, refused, "{what}");
        }
        self.inquiries.iter_mut().for_each(|one| one.refuse(worker, slot, &reason));
        self.edit(|view| view.not_imported = Some(reason));
    }

    /// Heartbeat, checkpoints, and whether the ring is there.
    fn look_after(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let Some(session) = &mut self.session else { return Ok(()) };
        match session.stage {
            Stage::Greeting | Stage::Attaching | Stage::Ready => {
                if now - session.begun > BEGINNING {
                    return Err("it did not attach to the ring in time".to_owned());
                }
                if session.stage == Stage::Ready
                    && self.port.as_ref().is_none_or(|port| port.link().up)
                {
                    session.begin(now);
                    self.go_up();
                }
                return Ok(());
            }
            Stage::Running => {}
        }
        if now - session.last_ping >= self.heartbeat / 4 {
            session.last_ping = now;
            session.asked.pings += 1;
            let ping = session.connection.send(&Message::Ping(0));
            ping.map_err(|_| "it closed its socket".to_owned())?;
        }
        if let Some(every) = self.checkpoint
            && now - session.last_checkpoint >= every
            && !self.records.is_checkpointing()
        {
            session.last_checkpoint = now;
            session.asked.contexts = self.records.most_contexts();
            self.records.begin_checkpoint();
            let question = Message::Checkpoint { now: (self.now)() };
            let sent = session.connection.send(&question);
            sent.map_err(|_| "it closed its socket".to_owned())?;
        }
        if self.inquiries.front().is_some_and(|one| one.is_late(self.heartbeat)) {
            return Err("it does not give its contexts away".to_owned());
        }
        session.check(&self.shared, self.heartbeat, now)?;
        if session.begins_to_end(now) {
            self.go_down();
            let function = &self.welcome.instance;
            tracing::warn!(function, "its process ends: its packets are under its policy");
        }
        Ok(())
    }

    /// Hears whether the function is wanted; whether the process rests.
    fn rests(&mut self) -> bool {
        let wanted = self.wanted.load(Ordering::Acquire);
        let rests = wanted & 1 == 0 && self.rest();
        if wanted != self.heard {
            self.heard = wanted;
            self.edit(|view| view.heard = wanted);
        }
        rests
    }

    /// Lets a process that the node starts be ended while the function is elsewhere;
    /// whether it is.
    fn rest(&mut self) -> bool {
        if !matches!(self.start, Start::Program(_)) {
            return false;
        }
        if self.session.is_some() || self.process.is_some() {
            self.go_down();
            (self.session, self.process) = (None, None);
            self.records.end_checkpoint();
            for inquiry in std::mem::take(&mut self.inquiries) {
                self.answer_without(inquiry.question);
            }
        }
        // A process that attaches now is not wanted.
        for _ in 0..CONNECTIONS {
            drop(self.listener.accept());
        }
        self.was_up = false;
        (self.pause, self.next_start) = (self.restart.first, Instant::now());
        self.edit(|view| (view.status, view.process) = (Status::Resting, None));
        true
    }

    fn start_process(&mut self) {
        let Start::Program(program) = &self.start else { return };
        if self.process.is_some() || Instant::now() < self.next_start {
            return;
        }
        let launch = Launch {
            program,
            function: self.kind.name,
            ring: &self.ring,
            devices: &self.devices,
            user: self.user,
        };
        match Process::start(&launch) {
            Ok(mut process) => {
                if let Err(error) = process.limit(&self.welcome.instance, &self.limits) {
                    let function = &self.welcome.instance;
                    tracing::warn!(function, %error, "its process has no limits");
                }
                self.set_status(Status::Starting);
                self.edit(|view| view.process = Some(process.id()));
                self.process = Some(process);
            }
            Err(error) => {
                self.fail(&format!("{} could not be started: {error}", program.display()))
            }
        }
    }

    /// The function is there: packets go to it from now on.
    fn go_up(&mut self) {
        self.shared.iter().for_each(|shared| shared.go_up());
        self.was_up = true;
        self.set_status(Status::Running);
        let process = self.session.as_ref().map(|session| session.process);
        self.edit(|view| view.process = process);
        tracing::info!(function = self.welcome.instance, process, "the function is attached");
    }

    fn go_down(&mut self) {
        self.shared.iter().for_each(|shared| shared.go_down());
    }

    /// The function has failed: its packets are under its policy from now on.
    fn fail(&mut self, reason: &str) {
        self.go_down();
        tracing::warn!(function = self.welcome.instance, reason, "the function has failed");
        let now = Instant::now();
        let begun = self.session.take().map(|session| session.begun);
        self.process = None;
        self.records.end_checkpoint();
        for inquiry in std::mem::take(&mut self.inquiries) {
            self.answer_without(inquiry.question);
        }
        if begun.is_some_and(|begun| now - begun > STEADY) {
            self.pause = self.restart.first;
        }
        self.next_start = match self.start {
            Start::Program(_) => now + self.pause,
            Start::Elsewhere => now + AGAIN.min(self.pause),
        };
        self.pause = (self.pause * 2).min(self.restart.longest);
        let checkpointed = self.records.checkpointed();
        self.edit(|view| {
            view.status = Status::Absent;
            view.process = None;
            view.failures += 1;
            view.last_failure = Some(reason.to_owned());
            view.checkpointed = checkpointed;
        });
    }

    fn set_status(&self, status: Status) {
        self.edit(|view| view.status = status);
    }

    fn edit(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
