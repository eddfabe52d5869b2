//! The control plane as a state machine without I/O: what is due to be sent, and what
//! becomes of what is received.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::messages::{Messages, Received, Usage};
use crate::profile::{Load, Profile, Tunnels};
use crate::sessions::Sessions;
use crate::statistics::{Kind, Requests, Statistics};
use crate::transactions::{Overdue, Request, Transactions};

/// `Cause` of acceptance (TS 29.244 §8.2.1).
const ACCEPTED: u8 = 1;
/// Requests that are sent in one turn at most.
const TURN: u32 = 64;
/// Requests of the user plane that are remembered, to tell those that come again.
const REMEMBERED: usize = 4096;
/// Which session a request about none is about.
const NONE: u32 = 0;

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The association is set up.
    Associating,
    /// Sessions are established until all are there.
    Establishing,
    /// Sessions change.
    Loading,
    /// Sessions are deleted until none is there.
    Deleting,
    /// The association is released.
    Releasing,
    /// Nothing more is sent.
    Ended,
}

/// A control plane at work. Times are since its start.
pub struct ControlPlane {
    profile: Profile,
    messages: Messages,
    sessions: Sessions,
    transactions: Transactions,
    statistics: Statistics,
    random: Xoshiro256PlusPlus,
    phase: Phase,
    /// When the phase began, and how many requests were due in it so far and were dealt with.
    since: Duration,
    made: u64,
    next_heartbeat: Duration,
    /// Sequence numbers of the user plane's latest requests.
    heard: HashSet<u32>,
    heard_order: VecDeque<u32>,
    /// The user plane's Recovery Time Stamp.
    recovery: Option<u32>,
    /// Sessions that packets wait for.
    paged: VecDeque<u32>,
    /// Why the run ended before its time.
    failure: Option<String>,
    buffer: Vec<u8>,
}

impl ControlPlane {
    /// One that has sent nothing yet. `recovery` is its Recovery Time Stamp: seconds since 1900.
    pub fn new(profile: &Profile, recovery: u32) -> ControlPlane {
        ControlPlane {
            messages: Messages::new(profile, recovery),
            sessions: Sessions::new(profile),
            transactions: Transactions::new(profile.t1, profile.n1),
            statistics: Statistics::default(),
            random: Xoshiro256PlusPlus::seed_from_u64(profile.seed),
            phase: Phase::Associating,
            since: Duration::ZERO,
            made: 0,
            next_heartbeat: profile.heartbeat.unwrap_or(Duration::MAX),
            heard: HashSet::new(),
            heard_order: VecDeque::new(),
            recovery: None,
            paged: VecDeque::new(),
            failure: None,
            buffer: Vec::with_capacity(2048),
            profile: profile.clone(),
        }
    }

    /// Where the run is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What became of everything so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Why the run ended before its time, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Ends the load: sessions are deleted unless the profile keeps them.
    pub fn stop(&mut self, now: Duration) {
        if matches!(self.phase, Phase::Establishing | Phase::Loading) {
            self.end_load(now);
        } else if self.phase == Phase::Associating {
            self.fail("stopped before the association was there");
        }
    }

    /// Sends what is due.
    pub fn turn(&mut self, now: Duration, mut send: impl FnMut(&[u8])) {
        self.repeat(now, &mut send);
        if now >= self.next_heartbeat && self.phase != Phase::Ended {
            self.next_heartbeat = now + self.profile.heartbeat.unwrap_or(Duration::MAX);
            self.request(Kind::Heartbeat, NONE, now, &mut send);
        }
        match self.phase {
            Phase::Associating if self.made == 0 => {
                self.made = 1;
                self.request(Kind::Associate, NONE, now, &mut send);
            }
            Phase::Establishing => self.establish(now, &mut send),
            Phase::Loading => self.load(now, &mut send),
            Phase::Deleting => self.delete(now, &mut send),
            Phase::Releasing if self.made == 0 => {
                self.made = 1;
                self.request(Kind::Release, NONE, now, &mut send);
            }
            Phase::Associating | Phase::Releasing | Phase::Ended => {}
        }
    }

    fn room(&self) -> bool {
        self.transactions.len() < self.profile.outstanding as usize
    }

    /// How many requests are due at this rate and have not been made.
    fn due(&self, rate: f64, now: Duration) -> u64 {
        let due = (now.saturating_sub(self.since).as_secs_f64() * rate) as u64;
        due.saturating_sub(self.made)
    }

    fn establish(&mut self, now: Duration, send: &mut impl FnMut(&[u8])) {
        let due = self.profile.sessions.rate.map_or(u64::MAX, |rate| self.due(rate, now));
        for _ in 0..due.min(TURN.into()) {
            if !self.room() {
                return;
            }
            let Some(session) = self.sessions.pick(Kind::Establish, |_| 0) else { break };
            self.made += 1;
            self.request(Kind::Establish, session, now, send);
        }
        let ended = self.statistics.of(Kind::Establish);
        let (answered, lost) = (ended.answered, ended.lost);
        if answered + lost >= self.profile.sessions.count.into() {
            self.statistics.establishing = Some(now - self.since);
            match self.profile.load {
                Some(_) => self.enter(Phase::Loading, now),
                None => self.end_load(now),
            }
        }
    }

