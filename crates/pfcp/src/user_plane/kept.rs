//! What outlives the node, where the node keeps state (TS 23.527 §4.3: a user plane that has
//! kept its sessions goes on with the Recovery Time Stamp that it had).
//!
//! A change of a session is kept together with what follows from it: the number of each usage
//! report, and the response. All of it becomes durable at once, and the response is sent then.
//! So a node that dies has done a request and knows its response, or has not done it; and the
//! peer, which repeats what is not answered, sees no difference.

mod notes;

use weft_node::bearer::session::{Keep, Kept, KeptSession, SessionId};

use self::notes::{Answer, AssociationNote, Key, SessionNote};
use super::session::{Change, Record, Work};
use super::{Datagram, Sent, UserPlane};
use crate::associations::{Association, AssociationId};
use crate::codec::element::{CpFeatures, ReportRequestFlags, ReportType, Time};
use crate::codec::message::SessionReportRequest;
use crate::codec::{Frame, Message};
use crate::transactions::TransactionId;
use crate::translate::keys;
use weft_functions::session::usage::Usage;

/// What is to be kept.
#[derive(Default)]
pub(super) struct Keeping {
    /// Whether anything is.
    pub is_on: bool,
    /// What is to be kept next, in order.
    list: Vec<Keep>,
    /// Numbers of the next response and the next report that are kept.
    answers: u64,
    reports: u64,
    /// The newest usage of which the list, or one before it, says that it is reported.
    pub(super) reported: u64,
}

impl UserPlane {
    /// What is to be kept, in order. Datagrams that [wait](Datagram::waits) may be sent once it
    /// is durable, with all that was given before.
    pub fn take_kept(&mut self) -> Vec<Keep> {
        std::mem::take(&mut self.keeping.list)
    }

    /// The newest [usage](weft_node::bearer::session::SessionEvent) that was heard: what was given
    /// to be kept says that it is reported.
    pub fn reported(&self) -> u64 {
        if self.keeping.is_on { self.keeping.reported } else { 0 }
    }

    fn note(&mut self, key: Key, octets: Option<Vec<u8>>) {
        if self.keeping.is_on {
            self.keeping.list.push(Keep::Note(key.to_octets(), octets));
        }
    }

    pub(super) fn keep_all(&mut self, kept: Vec<Keep>) {
        self.keeping.list.extend(kept);
    }

    /// Keeps an association as it is, or that there is none any more.
    pub(super) fn keep_association(&mut self, id: AssociationId) {
        if !self.keeping.is_on {
            return;
        }
        let note = self.associations.get(id).map(|one| self.association_to_keep(one));
        self.note(Key::Association(id.0), note);
    }

    fn association_to_keep(&self, one: &Association) -> Vec<u8> {
        AssociationNote::of(one, self.proxied.route(one.address)).to_octets()
    }

    /// Keeps the filters of applications that have changed.
    pub(super) fn keep_applications(&mut self, before: &crate::translate::Applications) {
        if !self.keeping.is_on {
            return;
        }
        let gone = before.keys().filter(|name| !self.applications.contains_key(*name));
        let mut changed: Vec<_> = gone.map(|name| (name.to_string(), None)).collect();
        for (name, filters) in &self.applications {
            if before.get(name) != Some(filters) {
                changed.push((name.to_string(), Some(notes::of_filters(filters))));
            }
        }
        for (name, octets) in changed {
            self.note(Key::Application(name), octets);
        }
    }

    /// A session as it is kept.
    pub(super) fn session_to_keep(&self, seid: u64) -> Option<Keep> {
        let record = self.sessions.get(&seid)?;
        let note = SessionNote {
            cp_seid: record.cp_seid,
            cp_address: record.cp_address,
            association: record.association.map(|id| id.0),
            extras: record.extras.clone(),
        };
        let note = note.to_octets();
        Some(Keep::session(SessionId(seid), &self.like, &record.rules, &note))
    }

    /// What is kept of a command that the agent has taken, once packets see it.
    pub(super) fn to_keep(&self, work: &Work) -> Vec<Keep> {
        if !self.keeping.is_on {
            return Vec::new();
        }
        match work {
            Work::Establish { seid, .. } => self.session_to_keep(*seid).into_iter().collect(),
            Work::Change(change) => {
                let Change { seid, gone, .. } = &**change;
                let session = SessionId(*seid);
                let gone = gone.iter().map(|urr| Keep::Reported {
                    session,
                    urr: *urr,
                    next: None,
                    end: 0,
                });
                gone.chain(self.session_to_keep(*seid)).collect()
            }
            Work::Delete { seid, record, .. } => {
                let session = SessionId(*seid);
                let urrs = record.iter().flat_map(|record| &record.rules.urrs);
                let reported =
                    urrs.map(|urr| Keep::Reported { session, urr: urr.id, next: None, end: 0 });
                reported.chain([Keep::Gone(session)]).collect()
            }
        }
    }

