//! The thread of one node's part in a pair.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_mobility_protocol::standby::{StandbyStep, Standing};
use weft_mobility_protocol::{Envelope, Epoch, Incarnation, Message, NodeId};
use weft_mobility_transport::{Event, Transport, TransportError};
use weft_state::{Feed, Store};

use crate::clock::Clock;
use crate::handoff::{Handoff, Released};
use crate::input::{Connected, Ends, Input, connect, size};
use crate::mirror::Mirror;
use crate::options::Options;
use crate::owner::Owner;
use crate::told::Told;
use crate::view::PairView;

/// How often the thread looks after itself, and how many signs of life go in a lease.
const BEAT: Duration = Duration::from_millis(20);
const BEATS: u32 = 5;
/// The time between two signs of life before the lease is known.
const FIRST: Duration = Duration::from_millis(100);

/// One node's part in a pair, until it is dropped.
#[derive(Debug)]
pub struct Pair {
    inputs: Sender<Input>,
    view: Arc<Mutex<PairView>>,
    thread: Option<JoinHandle<()>>,
}

impl Pair {
    /// Takes part with `store`. `told` is called with the records while the node stands by, once
    /// when it owns the users, and when it must end; `extend` with each moment up to which it
    /// owns them.
    ///
    /// # Errors
    /// [`TransportError`].
    pub fn start(
        options: Options,
        store: Store,
        told: impl Fn(Told) + Send + 'static,
        extend: impl Fn(Instant) + Send + 'static,
    ) -> Result<Pair, TransportError> {
        let (inputs, received) = mpsc::channel();
        let (told, extend) = (Box::new(told), Box::new(extend));
        let ends = Ends { inputs, view: Arc::default(), told, extend, clock: Clock::new() };
        let connected = connect(&options, &ends)?;
        Pair::run(ends, move |ends| {
            let mut work = Work::new(options, connected, ends);
            match Mirror::new(store, work.bound) {
                Ok(mirror) => work.part = Part::Mirror(Box::new(mirror)),
                Err(error) => return work.end(error.to_string()),
            }
            work.run(&received);
        })
    }

    /// Runs a node's part in a thread of its own.
    pub(crate) fn run(
        ends: Ends,
        run: impl FnOnce(Ends) + Send + 'static,
    ) -> Result<Pair, TransportError> {
        let (inputs, view) = (ends.inputs.clone(), ends.view.clone());
        let thread = thread::Builder::new().name("standby".to_owned());
        let thread = thread.spawn(move || run(ends)).map_err(TransportError::Thread)?;
        Ok(Pair { inputs, view, thread: Some(thread) })
    }

    /// Gives the node's part to another process of the node, if it owns the users: what that
    /// [goes on](crate::Successor::go_on) with. Nothing is said or heard here until it is known
    /// what becomes of that.
    pub fn give(&self) -> Option<(Vec<u8>, Released)> {
        let (say, handoff) = mpsc::channel();
        let (decide, decided) = mpsc::channel();
        self.inputs.send(Input::Give(say, decided)).ok()?;
        let handoff = handoff.recv().ok()??;
        Some((handoff.write(), Released(decide)))
    }

    /// Whether its thread has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The node cannot go on with the records that it was told of: it is told of all again, if it
    /// still stands by.
    pub fn follow_anew(&self) {
        let _ = self.inputs.send(Input::Anew);
    }

    /// The node is built with the records that it was told of, or is not any more: the controller
    /// is to know.
    pub fn built(&self, is_built: bool) {
        let _ = self.inputs.send(Input::Built(is_built));
    }

