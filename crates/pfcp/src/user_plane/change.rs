//! Session modification and deletion (§6.3.3, §6.3.4).

use std::net::IpAddr;
use std::sync::Arc;

use weft_functions::session::rules::{Extended, Session, UrrId};
use weft_node::bearer::session::{Query, SessionCommand, SessionId};

use super::UserPlane;
use super::session::{Change, Record, Work};
use crate::codec::Cause;
use crate::codec::element::{GracePeriod, ModificationFlags};
use crate::codec::message::SessionModificationRequest;
use crate::codec::rule::UpdateBarInReport;
use crate::refusal::Refusal;
use crate::transactions::TransactionId;
use crate::translate::{Draft, Drafted, Extras, rule_of_urr};

/// Nanoseconds after which a session whose change is under way is looked at again.
const RETRY: u64 = 1_000_000;

impl UserPlane {
    /// The session of a SEID, if the sender may speak of it: it is the control plane that the
    /// session belongs to.
    pub(super) fn owned(&self, seid: u64, from: IpAddr) -> Option<&Record> {
        let record = self.sessions.get(&seid)?;
        let association = record.association.and_then(|id| self.associations.get(id));
        let is_owner = association.is_some_and(|association| association.address == from)
            || record.cp_address == from && record.association.is_some();
        is_owner.then_some(record)
    }

    pub(super) fn modify(
        &mut self,
        id: TransactionId,
        seid: u64,
        request: &SessionModificationRequest<'_>,
    ) -> Result<(), Refusal> {
        let from = id.from.ip();
        let not_found = Refusal::cause(Cause::SESSION_NOT_FOUND);
        let record = self.owned(seid, from).ok_or(not_found)?;
        let (cp_seid, owner) = (record.cp_seid, record.association);
        let before = record.rules.clone();
        let extras = record.extras.as_deref().cloned().unwrap_or_default();
        let cp = request.fseid.map(|fseid| (fseid.seid, fseid.like(from).unwrap_or(from)));
        if let Some((_, address)) = cp {
            self.proxied.note_alike(address, from);
        }
        let query = query(request, &before)?;
        let mut draft = self.draft((*before).clone(), extras, owner);
        if !request.update_fars.is_empty() {
            // The control plane has decided: what was to wait longer meets its rules now.
            draft.extend_buffering(None);
        }
        if let Some(seconds) = request.inactivity {
            draft.rules.inactivity = Some(seconds.0).filter(|seconds| *seconds > 0);
        }
        if !request.sets.is_empty() {
            draft.extras.sets.clone_from(&request.sets);
        }
        let outcome = change(&mut draft, request);
        draft.choose_chains();
        let drafted = draft.finish(outcome)?;
        let Drafted { rules, extras, created, created_endpoints, end_markers, acquired } = drafted;
        if !self.admission.begin(&before, &rules) {
            acquired.give_back(&mut self.interfaces);
            return Err(Refusal::cause(Cause::NO_RESOURCES));
        }
        let (created, updated) = created
            .into_iter()
            .partition(|one| request.create_pdrs.iter().any(|pdr| pdr.id == one.id));
        let change = Change {
            seid,
            cp_seid,
            id: Some(id),
            rules: Arc::new(rules),
            extras: (extras != Extras::default()).then(|| Box::new(extras)),
            created,
            updated,
            created_endpoints,
            acquired,
            gone: Vec::new(),
            query: request.query_reference,
            cp,
        };
        let command = SessionCommand::Modify {
            id: SessionId(seid),
            rules: change.rules.clone(),
            end_markers,
            query,
            drop_waiting: request.flags.is_some_and(|flags| flags.has(ModificationFlags::DROBU)),
        };
        self.put(seid, command, Work::Change(Box::new(change)));
        Ok(())
    }

    fn put(&mut self, seid: u64, command: SessionCommand, work: Work) {
        if let Some(record) = self.sessions.get_mut(&seid) {
            record.is_committing = true;
        }
        self.commands.push(command);
        self.works.push(work);
    }