    /// All that is to be kept beside [sessions](Self::to_keep_of), for another process that goes on
    /// with the node: it hears nothing else of what was before. Usage needs no numbers of reports
    /// beside, as contexts go along.
    pub(crate) fn notes_to_keep(&self) -> Vec<Keep> {
        let note = |key: Key, octets| Keep::Note(key.to_octets(), Some(octets));
        let mut all = vec![note(Key::Recovery, self.recovery.0.to_be_bytes().to_vec())];
        all.extend(
            self.associations
                .iter()
                .map(|(id, one)| note(Key::Association(id.0), self.association_to_keep(one))),
        );
        all.extend(self.applications.iter().map(|(name, filters)| {
            note(Key::Application(name.to_string()), notes::of_filters(filters))
        }));
        let answered: Vec<_> = self.incoming.answered().collect();
        let first = self.keeping.answers.saturating_sub(answered.len() as u64);
        all.extend(answered.into_iter().zip(first..).map(
            |((request, digest, response), serial)| {
                let place = (serial % self.plan.transactions.max(1) as u64) as u32;
                let answer = Answer { serial, digest, request, response };
                note(Key::Answer(place), answer.to_octets())
            },
        ));
        let mut numbers = self.keeping.reports..;
        for (octets, what) in self.outgoing.in_order() {
            if let Sent::SessionReport { seid, kept } = what {
                let Some(number) = kept.or_else(|| numbers.next()) else { break };
                let octets = [&seid.to_be_bytes()[..], octets].concat();
                all.push(note(Key::Report(number), octets));
            }
        }
        all
    }

    /// The SEIDs of all sessions.
    pub(crate) fn seids(&self) -> Vec<u64> {
        self.sessions.keys().copied().collect()
    }

    /// These sessions, as they are to be kept.
    pub(crate) fn to_keep_of(&self, seids: &[u64]) -> impl Iterator<Item = Keep> {
        seids.iter().filter_map(|seid| self.session_to_keep(*seid))
    }

    /// Usage has been reported: it is not to be counted once more.
    pub(super) fn keep_reported(&mut self, seid: u64, usage: &[Usage]) {
        if !self.keeping.is_on {
            return;
        }
        let Some(record) = self.sessions.get(&seid) else { return };
        for one in usage {
            let Some(rule) = record.rules.urrs.iter().find(|urr| urr.id == one.urr) else {
                continue;
            };
            let next = Some((rule.created, one.sequence.wrapping_add(1)));
            let session = SessionId(seid);
            self.keeping.list.push(Keep::Reported { session, urr: one.urr, next, end: one.end });
        }
    }

    /// Keeps the response to a request. Whether it has to wait until that is durable.
    pub(super) fn keep_answer(
        &mut self,
        request: TransactionId,
        digest: Option<u64>,
        response: &[u8],
    ) -> bool {
        let Some(digest) = digest.filter(|_| self.keeping.is_on) else { return false };
        // The oldest makes room.
        let serial = self.keeping.answers;
        self.keeping.answers += 1;
        let place = (serial % self.plan.transactions.max(1) as u64) as u32;
        let answer = Answer { serial, digest, request, response };
        self.note(Key::Answer(place), Some(answer.to_octets()));
        true
    }

    /// Keeps a report until it is answered: the number by which it is known, if it is kept.
    pub(super) fn keep_report(&mut self, seid: u64, octets: &[u8]) -> Option<u64> {
        if !self.keeping.is_on {
            return None;
        }
        let number = self.keeping.reports;
        self.keeping.reports += 1;
        let octets = [&seid.to_be_bytes()[..], octets].concat();
        self.note(Key::Report(number), Some(octets));
        Some(number)
    }

