//! The thread that works: datagrams and events go to the state machine, commands and what is to
//! be kept to the agent, datagrams out.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use weft_node::Stopped;
use weft_node::bearer::session::SessionEvent;

use super::pause::Pause;
use super::{CONGESTION, Clock, DataPlane, Input, PAUSE, WAITING};
use crate::datagrams::{Sender, split};
use crate::user_plane::{Datagram, UserPlane, is_response};

/// What is worked on before commands go to the agent.
const BATCH: usize = 256;

/// Works on what comes, one thing after the other.
pub(super) struct Working<D> {
    pub plane: UserPlane,
    /// Datagrams in `inputs`.
    pub waiting_inputs: Arc<AtomicUsize>,
    /// The sockets, each with whether it is of IPv4.
    pub sockets: Vec<(bool, UdpSocket)>,
    pub inputs: Receiver<Input>,
    pub sessions: Receiver<SessionEvent>,
    pub peers: Receiver<weft_node::bearer::Event>,
    pub data_plane: D,
    pub clock: Clock,
    pub stop: Arc<AtomicBool>,
    pub sender: Sender,
    pub unsent: HashMap<io::ErrorKind, u64>,
    /// Lists of what is to be kept that were given to the node, and those that are durable.
    pub given: u64,
    /// The newest usage that the node was told to be kept as reported.
    pub reported: u64,
    pub durable: Arc<AtomicU64>,
    /// Whether the latest could not be made durable.
    pub refused: Arc<AtomicBool>,
    /// Datagrams that wait for a list to be durable, in order.
    pub waiting: VecDeque<(u64, Datagram)>,
    /// Another process may have the node.
    pub pause: Option<Pause>,
    /// Datagrams that wait for the end of that.
    pub held: VecDeque<(SocketAddr, Box<[u8]>)>,
    pub dropped: Arc<AtomicU64>,
}