    fn load(&mut self, now: Duration, send: &mut impl FnMut(&[u8])) {
        let Some(load) = self.profile.load else { return self.end_load(now) };
        while self.room()
            && let Some(session) = self.paged.pop_front()
        {
            let one = self.sessions.get_mut(session);
            if one.idle && !one.busy {
                one.busy = true;
                self.request(Kind::ServiceRequest, session, now, send);
            }
        }
        for _ in 0..self.due(load.rate, now).min(TURN.into()) {
            if !self.room() {
                break;
            }
            self.made += 1;
            match self.draw(&load) {
                Some((kind, session)) => self.request(kind, session, now, send),
                None => self.statistics.unsent += 1,
            }
        }
        if now - self.since >= load.duration {
            self.end_load(now);
        }
    }

    /// The next request of the load, and the session that it is about.
    fn draw(&mut self, load: &Load) -> Option<(Kind, u32)> {
        let ControlPlane { random, sessions, .. } = self;
        let mut below = |most: u32| ((u64::from(random.next_u32()) * u64::from(most)) >> 32) as u32;
        let mut drawn = below(load.weights.iter().sum());
        let first = load.weights.iter().position(|weight| {
            let found = drawn < *weight;
            drawn = drawn.wrapping_sub(*weight);
            found
        })?;
        let order = (0..load.weights.len()).map(|nth| (first + nth) % load.weights.len());
        order.filter(|nth| load.weights[*nth] > 0).find_map(|nth| {
            let kind = Kind::LOAD[nth];
            Some((kind, sessions.pick(kind, &mut below)?))
        })
    }

    fn end_load(&mut self, now: Duration) {
        if let (Phase::Loading, Some(load)) = (self.phase, self.profile.load) {
            let lasted = now - self.since;
            self.statistics.unsent += self.due(load.rate, now.min(self.since + load.duration));
            self.statistics.loading = Some(lasted);
        }
        self.enter(Phase::Deleting, now);
    }

    fn delete(&mut self, now: Duration, send: &mut impl FnMut(&[u8])) {
        if self.profile.keep {
            if self.transactions.len() == 0 {
                self.phase = Phase::Ended;
            }
            return;
        }
        for _ in 0..TURN {
            if !self.room() {
                return;
            }
            let Some(session) = self.sessions.pick_last() else { break };
            self.statistics.deleted_at_end += 1;
            self.request(Kind::Delete, session, now, send);
        }
        if self.sessions.present() == 0 && self.transactions.len() == 0 {
            self.statistics.deleting = Some(now - self.since);
            self.enter(Phase::Releasing, now);
        }
    }

    fn enter(&mut self, phase: Phase, now: Duration) {
        (self.phase, self.since, self.made) = (phase, now, 0);
    }

    fn fail(&mut self, reason: impl Into<String>) {
        self.failure = Some(reason.into());
        self.phase = Phase::Ended;
    }

    fn request(&mut self, kind: Kind, session: u32, now: Duration, send: &mut impl FnMut(&[u8])) {
        let number = self.transactions.number();
        if kind == Kind::Handover {
            let stations = self.profile.sessions.stations.len().max(1) as u16;
            let one = self.sessions.get_mut(session);
            one.station = (one.station + 1) % stations;
        }
        self.buffer.clear();
        self.messages.request(kind, number, session, &self.sessions, &mut self.buffer);
        let is_load = self.phase == Phase::Loading && kind != Kind::Heartbeat;
        self.statistics.count(kind, is_load, |one| one.sent += 1);
        self.transactions.add(number, Request { kind, session, is_load }, &self.buffer, now);
        send(&self.buffer);
    }

    fn repeat(&mut self, now: Duration, send: &mut impl FnMut(&[u8])) {
        loop {
            let lost = match self.transactions.overdue(now) {
                None => return,
                Some(Overdue::Again(kind, is_load, octets)) => {
                    send(octets);
                    self.statistics.count(kind, is_load, |one| one.repeated += 1);
                    continue;
                }
                Some(Overdue::Lost(lost)) => lost,
            };
            self.statistics.count(lost.kind, lost.is_load, |one| one.lost += 1);
            match lost.kind {
                Kind::Associate => self.fail("the user plane does not answer"),
                Kind::Release => self.phase = Phase::Ended,
                Kind::Heartbeat => {}
                // Whether it is there is not known; it is not asked for any more.
                Kind::Establish | Kind::Delete => self.sessions.leave(lost.session),
                _ => self.sessions.get_mut(lost.session).busy = false,
            }
        }
    }

    /// Takes a datagram of the user plane and answers it if it is a request.
    pub fn receive(&mut self, datagram: &[u8], now: Duration, mut send: impl FnMut(&[u8])) {
        let Some(received) = Messages::read(datagram) else {
            self.statistics.wrong.malformed += 1;
            return;
        };
        match received.is_request {
            true => self.asked(&received, &mut send),
            false => self.answered(received, now),
        }
    }