    /// What it is at the moment, for any thread to ask.
    pub fn view(&self) -> impl Fn() -> PairView + Send + Sync + use<> {
        let view = self.view.clone();
        move || view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The node has stopped, and its store with it: gives the standby what it does not have, and
    /// the users. Whether the standby has all.
    pub fn leave(&self, patience: Duration) -> bool {
        let (done, has_all) = mpsc::channel();
        let until = Instant::now() + patience;
        let asked = self.inputs.send(Input::Leave(until, done));
        asked.is_ok() && has_all.recv().unwrap_or(false)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = self.inputs.send(Input::Stop);
        // It may have ended by itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

pub(crate) enum Part {
    Mirror(Box<Mirror>),
    Owner(Box<Owner>),
    Over,
}

pub(crate) struct Work {
    own: NodeId,
    incarnation: Incarnation,
    waits: bool,
    bound: usize,
    transport: Transport,
    clock: Clock,
    inputs: Sender<Input>,
    waiting: Arc<AtomicUsize>,
    told: Box<dyn Fn(Told) + Send>,
    extend: Box<dyn Fn(Instant) + Send>,
    view: Arc<Mutex<PairView>>,
    pub part: Part,
    every: Duration,
}

impl Work {
    pub fn new(options: Options, connected: Connected, ends: Ends) -> Work {
        let Ends { inputs, view, told, extend, clock } = ends;
        let Connected(transport, waiting) = connected;
        Work {
            own: options.transport.node,
            incarnation: options.incarnation,
            waits: options.waits,
            bound: options.bound,
            transport,
            clock,
            inputs,
            waiting,
            told,
            extend,
            view,
            part: Part::Over,
            every: FIRST,
        }
    }

    pub fn run(&mut self, inputs: &Receiver<Input>) {
        let mut beat = Instant::now();
        loop {
            match inputs.recv_timeout(BEAT) {
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Input::Leave(until, done)) => {
                    let has_all = self.leave(inputs, until);
                    let _ = done.send(has_all);
                    return;
                }
                Ok(Input::Give(say, decided)) => {
                    if self.gives(&say, &decided) {
                        return;
                    }
                }
                Ok(input) => {
                    self.take(input);
                    self.pass_on();
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if matches!(self.part, Part::Over) {
                return;
            }
            if beat <= Instant::now() {
                beat = Instant::now() + self.every;
                self.beat();
            }
            if self.misses_owner() {
                // The controller is to know soon.
                beat = beat.min(Instant::now() + BEAT);
            }
            self.pump();
        }
    }

    /// Whether this is a standby that could own the users now.
    fn misses_owner(&self) -> bool {
        let Part::Mirror(mirror) = &self.part else { return false };
        mirror.misses_owner(self.clock.now())
    }

    fn take(&mut self, input: Input) {
        let now = self.clock.now();
        match (input, &mut self.part) {
            (Input::Arrived(event), _) => {
                self.waiting.fetch_sub(size(&event), Ordering::Relaxed);
                if let Event::Message(Envelope { from, message: Message::Standby(step), .. }) =
                    event
                {
                    self.hear(from, step);
                }
            }
            (Input::Copy(base, source), Part::Owner(owner)) => {
                owner.copies(Some((base, source)), now);
            }
            (Input::NoCopy, Part::Owner(owner)) => owner.copies(None, now),
            (Input::Durable(position), Part::Mirror(mirror)) => {
                mirror.durable(position);
                mirror.follow(&self.inputs);
                self.attend();
            }
            (Input::NotDurable | Input::Anew, Part::Mirror(mirror)) => mirror.follow.anew(),
            (Input::Built(is_built), Part::Mirror(mirror)) => mirror.follow.built(is_built),
            (Input::All(asked, copy), Part::Mirror(mirror)) => mirror.follow.all(asked, copy),
            _ => {}
        }
    }

    fn hear(&mut self, from: NodeId, step: StandbyStep) {
        let (now, clock) = (self.clock.now(), self.clock);
        match (&mut self.part, step) {
            (Part::Owner(owner), StandbyStep::Grant { epoch, stamp, lease, whole, peer })
                if from == NodeId::CONTROLLER && epoch == owner.epoch && clock.has_said(stamp) =>
            {
                owner.granted(stamp, lease, whole, peer);
                self.every = Duration::from_millis(lease.into()) / BEATS;
                self.extend();
            }
            (Part::Owner(owner), StandbyStep::Deny { epoch, peer, .. })
                if from == NodeId::CONTROLLER && epoch > owner.epoch =>
            {
                self.end(format!("node {} owns the users, in epoch {}", peer.0, epoch.0));
            }
            (Part::Owner(owner), StandbyStep::Leave { epoch })
                if from == NodeId::CONTROLLER && epoch == owner.epoch =>
            {
                (self.told)(Told::Leave);
            }
            (Part::Owner(owner), StandbyStep::Attend { epoch, stamp, position })
                if Some(from) == owner.peer && epoch == owner.epoch =>
            {
                let stamp = if clock.has_said(stamp) { stamp } else { 0 };
                owner.attended(stamp, position, now, &self.inputs);
                self.extend();
            }
            (Part::Mirror(mirror), StandbyStep::Deny { epoch, lease, peer, .. })
                if from == NodeId::CONTROLLER =>
            {
                mirror.denied(epoch, lease, peer);
                self.every = Duration::from_millis(lease.into()) / BEATS;
            }
            (Part::Mirror(mirror), StandbyStep::Grant { epoch, stamp, lease, whole, peer })
                if from == NodeId::CONTROLLER && clock.has_said(stamp) =>
            {
                self.every = Duration::from_millis(lease.into()) / BEATS;
                if mirror.may_own(epoch, lease, peer, now) {
                    self.own(epoch, (stamp, lease, whole, peer));
                }
            }
            (Part::Mirror(mirror), StandbyStep::Alive { epoch, stamp, newest, leaves })
                if Some(from) == mirror.peer =>
            {
                let lives = mirror.alive(epoch, (stamp, newest, leaves), now);
                self.answer_owner(lives);
            }
            (Part::Mirror(mirror), StandbyStep::Records { epoch, at, is_last, octets })
                if Some(from) == mirror.peer =>
            {
                if let Err(error) = mirror.records((epoch, at, is_last), &octets, now, &self.inputs)
                {
                    self.end(format!("records of the other node: {error}"));
                }
            }
            (Part::Owner(owner), _) => owner.refused += 1,
            (Part::Mirror(mirror), _) => mirror.refused += 1,
            (Part::Over, _) => {}
        }
    }

    /// The owner has said whether it lives.
    fn answer_owner(&mut self, lives: Option<bool>) {
        match lives {
            Some(true) => self.attend(),
            // The controller is to know at once.
            Some(false) => self.beat(),
            None => {}
        }
    }

    /// Tells the node what a standby has for it.
    fn pass_on(&mut self) {
        let Part::Mirror(mirror) = &mut self.part else { return };
        mirror.follow.take_told().into_iter().for_each(|told| (self.told)(told));
    }

    fn own(&mut self, epoch: Epoch, grant: (u64, u32, bool, NodeId)) {
        let Part::Mirror(mirror) = &mut self.part else { return };
        let mut store = match mirror.own(epoch) {
            Ok(store) => store,
            Err(error) => return self.end(error.to_string()),
        };
        let inputs = self.inputs.clone();
        let feed = Feed::new(self.bound, move || drop(inputs.send(Input::Fed)));
        store.feed_into(feed.clone());
        let now = self.clock.now();
        let mut owner = Owner::new((epoch, self.incarnation), feed, self.waits, now);
        let (stamp, lease, whole, peer) = grant;
        owner.granted(stamp, lease, whole, peer);
        self.part = Part::Owner(Box::new(owner));
        self.extend();
        tracing::info!(epoch = epoch.0, "the node owns the users");
        (self.told)(Told::Own(store, epoch));
        self.beat();
    }

    fn end(&mut self, why: String) {
        // What was owned is not any more.
        (self.extend)(Instant::now());
        self.part = Part::Over;
        (self.told)(Told::End(why));
    }

    fn extend(&self) {
        if let Part::Owner(owner) = &self.part {
            (self.extend)(self.clock.moment(owner.until()));
        }
    }

    fn send(&self, to: NodeId, step: StandbyStep) {
        self.transport.sender().send(Envelope {
            from: self.own,
            from_incarnation: self.incarnation,
            to,
            to_incarnation: Incarnation(0),
            message: Message::Standby(step),
        });
    }

    fn attend(&mut self) {
        let Part::Mirror(mirror) = &self.part else { return };
        if let (Some(peer), Some(step)) = (mirror.peer, mirror.attend()) {
            self.send(peer, step);
        }
    }

    fn beat(&mut self) {
        let now = self.clock.now();
        let shown = match &mut self.part {
            Part::Mirror(mirror) => {
                mirror.follow(&self.inputs);
                let claim = mirror.claim(now);
                let shown = mirror.view(now);
                self.send(NodeId::CONTROLLER, claim);
                self.attend();
                shown
            }
            Part::Owner(owner) => {
                let (claim, alive) = owner.beat(now);
                let (peer, shown) = (owner.peer, owner.view(now));
                self.send(NodeId::CONTROLLER, claim);
                if let (Some(peer), Some(alive)) = (peer, alive) {
                    self.send(peer, alive);
                }
                shown
            }
            Part::Over => return,
        };
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    fn pump(&mut self) {
        let now = self.clock.now();
        let Part::Owner(owner) = &mut self.part else { return };
        let (steps, peer) = (owner.pump(now), owner.peer);
        if let Some(peer) = peer {
            steps.into_iter().for_each(|step| self.send(peer, step));
        }
    }

    /// Another process may go on with this part: whether it does. Without a word it may.
    fn gives(&mut self, say: &Sender<Option<Handoff>>, decided: &Receiver<bool>) -> bool {
        let handoff = match &self.part {
            Part::Owner(owner) => Some(owner.handoff(self.clock.now())),
            _ => None,
        };
        let is_owner = handoff.is_some();
        let is_heard = say.send(handoff).is_ok();
        if !is_owner || !is_heard || decided.recv() == Ok(false) {
            return false;
        }
        (self.extend)(Instant::now());
        true
    }

    /// Gives the standby the rest, then tells it and the controller that the users are free.
    fn leave(&mut self, inputs: &Receiver<Input>, until: Instant) -> bool {
        /// How long the last words may take to leave.
        const LAST: Duration = Duration::from_millis(200);
        let mut beat = Instant::now();
        let has_all = loop {
            let Part::Owner(owner) = &self.part else { return false };
            if owner.is_level() || !owner.view(self.clock.now()).hears || Instant::now() >= until {
                break owner.is_level();
            }
            if let Ok(input) = inputs.recv_timeout(BEAT) {
                self.take(input);
            }
            if beat <= Instant::now() {
                beat = Instant::now() + self.every;
                self.beat();
            }
            self.pump();
        };
        let now = self.clock.now();
        if let Part::Owner(owner) = &self.part {
            let (epoch, peer) = (owner.epoch, owner.peer);
            let alive = owner.alive(now, true);
            (self.extend)(Instant::now());
            if let Some(peer) = peer {
                self.send(peer, alive);
            }
            let (standing, whole) = (Standing::Leaves, has_all);
            let claim = StandbyStep::Claim {
                epoch,
                stamp: now,
                standing,
                whole,
                hears: false,
                built: false,
            };
            self.send(NodeId::CONTROLLER, claim);
        }
        thread::sleep(LAST);
        has_all
    }
}
