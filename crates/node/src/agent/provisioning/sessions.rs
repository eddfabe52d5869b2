//! Commands about PFCP sessions.

use std::sync::Arc;

use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::{Configure, UserChange};
use weft_dataplane::gates::tunnel::FIRST_TEID;
use weft_functions::session::rules::{FarId, Session, Urr};
use weft_functions::session::usage::Question;
use weft_node_config::UserKey;

use super::Provisioning;
use crate::agent::state::Added;
use crate::bearer::session::{
    Query, SessionCommand, SessionEntry, SessionError, SessionFunctions, SessionId,
    SessionsChanged, StagedSessions, has_timers,
};
use crate::bearer::{MOST_WAITING, key_text};

impl Provisioning<'_> {
    /// Changes sessions, each command whole or not at all.
    pub fn change_sessions(&mut self, commands: &[SessionCommand]) -> SessionsChanged {
        let mut staged = StagedSessions::of(self.workers, true);
        let results = commands.iter().map(|command| self.apply_session(command, &mut staged));
        let results = results.collect();
        let batch = self.subscribers.sessions.commit(staged, self.workers);
        SessionsChanged { batch, results }
    }

    fn apply_session(
        &mut self,
        command: &SessionCommand,
        staged: &mut StagedSessions,
    ) -> Result<(), SessionError> {
        if self.persistence.is_given_away() {
            return Err(SessionError::Busy);
        }
        if self.workers.waiting() + staged.changes.iter().map(Vec::len).sum::<usize>()
            >= MOST_WAITING
        {
            return Err(SessionError::Busy);
        }
        match command {
            SessionCommand::Establish { id, like, rules } => {
                self.establish(*id, like, rules, staged)
            }
            SessionCommand::Modify { id, rules, end_markers, query, drop_waiting } => {
                self.modify(*id, rules, (end_markers, query, *drop_waiting), staged)
            }
            SessionCommand::Remove { id } => self.remove_session(*id, staged),
        }
    }

    pub fn establish(
        &mut self,
        id: SessionId,
        like: &Arc<str>,
        rules: &Arc<Session>,
        staged: &mut StagedSessions,
    ) -> Result<(), SessionError> {
        let sessions = &self.subscribers.sessions;
        if sessions.entries.contains_key(&id) {
            return Err(SessionError::Exists(id));
        }
        let users = &self.subscribers.users;
        let template = users.template(like).ok_or_else(|| SessionError::NoPlan(like.clone()))?;
        let record = template.record;
        let functions = sessions.functions.clone();
        let is_of_session = |number: u16| functions.all().any(|one| one == number);
        let of_plan: Vec<_> = template
            .settings
            .iter()
            .filter(|(number, _)| !is_of_session(*number as u16))
            .cloned()
            .collect();
        let mut entry = SessionEntry::new(0, like.clone(), rules.clone());
        self.check_session(&entry, &functions)?;
        let keys = sessions.keys(rules);
        if keys.is_empty() {
            return Err(SessionError::NoKey);
        }
        self.check_session_keys(&keys)?;
        let slot = self.subscribers.users.take(record.group, &keys);
        let slot = slot.map_err(|_| SessionError::NoRoom)?;
        entry.slot = slot;
        for key in &keys {
            // There is room: it was counted.
            let _ = self.subscribers.bearers.taken.insert(key, slot);
        }
        let own = &mut staged.changes[self.workers.owner(slot)];
        own.push(UserChange::Record(slot, UserRecord { present: true, ..record }));
        own.extend(of_plan.into_iter().map(|(number, settings)| {
            UserChange::Configure(Configure { function: number as u16, slot, settings, nth: 0 })
        }));
        own.extend(functions.all().map(|number| UserChange::Configure(entry.configure(number))));
        if has_timers(rules) {
            staged.ask(&functions, (id, slot), Question::Due);
        }
        self.subscribers.sessions.start_inactivity(id, &mut entry, self.clock.now());
        for key in &keys {
            staged.changes.iter_mut().for_each(|list| list.push(UserChange::Key(*key, slot)));
        }
        self.enter_session(id, entry);
        self.persistence.keep_contexts_of(Added::Session(id), slot);
        Ok(())
    }

    fn modify(
        &mut self,
        id: SessionId,
        rules: &Arc<Session>,
        (end_markers, query, drop_waiting): (&[FarId], &Query, bool),
        staged: &mut StagedSessions,
    ) -> Result<(), SessionError> {
        let sessions = &self.subscribers.sessions;
        let before = sessions.entries.get(&id).ok_or(SessionError::Unknown(id))?.clone();
        let functions = sessions.functions.clone();
        let mut after = SessionEntry::new(before.slot, before.like.clone(), rules.clone());
        self.check_session(&after, &functions)?;
        let (old, new) = (sessions.keys(&before.rules), sessions.keys(rules));
        if new.is_empty() {
            return Err(SessionError::NoKey);
        }
        let come: Vec<_> = new.iter().filter(|key| !old.contains(key)).copied().collect();
        let gone: Vec<_> = old.iter().filter(|key| !new.contains(key)).copied().collect();
        self.check_session_keys(&come)?;
        let slot = before.slot;
        match query {
            Query::None => {}
            Query::Of(rules) => {
                staged.ask(&functions, (id, slot), Question::Of(rules.clone()));
            }
            Query::All => staged.ask(&functions, (id, slot), Question::All),
        }
        let is_gone = |old: &&Urr| rules.urrs.iter().all(|rule| !rule.is(old));
        let last: Vec<_> = before.rules.urrs.iter().filter(is_gone).map(|rule| rule.id).collect();
        if !last.is_empty() {
            staged.ask(&functions, (id, slot), Question::Last(last));
        }
        let own = &mut staged.changes[self.workers.owner(slot)];
        if !end_markers.is_empty() {
            own.extend(ends_of_tunnels(&after, end_markers, &functions));
        }
        if drop_waiting {
            let detection = functions.detection.iter();
            own.extend(detection.map(|function| UserChange::Forget { function: *function, slot }));
        }
        own.extend(functions.all().map(|number| UserChange::Configure(after.configure(number))));
        if has_timers(rules) {
            staged.ask(&functions, (id, slot), Question::Due);
        }
        for key in &gone {
            self.subscribers.bearers.taken.remove(key);
            staged.changes.iter_mut().for_each(|list| list.push(UserChange::Unkey(*key)));
        }
        for key in &come {
            // There is room: it was counted.
            let _ = self.subscribers.bearers.taken.insert(key, slot);
            staged.changes.iter_mut().for_each(|list| list.push(UserChange::Key(*key, slot)));
        }
        after.asked = before.asked;
        self.subscribers.sessions.start_inactivity(id, &mut after, self.clock.now());
        self.leave_session(id);
        self.enter_session(id, after);
        Ok(())
    }

    pub fn remove_session(
        &mut self,
        id: SessionId,
        staged: &mut StagedSessions,
    ) -> Result<(), SessionError> {
        let sessions = &self.subscribers.sessions;
        let entry = sessions.entries.get(&id).ok_or(SessionError::Unknown(id))?;
        let (slot, keys) = (entry.slot, sessions.keys(&entry.rules));
        let functions = sessions.functions.clone();
        if !entry.rules.urrs.is_empty() {
            staged.ask(&functions, (id, slot), Question::End);
        }
        for key in &keys {
            self.subscribers.bearers.taken.remove(key);
            staged.changes.iter_mut().for_each(|list| list.push(UserChange::Unkey(*key)));
        }
        let own = &mut staged.changes[self.workers.owner(slot)];
        own.push(UserChange::Remove { user: slot, contexts: vec![slot] });
        self.leave_session(id);
        self.subscribers.users.give_back(slot);
        Ok(())
    }

    /// Puts a session into the record.
    fn enter_session(&mut self, id: SessionId, entry: SessionEntry) {
        let now = self.clock.now();
        let sessions = &mut self.subscribers.sessions;
        let ends = entry.tunnels(&sessions.functions, self.trials);
        sessions.tunnels.enter(id, ends, &mut self.gtpu_peers.paths, now);
        sessions.by_slot.insert(entry.slot, id);
        sessions.entries.insert(id, entry);
    }

    /// Takes it out.
    fn leave_session(&mut self, id: SessionId) {
        let sessions = &mut self.subscribers.sessions;
        let Some(entry) = sessions.entries.remove(&id) else { return };
        let ends = entry.tunnels(&sessions.functions, self.trials);
        sessions.tunnels.leave(id, ends, &mut self.gtpu_peers.paths);
        sessions.by_slot.remove(&entry.slot);
    }

    /// Whether functions take the rules of a session, and its tunnels begin at the node.
    fn check_session(
        &self,
        entry: &SessionEntry,
        functions: &SessionFunctions,
    ) -> Result<(), SessionError> {
        let detection = functions.detection.first().ok_or(SessionError::NoFunction)?;
        let instance = self.trials.instance(usize::from(*detection));
        instance
            .check(&entry.settings, 1)
            .map_err(|error| SessionError::Rule { path: error.path, message: error.message })?;
        for end in entry.tunnels(functions, self.trials) {
            if self.ports.with_address(end.local).is_none() {
                let message = format!("no port has the address {}", end.local);
                return Err(SessionError::Rule { path: "fars".to_owned(), message });
            }
        }
        Ok(())
    }

    /// Whether all `keys` are free and have room.
    fn check_session_keys(&self, keys: &[UserKey]) -> Result<(), SessionError> {
        let taken = &self.subscribers.bearers.taken;
        for key in keys {
            if taken.get(key).is_some() {
                return Err(SessionError::KeyTaken(key_text(key)));
            }
            if let UserKey::Teid { first, .. } = *key
                && self.blueprint.handover.is_some()
                && first >= FIRST_TEID
            {
                return Err(SessionError::KeyTaken(key_text(key)));
            }
        }
        if taken.has_room_for(keys) { Ok(()) } else { Err(SessionError::NoRoom) }
    }
}

/// End Markers go into the tunnels of these forwarding action rules, where they change.
fn ends_of_tunnels<'a>(
    after: &SessionEntry,
    end_markers: &[FarId],
    functions: &'a SessionFunctions,
) -> impl Iterator<Item = UserChange> + use<'a> {
    let mut marked = Session { fars: after.rules.fars.clone(), ..Session::default() };
    marked.fars.iter_mut().for_each(|far| far.end_marker = end_markers.contains(&far.id));
    let marked = SessionEntry::new(after.slot, after.like.clone(), Arc::new(marked));
    let functions = functions.forwarding.iter();
    functions.map(move |number| UserChange::EndTunnels {
        user: marked.slot,
        next: marked.configure(*number),
    })
}
