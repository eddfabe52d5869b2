//! The node as PFCP sees it: a state machine without input and output.
//!
//! [`receive`](UserPlane::receive), [`event`](UserPlane::event) and [`poll`](UserPlane::poll)
//! take what has happened; [`take_commands`](UserPlane::take_commands) and
//! [`take_datagrams`](UserPlane::take_datagrams) give what is to be done. A request about a
//! session goes four ways: it is read and checked against the session's record, it becomes a
//! command to the agent, [`committed`](UserPlane::committed) says whether the agent has taken
//! the command, and [`SessionEvent::Applied`] says that packets see it. Then it is answered.
//!
//! Times are nanoseconds since the node started.

mod admission;
mod change;
mod establish;
mod kept;
mod load;
mod node;
mod proxied;
pub(crate) mod refusing;
mod release;
mod reports;
mod send;
mod session;
pub mod show;

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weft_node::bearer::Numbered;
use weft_node::bearer::session::{Keep, SessionCommand, SessionEvent, SessionsChanged};
use weft_node_config::{PfcpNodeId, PfcpPlan};

use crate::associations::{AssociationId, Associations, is_within};
use crate::codec::element::{FSeid, NodeId, Text, Time};
use crate::codec::message::MessageType;
use crate::codec::{Cause, Defect, Elements, Error, Frame, Header, Message, Value, frames, ie};
use crate::interfaces::{Entropy, Interfaces};
use crate::refusal::Refusal;
use crate::transactions::{Incoming, Outgoing, Overdue, Seen, TransactionId};
use crate::translate::{Applications, Known};

use self::admission::Admission;
use self::kept::Keeping;
use self::load::Load;
use self::proxied::Proxied;
pub(crate) use self::proxied::Route;
use self::session::{Record, Work};
pub use self::show::Counts;

/// Requests of the node that wait for a response at once.
const OUTGOING: usize = 65_536;
/// Datagrams that wait for a session's change before them.
const DEFERRED: usize = 4096;
/// Sessions that are given up, or change, in one round, so that other work goes on.
const RELEASES: usize = 512;

/// A datagram to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it goes.
    pub to: SocketAddr,
    /// What is in it.
    pub octets: Vec<u8>,
    /// Whether it is sent only once what was to be [kept](UserPlane::take_kept) is durable.
    pub waits: bool,
}

/// What requests of the node are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Heartbeat(AssociationId),
    NodeReport,
    SessionReport {
        seid: u64,
        /// The number by which it is kept.
        kept: Option<u64>,
    },
    /// That the node has deleted a session.
    Deletion(u64),
    /// That the association is to be released.
    ReleaseRequest,
}

/// Whether a datagram begins with a response.
pub(crate) fn is_response(datagram: &[u8]) -> bool {
    let kind = datagram.get(1).and_then(|number| MessageType::from_number(*number));
    kind.is_some_and(|kind| !kind.is_request())
}

/// Where the node stands when it starts.
pub struct Start {
    /// Its Recovery Time Stamp, seconds since 1970.
    pub recovery: u64,
    /// What the node's time 0 was, seconds since 1970.
    pub epoch: u64,
    /// Numbers that nothing outside can predict, for SEIDs and TEIDs.
    pub entropy: Entropy,
}

/// The node as PFCP sees it.
pub struct UserPlane {
    plan: PfcpPlan,
    /// The Node ID as octets of labels, if it is a name.
    node_name: Vec<u8>,
    like: Arc<str>,
    recovery: Time,
    epoch: u64,
    entropy: Entropy,
    interfaces: Interfaces,
    applications: Applications,
    associations: Associations,
    /// By SEIDs, which the node draws at random.
    sessions: Numbered<u64, Record>,
    incoming: Incoming,
    outgoing: Outgoing<Sent>,
    commands: Vec<SessionCommand>,
    /// What the commands are about, in the same order.
    works: Vec<Work>,
    /// What waits for packets to see a batch of commands, and what is kept then.
    applying: Numbered<u64, Vec<(Work, Vec<Keep>)>>,
    deferred: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Sessions that are to be given up, and those that get other filters.
    releasing: Vec<u64>,
    filtering: Vec<u64>,
    /// Too many requests wait for another session.
    is_congested: bool,
    /// Rules that sessions have in common.
    known: Known,
    /// When extended buffering of sessions ends.
    extended: BTreeSet<(u64, u64)>,
    datagrams: Vec<Datagram>,
    counts: Counts,
    messages: show::Messages,
    keeping: Keeping,
    load: Load,
    admission: Admission,
    proxied: Proxied,
}