    /// A report was answered, or will not be.
    pub(super) fn forget_report(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            self.note(Key::Report(number), None);
        }
    }

    /// Goes on with what was kept in the node's last life.
    pub fn restore(&mut self, now: u64, kept: Kept) {
        let Kept { keeps, sessions, notes } = kept;
        self.keeping.is_on = keeps;
        let mut recovery = None;
        let (mut reports, mut answers) = (Vec::new(), Vec::new());
        for (key, octets) in &notes {
            let read = Key::read(key).and_then(|key| {
                match key {
                    Key::Recovery => recovery = Some(u32::from_be_bytes(*octets.first_chunk()?)),
                    Key::Association(id) => self.restore_association(now, id, octets)?,
                    Key::Application(name) => {
                        self.applications.insert(name.into(), notes::to_filters(octets)?);
                    }
                    Key::Answer(_) => answers.push(Answer::read(octets)?),
                    Key::Report(number) => reports.push((number, octets.split_first_chunk()?)),
                }
                Some(())
            });
            if read.is_none() {
                tracing::error!("PFCP: a note of the node's last life cannot be read");
            }
        }
        match recovery {
            Some(recovery) => self.recovery = Time(recovery),
            None => self.note(Key::Recovery, Some(self.recovery.0.to_be_bytes().to_vec())),
        }
        answers.sort_by_key(|answer| answer.serial);
        for Answer { serial, digest, request, response } in answers {
            self.keeping.answers = serial + 1;
            self.incoming.restore(request, digest, response, now);
        }
        let count = sessions.len();
        // What has changed of an application may not have reached them.
        let of_applications = |record: &Record| {
            let pdrs = record.extras.iter().flat_map(|extras| &extras.pdrs);
            pdrs.clone().any(|pdr| pdr.traits.application.is_some())
        };
        sessions.into_iter().for_each(|session| self.restore_session(now, session));
        let sessions = self.sessions.iter();
        let found = sessions.filter(|(_, record)| of_applications(record)).map(|(seid, _)| *seid);
        self.filtering.extend(found);
        if count > 0 || self.associations.len() > 0 {
            tracing::info!(
                sessions = count,
                associations = self.associations.len(),
                recovery = self.recovery.unix(),
                "PFCP goes on"
            );
        }
        reports.sort_by_key(|(number, _)| *number);
        for (number, (seid, octets)) in reports {
            self.keeping.reports = self.keeping.reports.max(number + 1);
            self.report_again(now, number, u64::from_be_bytes(*seid), octets);
        }
    }

    fn restore_association(&mut self, now: u64, id: u32, octets: &[u8]) -> Option<()> {
        let note = AssociationNote::read(octets)?;
        let stay = u64::try_from(self.plan.restoration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(route) = note.route {
            self.proxied.note(note.address, route);
        }
        let association = Association {
            node: note.node,
            address: note.address,
            recovery: note.recovery,
            features: CpFeatures(note.features),
            sessions: Vec::new(),
            // It hears at once that the node is there again.
            heartbeat: now,
            lost_until: note.is_lost.then(|| now.saturating_add(stay)),
        };
        self.associations.add_as(AssociationId(id), association);
        Some(())
    }

    fn restore_session(&mut self, now: u64, session: KeptSession) {
        let KeptSession { id: SessionId(seid), rules, note, is_there } = session;
        let note = SessionNote::read(&note);
        if !is_there {
            self.keeping.list.push(Keep::Gone(SessionId(seid)));
            if let Some(note) = note {
                self.tell_deleted(now, seid, (note.cp_address, note.cp_seid));
            }
            return;
        }
        let Some(note) = note else {
            tracing::error!(session = %SessionId(seid), "its control plane is not known any more");
            self.releasing.push(seid);
            return;
        };
        let (tunnels, addresses) = keys(&rules, note.extras.as_deref());
        for (network, tunnel) in tunnels {
            self.interfaces.claim(&network, tunnel);
        }
        for address in addresses {
            self.interfaces.note_address(address);
        }
        if rules.bars.iter().any(|bar| bar.extended.is_some()) {
            // What waited is lost, and so is the time: the next packet is told again.
            self.extended.insert((now, seid));
        }
        let association = note.association.map(AssociationId);
        let known = association.and_then(|id| self.associations.get_mut(id));
        if let Some(owner) = &known {
            self.proxied.note_alike(note.cp_address, owner.address);
        }
        let place = known.map(|association| {
            association.sessions.push(seid);
            association.sessions.len() as u32 - 1
        });
        if place.is_none() {
            // It was being given up.
            self.releasing.push(seid);
        }
        self.admission.note(&rules);
        self.sessions.insert(
            seid,
            Record {
                cp_seid: note.cp_seid,
                cp_address: note.cp_address,
                association: association.filter(|_| place.is_some()),
                place: place.unwrap_or(0),
                is_committing: false,
                rules,
                extras: note.extras,
            },
        );
    }

    /// Tells a control plane that the node has deleted a session (§5.18, PSDBU).
    pub(super) fn tell_deleted(
        &mut self,
        now: u64,
        seid: u64,
        (address, cp_seid): (std::net::IpAddr, u64),
    ) {
        let message = Message::SessionReportRequest(SessionReportRequest {
            report: ReportType::UISR,
            flags: Some(ReportRequestFlags::PSDBU),
            ..SessionReportRequest::default()
        });
        self.ask(now, address, Some(cp_seid), &message, Sent::Deletion(seid));
    }

    /// Sends a report again that was not answered in the node's last life.
    fn report_again(&mut self, now: u64, number: u64, seid: u64, octets: &[u8]) {
        let record = self.sessions.get(&seid);
        let (Some(record), Ok((frame, _))) = (record, Frame::parse(octets)) else {
            return self.forget_report(Some(number));
        };
        let Ok(message) = Message::parse(&frame) else {
            return self.forget_report(Some(number));
        };
        let to = record.cp_address;
        let sent = Sent::SessionReport { seid, kept: Some(number) };
        let sequence = frame.header.sequence;
        if !self.outgoing.is_free(sequence) {
            self.ask(now, to, frame.header.seid, &message, sent);
            return;
        }
        // To a peer that has had it, it is the same request once more.
        let to = std::net::SocketAddr::new(to, crate::PORT);
        self.outgoing.note(sequence, to, octets, sent, now);
        self.counts.sent_again += 1;
        self.send_kept(to, octets.to_vec());
    }

    /// A datagram that is sent once what is kept is durable.
    pub(super) fn send_kept(&mut self, to: std::net::SocketAddr, octets: Vec<u8>) {
        let waits = self.keeping.is_on;
        self.datagrams.push(Datagram { to, octets, waits });
    }
}