    pub(super) fn delete(&mut self, id: TransactionId, seid: u64) -> Result<(), Refusal> {
        let record = self.owned(seid, id.from.ip());
        let cp_seid = record.ok_or(Refusal::cause(Cause::SESSION_NOT_FOUND))?.cp_seid;
        let command = SessionCommand::Remove { id: SessionId(seid) };
        self.put(seid, command, Work::Delete { seid, cp_seid, id: Some(id), record: None });
        Ok(())
    }

    /// Gives up a session without a word to its control plane. False if a command about it is
    /// not committed yet.
    pub(super) fn give_up(&mut self, seid: u64) -> bool {
        let Some(record) = self.sessions.get(&seid) else { return true };
        if record.is_committing {
            return false;
        }
        let cp_seid = record.cp_seid;
        let command = SessionCommand::Remove { id: SessionId(seid) };
        self.put(seid, command, Work::Delete { seid, cp_seid, id: None, record: None });
        true
    }

    /// What a report's response says of buffering (§7.5.9).
    pub(super) fn change_buffering(
        &mut self,
        now: u64,
        seid: u64,
        update: Option<&UpdateBarInReport>,
        drop_waiting: bool,
    ) {
        // A timer of 0 is stopped (§8.2.29).
        let duration = update.and_then(|update| update.buffering_duration);
        let duration = duration.filter(|duration| duration.seconds() != Some(0));
        self.alter(seid, drop_waiting, |draft| {
            let Some(update) = update else { return Ok(()) };
            draft.update_bar(update.id, update.notification_delay, update.packets)?;
            let extended = duration
                .map(|_| Extended { packets: update.buffering_packets.map(|count| count.0) });
            draft.extend_buffering(extended);
            Ok(())
        });
        if let Some(seconds) = duration.and_then(GracePeriod::seconds) {
            let ends = now.saturating_add(seconds.saturating_mul(1_000_000_000));
            self.extended.insert((ends, seid));
        }
    }

    /// Ends extended buffering whose time has come: what waits is dropped, and the next packet is
    /// told again.
    pub(super) fn end_buffering(&mut self, now: u64) {
        while let Some(&(time, seid)) = self.extended.first().filter(|(time, _)| *time <= now) {
            self.extended.pop_first();
            let Some(record) = self.sessions.get(&seid) else { continue };
            if record.is_committing {
                self.extended.insert((time.max(now) + RETRY, seid));
                continue;
            }
            if record.rules.bars.iter().all(|bar| bar.extended.is_none()) {
                // The user has come, or is to come later.
                continue;
            }
            self.alter(seid, true, |draft| {
                draft.extend_buffering(None);
                Ok(())
            });
        }
    }

    /// Gives PDRs the filters that their applications have now. False if a command about the
    /// session is not committed yet.
    pub(super) fn filter_anew(&mut self, seid: u64) -> bool {
        if self.is_committing(seid) {
            return false;
        }
        self.alter(seid, false, |draft| {
            draft.filter_anew();
            Ok(())
        });
        true
    }

    /// Changes a session without a request of its control plane.
    fn alter(
        &mut self,
        seid: u64,
        drop_waiting: bool,
        edit: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal>,
    ) {
        let Some(record) = self.sessions.get(&seid).filter(|record| !record.is_committing) else {
            return;
        };
        let (cp_seid, owner, before) = (record.cp_seid, record.association, record.rules.clone());
        let extras = record.extras.as_deref().cloned().unwrap_or_default();
        let mut draft = self.draft((*before).clone(), extras, owner);
        let outcome = edit(&mut draft);
        let Ok(drafted) = draft.finish(outcome) else { return };
        let change = Change {
            seid,
            cp_seid,
            id: None,
            rules: Arc::new(drafted.rules),
            extras: (drafted.extras != Extras::default()).then(|| Box::new(drafted.extras)),
            created: Vec::new(),
            updated: Vec::new(),
            created_endpoints: Vec::new(),
            acquired: drafted.acquired,
            gone: Vec::new(),
            query: None,
            cp: None,
        };
        let command = SessionCommand::Modify {
            id: SessionId(seid),
            rules: change.rules.clone(),
            end_markers: Vec::new(),
            query: Query::None,
            drop_waiting,
        };
        self.put(seid, command, Work::Change(Box::new(change)));
    }
}