impl UserPlane {
    /// A node without associations.
    #[must_use]
    pub fn new(plan: PfcpPlan, start: Start) -> UserPlane {
        let Start { recovery, epoch, mut entropy } = start;
        let nanoseconds =
            |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let t1 = nanoseconds(plan.t1);
        // A peer repeats a request for N1 times T1; its values may be larger than ours.
        let keep = t1.saturating_mul(u64::from(plan.n1) + 1);
        let node_name = match &plan.node_id {
            PfcpNodeId::Address(_) => Vec::new(),
            PfcpNodeId::Name(name) => Text::labels_of(name),
        };
        let first_sequence = entropy() as u32;
        UserPlane {
            node_name,
            like: plan.like.as_str().into(),
            recovery: Time::from_unix(recovery),
            epoch,
            interfaces: Interfaces::new(&plan.interfaces, &plan.chains, plan.teids_below),
            applications: Applications::new(),
            associations: Associations::default(),
            sessions: Numbered::default(),
            incoming: Incoming::new(plan.transactions, keep),
            outgoing: Outgoing::new(OUTGOING, t1, plan.n1, first_sequence),
            commands: Vec::new(),
            works: Vec::new(),
            applying: Numbered::default(),
            deferred: VecDeque::new(),
            releasing: Vec::new(),
            filtering: Vec::new(),
            is_congested: false,
            known: Known::default(),
            extended: BTreeSet::new(),
            datagrams: Vec::new(),
            counts: Counts::default(),
            messages: show::Messages::default(),
            keeping: Keeping::default(),
            load: Load::new(recovery),
            admission: Admission::new(plan.guaranteed),
            proxied: Proxied::default(),
            entropy,
            plan,
        }
    }

    /// Too many requests wait, or do not any more: while they do, no session is established (cause
    /// 74).
    pub fn note_congestion(&mut self, is_congested: bool) {
        self.is_congested = is_congested;
    }

    /// A datagram has come.
    pub fn receive(&mut self, now: u64, from: SocketAddr, datagram: &[u8]) {
        if self.take_forwarded(now, from, datagram) {
            return;
        }
        if !self.is_peer(from.ip()) && !is_within(&self.plan.proxies, from.ip()) {
            self.counts.unlisted += 1;
            return;
        }
        self.counts.received += 1;
        for frame in frames(datagram) {
            match frame {
                Ok(frame) => self.take_message(now, from, &frame, datagram),
                Err(error) => self.take_unreadable(from, error, datagram),
            }
        }
    }

    fn is_peer(&self, address: IpAddr) -> bool {
        self.plan.peers.is_empty() || is_within(&self.plan.peers, address)
    }

    /// No message: one of another version is answered (§7.6.2), anything else is not.
    fn take_unreadable(&mut self, from: SocketAddr, error: Error, datagram: &[u8]) {
        self.counts.unreadable += 1;
        if error.defect != Defect::Version {
            return;
        }
        if let Some(sequence) = Frame::foreign_sequence(datagram) {
            let answer = Message::VersionNotSupported(Default::default());
            self.send(from, &Header { seid: None, sequence, priority: None }, &answer);
        }
    }

    fn take_message(&mut self, now: u64, from: SocketAddr, frame: &Frame<'_>, datagram: &[u8]) {
        let Some(kind) = MessageType::from_number(frame.message) else {
            // Unknown messages are not answered (§7.6.5).
            self.counts.unknown_messages += 1;
            return;
        };
        if !kind.is_request() {
            return self.take_response(now, from, kind, frame);
        }
        let id = TransactionId { from, sequence: frame.header.sequence };
        // A session whose change is under way must not change by what it was before.
        if frame.header.seid.is_some_and(|seid| self.is_committing(seid)) {
            self.defer(from, datagram);
            return;
        }
        self.messages.received(kind, None);
        let content = (frame.message, frame.header.seid, frame.body);
        match self.incoming.note(id, content, now) {
            Seen::New => {}
            Seen::Pending => {
                self.counts.repeated += 1;
                return;
            }
            Seen::Answered(response) => {
                let octets = response.to_vec();
                self.counts.repeated += 1;
                self.send_kept(from, octets);
                return;
            }
            Seen::NoRoom => {
                // The peer repeats it, and there may be room then.
                self.counts.no_transaction += 1;
                self.load.note_overload();
                return;
            }
        }
        if let Err(refusal) = self.take_request(now, id, kind, frame) {
            let seid = self.peer_seid(from.ip(), kind, frame);
            self.refuse(id, kind, seid, refusal);
        }
    }