impl<D: DataPlane> Working<D> {
    /// Until the server stops, or the node has.
    pub fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            if !self.take_inputs() {
                return;
            }
            // What sessions have told is taken behind their last word.
            let is_pausing = self.pause.as_ref().is_some_and(Pause::waits);
            let told = is_pausing.then(|| self.data_plane.hold(true));
            let took_events = self.take_events();
            // Requests are not sent again, nor given up, while responses wait.
            if self.pause.is_none() || is_pausing {
                self.plane.poll(self.clock.now());
            }
            let commands = self.plane.take_commands();
            if !commands.is_empty() {
                let Ok(changed) = self.data_plane.change(commands) else { return };
                self.plane.committed(self.clock.now(), changed);
            }
            if self.keep().is_err() {
                return;
            }
            self.send();
            match told {
                Some(Ok(told)) => self.look_after_pause(told, took_events),
                Some(Err(Stopped)) => return,
                None => {
                    self.pause.iter_mut().for_each(|pause| pause.write(&self.plane));
                }
            }
        }
    }

    /// Takes what has come, or waits a little. False when no more can come.
    fn take_inputs(&mut self) -> bool {
        // Events come without a signal of their own; while some are awaited, they are looked
        // for often.
        let is_pausing = self.pause.as_ref().is_some_and(Pause::waits);
        let pause = if self.pause.as_ref().is_some_and(Pause::writes) {
            Duration::ZERO
        } else if self.plane.awaits_events() || !self.waiting.is_empty() || is_pausing {
            Duration::from_micros(200)
        } else {
            self.pause()
        };
        let mut taken = match self.inputs.recv_timeout(pause) {
            Ok(input) => self.take(input),
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        while taken < BATCH {
            let Ok(input) = self.inputs.try_recv() else { break };
            taken += self.take(input);
        }
        true
    }

    fn pause(&self) -> Duration {
        // Usage and downlink data are told within this time.
        const EVENTS: Duration = Duration::from_millis(2);
        let next = self
            .plane
            .next_time()
            .map_or(PAUSE, |time| Duration::from_nanos(time.saturating_sub(self.clock.now())));
        let most = if self.plane.has_sessions() { EVENTS } else { PAUSE };
        next.clamp(Duration::from_micros(200), most)
    }

    /// Takes one input; how many things that were.
    fn take(&mut self, input: Input) -> usize {
        match input {
            Input::Datagrams(from, octets, each) => return self.take_all(from, &octets, each),
            Input::Question(question) => question(&self.plane),
            Input::Release(within) => {
                self.plane.ask_for_release(self.clock.now(), within.as_secs());
            }
            Input::Pause(told) => self.pause = Some(Pause::new(told)),
            Input::Resume => self.resume(),
        }
        1
    }

    /// Takes datagrams of one sender; how many.
    fn take_all(&mut self, from: SocketAddr, octets: &[u8], each: usize) -> usize {
        let (now, mut count) = (self.clock.now(), 0);
        for datagram in split(octets, each) {
            let waiting = self.waiting_inputs.fetch_sub(1, Ordering::Relaxed);
            self.plane.note_congestion(waiting > CONGESTION);
            self.take_datagram(now, from, datagram);
            count += 1;
        }
        count
    }

    /// Takes what the node has told of sessions and peers; whether there was anything of
    /// sessions.
    fn take_events(&mut self) -> bool {
        let now = self.clock.now();
        let mut any = false;
        for _ in 0..BATCH {
            let Ok(event) = self.sessions.try_recv() else { break };
            self.plane.event(now, event);
            any = true;
        }
        while let Ok(event) = self.peers.try_recv() {
            match event {
                weft_node::bearer::Event::PeerFailed { peer, .. } => {
                    self.plane.path_event(now, peer, true);
                }
                weft_node::bearer::Event::PeerReturned { peer, .. } => {
                    self.plane.path_event(now, peer, false);
                }
                _ => {}
            }
        }
        any
    }

    /// Gives the node what is to be kept.
    fn keep(&mut self) -> Result<(), Stopped> {
        let (keep, reported) = (self.plane.take_kept(), self.plane.reported());
        if keep.is_empty() && reported == self.reported {
            return Ok(());
        }
        self.reported = reported;
        self.given += 1;
        let (given, durable) = (self.given, self.durable.clone());
        let refused = self.refused.clone();
        let done = move |kept: Result<(), Arc<str>>| {
            // The node goes on all the same: sessions must not end for a disk that is full. One
            // line for each time that the disk begins to refuse.
            if let (false, Err(error)) = (refused.swap(kept.is_err(), Ordering::Relaxed), &kept) {
                tracing::error!("PFCP: changes are not durable, and answered: {error}");
            }
            durable.fetch_max(given, Ordering::Release);
        };
        self.data_plane.keep(keep, reported, Box::new(done))
    }

    fn send(&mut self) {
        let durable = self.durable.load(Ordering::Acquire);
        let mut ready = Vec::new();
        while self.waiting.front().is_some_and(|(given, _)| *given <= durable)
            && let Some((_, datagram)) = self.waiting.pop_front()
        {
            ready.push(datagram);
        }
        for datagram in self.plane.take_datagrams() {
            if !datagram.waits || self.given <= durable {
                ready.push(datagram);
            } else if self.waiting.len() < WAITING {
                self.waiting.push_back((self.given, datagram));
            }
        }
        // Responses that follow one another go in any order, so that those of one peer that are
        // equally long can go as one. What the node asks stays where it is among them.
        let is_answer = |one: &Datagram| is_response(&one.octets);
        for answers in ready.chunk_by_mut(|one, next| is_answer(one) && is_answer(next)) {
            answers.sort_by_key(|one| (one.to, one.octets.len()));
        }
        for of_peer in ready.chunk_by(|one, next| one.to == next.to) {
            self.send_to(of_peer[0].to, of_peer);
        }
    }

    fn send_to(&mut self, to: SocketAddr, datagrams: &[Datagram]) {
        let Working { sockets, sender, unsent, .. } = self;
        let Some((_, socket)) = sockets.iter().find(|one| one.0 == to.is_ipv4()) else { return };
        let octets = datagrams.iter().map(|one| one.octets.as_slice());
        sender.send(socket, to, octets, |error| {
            // The peer repeats its request, or the node its own. One line for each kind.
            let count = unsent.entry(error.kind()).or_default();
            *count += 1;
            if *count == 1 {
                tracing::warn!(%to, "PFCP message not sent: {error}");
            }
        });
    }

    /// A datagram has come: a request waits while another process may have the node, and so does
    /// a response once it is told what that has to do. A heartbeat that changes nothing does not
    /// wait: a peer that is not answered takes the node for lost.
    fn take_datagram(&mut self, now: u64, from: SocketAddr, datagram: &[u8]) {
        match &self.pause {
            Some(_) if self.plane.is_mere_heartbeat(from, datagram) => {
                self.plane.receive(now, from, datagram);
            }
            Some(pause) if !pause.waits() || !is_response(datagram) => {
                if self.held.len() < WAITING {
                    self.held.push_back((from, datagram.into()));
                } else {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => self.plane.receive(now, from, datagram),
        }
    }

    /// Tells what is to be kept, once nothing is under way; `told` says that the agent has told
    /// all, before its events were taken.
    fn look_after_pause(&mut self, told: bool, took_events: bool) {
        let is_at_rest = told && !took_events && self.waiting.is_empty() && !self.plane.is_busy();
        let is_answered = !self.plane.awaits_responses();
        if let Some(pause) = self.pause.as_mut().filter(|pause| pause.waits()) {
            pause.begin(is_at_rest, is_answered, &self.plane);
        }
    }

    /// Requests are taken again.
    fn resume(&mut self) {
        self.pause = None;
        // A node that has stopped is found out in the next round.
        let _ = self.data_plane.hold(false);
        let now = self.clock.now();
        for (from, datagram) in std::mem::take(&mut self.held) {
            self.plane.receive(now, from, &datagram);
        }
    }
}