    fn answered(&mut self, received: Received, now: Duration) {
        let Some(pending) = self.transactions.take(received.sequence) else {
            if !self.transactions.is_past(received.sequence) {
                self.statistics.wrong.unasked += 1;
            }
            return;
        };
        let (kind, session, is_load) = (pending.kind, pending.session, pending.is_load);
        let within = self.profile.answer_within;
        self.statistics.count(kind, is_load, |one| one.answer(now - pending.sent, within));
        self.recovered(received.recovery);
        if kind == Kind::Heartbeat {
            return;
        }
        let cause = received.cause.unwrap_or(0);
        if cause != ACCEPTED {
            let refuse = |one: &mut Requests| *one.refused.entry(cause).or_default() += 1;
            self.statistics.count(kind, is_load, refuse);
        }
        let of_session = !matches!(kind, Kind::Associate | Kind::Release);
        if of_session && cause == ACCEPTED && received.seid != self.sessions.seid(session) {
            self.statistics.wrong.seid += 1;
        }
        self.usage(session, &received.usage);
        match kind {
            Kind::Associate if cause == ACCEPTED => self.enter(Phase::Establishing, now),
            Kind::Associate => {
                let what = weft_pfcp::codec::Cause(cause).text();
                self.fail(format!(
                    "the user plane refuses the association: cause {cause} ({what})"
                ));
            }
            Kind::Release => self.phase = Phase::Ended,
            Kind::Establish if cause == ACCEPTED => self.established(session, &received),
            Kind::Establish => self.sessions.leave(session),
            Kind::Delete => self.sessions.leave(session),
            _ => {
                let one = self.sessions.get_mut(session);
                one.busy = false;
                if cause == ACCEPTED && kind != Kind::Query {
                    one.idle = kind == Kind::Idle;
                }
            }
        }
    }

    fn established(&mut self, session: u32, received: &Received) {
        let Some(remote) = received.up_seid else {
            self.statistics.wrong.without_tunnel += 1;
            return self.sessions.leave(session);
        };
        self.sessions.enter(session, remote);
        if matches!(self.profile.sessions.tunnels, Tunnels::Given { .. }) {
            return;
        }
        for pdr in self.profile.rules.pdrs.iter() {
            let Some(nth) = pdr.tunnel else { continue };
            let created = received.created.iter().find(|created| created.0 == pdr.id);
            match created {
                None => self.statistics.wrong.without_tunnel += 1,
                Some((_, tunnel)) => {
                    let free = self.sessions.chosen(session, nth, *tunnel);
                    self.statistics.wrong.tunnel_taken += u64::from(!free);
                }
            }
        }
    }

    /// Adds up what was reported of a session.
    fn usage(&mut self, session: u32, reports: &[Usage]) {
        for report in reports {
            let Statistics { octets, packets, .. } = &mut self.statistics;
            let octets = octets.iter_mut().zip(report.octets);
            let sums = octets.chain(packets.iter_mut().zip(report.packets));
            // A user plane may say anything.
            sums.for_each(|(sum, more)| *sum = sum.saturating_add(more));
            let urrs = &self.profile.rules.urrs;
            let Some(nth) = urrs.iter().position(|urr| urr.id == report.urr) else { continue };
            if !self.sessions.report(session, nth, report.number) {
                self.statistics.wrong.report_number += 1;
            }
        }
    }

    /// Notes whether the user plane has restarted.
    fn recovered(&mut self, stamp: Option<u32>) {
        let Some(stamp) = stamp else { return };
        if self.recovery.replace(stamp).is_some_and(|before| before != stamp) {
            self.statistics.restarts += 1;
            self.fail("the user plane has restarted: its Recovery Time Stamp is another one");
        }
    }

    /// Answers a request of the user plane.
    fn asked(&mut self, received: &Received, send: &mut impl FnMut(&[u8])) {
        let session = received.report.and_then(|_| self.sessions.find(received.seid));
        self.buffer.clear();
        let remote = session.map(|session| self.sessions.get(session).remote);
        if !self.messages.answer(received, remote, &mut self.buffer) {
            self.statistics.wrong.malformed += 1;
            return;
        }
        send(&self.buffer);
        if !self.heard.insert(received.sequence) {
            self.statistics.asked.repeated += 1;
            return;
        }
        self.heard_order.push_back(received.sequence);
        if self.heard_order.len() > REMEMBERED {
            self.heard_order.pop_front().map(|oldest| self.heard.remove(&oldest));
        }
        let Some(report) = received.report else {
            match received.recovery {
                Some(_) => self.statistics.asked.heartbeats += 1,
                None => self.statistics.asked.node += 1,
            }
            return self.recovered(received.recovery);
        };
        let asked = &mut self.statistics.asked;
        asked.downlink_data += u64::from(report.downlink_data);
        asked.usage += u64::from(report.usage);
        asked.other_reports += u64::from(!report.downlink_data && !report.usage);
        let Some(session) = session else {
            asked.unknown_session += 1;
            return;
        };
        if report.downlink_data {
            self.paged.push_back(session);
        }
        self.usage(session, &received.usage);
    }
}