    /// The control plane's SEID, for the header of a response; 0 if it is not known (§7.2.2.4.2).
    fn peer_seid(&self, from: IpAddr, kind: MessageType, frame: &Frame<'_>) -> Option<u64> {
        let own = frame.header.seid?;
        if kind == MessageType::SessionEstablishmentRequest {
            let fseid =
                Elements::new(frame.body).flatten().find(|(element, _)| *element == ie::F_SEID);
            let fseid = fseid.and_then(|(element, octets)| FSeid::parse(element, octets).ok());
            return Some(fseid.map_or(0, |fseid| fseid.seid));
        }
        Some(self.owned(own, from).map_or(0, |record| record.cp_seid))
    }

    fn defer(&mut self, from: SocketAddr, datagram: &[u8]) {
        if self.deferred.len() < DEFERRED {
            self.deferred.push_back((from, datagram.to_vec()));
        } else {
            self.counts.no_transaction += 1;
            self.load.note_overload();
        }
    }

    fn take_request(
        &mut self,
        now: u64,
        id: TransactionId,
        kind: MessageType,
        frame: &Frame<'_>,
    ) -> Result<(), Refusal> {
        if kind.has_seid() != frame.header.seid.is_some() {
            self.counts.unreadable += 1;
            return Err(Error::new(Defect::Truncated, 0).into());
        }
        if self.is_congested && kind == MessageType::SessionEstablishmentRequest {
            // To say so costs little; what relieves the node goes on.
            return Err(Refusal::cause(Cause::CONGESTION));
        }
        let message = Message::parse(frame)?;
        if let Some(element) = message.refused() {
            return Err(Refusal::unsupported(element));
        }
        let seid = frame.header.seid.unwrap_or(0);
        match message {
            Message::HeartbeatRequest(request) => self.take_heartbeat(now, id, &request),
            Message::PfdManagementRequest(request) => self.manage_pfds(id, &request)?,
            Message::AssociationSetupRequest(request) => self.set_up(now, id, &request)?,
            Message::AssociationUpdateRequest(request) => self.update(id, &request)?,
            Message::AssociationReleaseRequest(request) => self.end(id, &request)?,
            Message::SessionSetDeletionRequest(request) => self.delete_sets(id, &request)?,
            Message::SessionSetModificationRequest(request) => self.move_sets(id, &request)?,
            Message::SessionEstablishmentRequest(request) => self.establish(id, &request)?,
            Message::SessionModificationRequest(request) => self.modify(id, seid, &request)?,
            Message::SessionDeletionRequest(_) => self.delete(id, seid)?,
            // Those that a user plane sends.
            _ => return Err(Refusal::cause(Cause::NOT_SUPPORTED)),
        }
        Ok(())
    }

    fn take_response(&mut self, now: u64, from: SocketAddr, kind: MessageType, frame: &Frame<'_>) {
        let parsed = Message::parse(frame);
        self.messages.received(kind, parsed.as_ref().ok().and_then(Message::cause));
        let Some(what) = self.outgoing.answered(from, frame.header.sequence) else {
            self.counts.unexpected += 1;
            return;
        };
        // A response that cannot be read is as good as one that says nothing (§7.6).
        match (what, parsed) {
            (Sent::Heartbeat(id), Ok(Message::HeartbeatResponse(response))) => {
                self.hear_recovery(now, id, response.recovery);
            }
            (Sent::SessionReport { seid, kept }, Ok(Message::SessionReportResponse(response))) => {
                self.forget_report(kept);
                self.take_report_response(now, seid, &response);
            }
            (_, Ok(_)) => {}
            (_, Err(_)) => self.counts.unreadable += 1,
        }
    }