/// Whose usage the request asks for.
fn query(request: &SessionModificationRequest<'_>, before: &Session) -> Result<Query, Refusal> {
    let flags = request.flags.unwrap_or_default();
    let known =
        ModificationFlags::DROBU.with(ModificationFlags::SNDEM).with(ModificationFlags::QAURR);
    if !flags.without(known).is_empty() {
        return Err(Refusal::unsupported(crate::codec::ie::PFCPSMREQ_FLAGS));
    }
    if flags.has(ModificationFlags::QAURR) {
        return Ok(Query::All);
    }
    if request.queries.is_empty() {
        return Ok(Query::None);
    }
    let asked: Vec<_> = request.queries.iter().map(|query| UrrId(query.id.0)).collect();
    let unknown = asked.iter().find(|id| before.urrs.iter().all(|urr| urr.id != **id));
    unknown.map_or(Ok(()), |unknown| Err(Refusal::rule(rule_of_urr(*unknown))))?;
    Ok(Query::Of(asked))
}

/// Removals come first, so that numbers are free, then what is new, then what changes.
fn change(draft: &mut Draft<'_>, request: &SessionModificationRequest<'_>) -> Result<(), Refusal> {
    request.remove_pdrs.iter().try_for_each(|one| draft.remove_pdr(one.id))?;
    request.remove_fars.iter().try_for_each(|one| draft.remove_far(one.id))?;
    request.remove_qers.iter().try_for_each(|one| draft.remove_qer(one.id))?;
    request.remove_urrs.iter().try_for_each(|one| draft.remove_urr(one.id))?;
    request.remove_bar.iter().try_for_each(|one| draft.remove_bar(one.id))?;
    request.remove_endpoints.iter().try_for_each(|one| draft.remove_endpoint(one.id))?;
    // A rule of a number that another had before is another rule.
    draft.extras.creations += u32::from(!request.create_urrs.is_empty());
    request.create_bar.iter().try_for_each(|one| draft.create_bar(one))?;
    request.create_endpoints.iter().try_for_each(|one| draft.create_endpoint(one))?;
    request.create_urrs.iter().try_for_each(|one| draft.create_urr(one))?;
    request.create_qers.iter().try_for_each(|one| draft.create_qer(one))?;
    request.create_fars.iter().try_for_each(|one| draft.create_far(one))?;
    request.create_pdrs.iter().try_for_each(|one| draft.create_pdr(one))?;
    request.update_bar.iter().try_for_each(|one| {
        one.refused.map_or(Ok(()), |element| Err(Refusal::unsupported(element)))?;
        draft.update_bar(one.id, one.notification_delay, one.packets)
    })?;
    request.update_endpoints.iter().try_for_each(|one| draft.update_endpoint(one))?;
    request.update_urrs.iter().try_for_each(|one| draft.update_urr(one))?;
    request.update_qers.iter().try_for_each(|one| draft.update_qer(one))?;
    request.update_fars.iter().try_for_each(|one| draft.update_far(one))?;
    request.update_pdrs.iter().try_for_each(|one| draft.update_pdr(one))?;
    // SNDEM of the whole message is of each tunnel that it changes.
    if request.flags.is_some_and(|flags| flags.has(ModificationFlags::SNDEM)) {
        let changed = request.update_fars.iter().map(|one| one.id.0);
        let changed = changed.map(weft_functions::session::rules::FarId);
        draft.end_markers = changed.collect();
    }
    Ok(())
}