    /// What is due by now: requests that are sent again, heartbeats, sessions that are given
    /// up. Returns whether there is more to do at once.
    pub fn poll(&mut self, now: u64) -> bool {
        while let Some(overdue) = self.outgoing.overdue(now) {
            match overdue {
                Overdue::Again(to, octets) => {
                    self.counts.sent_again += 1;
                    self.datagrams.push(Datagram { to, octets: octets.into(), waits: false });
                }
                Overdue::Failed(what) => {
                    self.counts.unanswered += 1;
                    match what {
                        Sent::Heartbeat(id) => self.miss_heartbeat(now, id),
                        Sent::SessionReport { kept, .. } => self.forget_report(kept),
                        Sent::NodeReport | Sent::Deletion(_) | Sent::ReleaseRequest => {}
                    }
                }
            }
        }
        self.look_after_associations(now);
        self.end_buffering(now);
        self.release_some();
        self.filter_some();
        self.has_more()
    }

    /// When something is due next.
    #[must_use]
    pub fn next_time(&self) -> Option<u64> {
        let of_associations = self.associations.iter().flat_map(|(_, one)| {
            let heartbeat = self.plan.heartbeat.map(|_| one.heartbeat);
            [heartbeat, one.lost_until].into_iter().flatten()
        });
        let of_buffering = self.extended.first().map(|(time, _)| *time);
        of_associations.chain(self.outgoing.next_time()).chain(of_buffering).min()
    }

    /// The commands for the agent. [`committed`](Self::committed) tells what came of them.
    pub fn take_commands(&mut self) -> Vec<SessionCommand> {
        std::mem::take(&mut self.commands)
    }

    /// The agent has taken, or refused, the commands.
    pub fn committed(&mut self, now: u64, changed: SessionsChanged) {
        let works = std::mem::take(&mut self.works);
        let mut applying = Vec::with_capacity(works.len());
        for (work, result) in works.into_iter().zip(changed.results) {
            match result {
                Ok(()) => {
                    let work = self.commit(work);
                    let kept = self.to_keep(&work);
                    applying.push((work, kept));
                }
                Err(error) => self.abandon(work, &error),
            }
        }
        if !applying.is_empty() {
            self.applying.insert(changed.batch, applying);
        }
        for (from, datagram) in std::mem::take(&mut self.deferred) {
            self.receive(now, from, &datagram);
        }
    }

    /// Something has happened in the node.
    pub fn event(&mut self, now: u64, event: SessionEvent) {
        match event {
            SessionEvent::Applied { batch, usage, told } => {
                self.applied(batch, usage);
                self.keeping.reported = told;
            }
            SessionEvent::Usage { session, usage, told } => {
                self.report_usage(now, session.0, &usage);
                self.keeping.reported = told;
            }
            SessionEvent::DownlinkData { session, pdr } => {
                self.report_downlink_data(now, session.0, pdr);
            }
            SessionEvent::ErrorIndication { session, teid, peer } => {
                self.report_error_indication(now, session.0, teid, peer);
            }
            SessionEvent::Inactive { session } => self.report_inactivity(now, session.0),
        }
    }

    /// Whether requests wait until packets see what they change, or more is to be given up.
    #[must_use]
    pub fn awaits_events(&self) -> bool {
        !self.applying.is_empty() || self.has_more()
    }

    /// Whether a request is being worked on.
    pub(crate) fn is_busy(&self) -> bool {
        let has_work = !self.commands.is_empty() || !self.works.is_empty();
        has_work || self.awaits_events() || !self.deferred.is_empty()
    }

    /// Whether reports wait for responses.
    pub(crate) fn awaits_responses(&self) -> bool {
        self.outgoing.any(|what| matches!(what, Sent::SessionReport { .. }))
    }

    fn has_more(&self) -> bool {
        !self.releasing.is_empty() || !self.filtering.is_empty()
    }

    /// Tunnel endpoints in use.
    #[cfg(test)]
    pub(crate) fn tunnels_in_use(&self) -> usize {
        self.interfaces.teids()
    }

    /// Whether there are sessions.
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// The node's own identity.
    fn node_id(&self) -> NodeId<'_> {
        match &self.plan.node_id {
            PfcpNodeId::Address(address) => NodeId::Address(*address),
            PfcpNodeId::Name(_) => NodeId::Fqdn(Text(&self.node_name)),
        }
    }

    /// The node's address for a peer.
    fn own_address(&self, peer: IpAddr) -> IpAddr {
        let same = self.plan.listen.iter().find(|own| own.is_ipv4() == peer.is_ipv4());
        same.or(self.plan.listen.first()).copied().unwrap_or(peer)
    }

    /// A time of the node as seconds since 1900.
    fn ntp(&self, time: i64) -> Time {
        Time::from_unix(self.epoch.saturating_add_signed(time.div_euclid(1_000_000_000)))
    }
}
