//! PFCP sessions that outlive the node. The control protocol says what is kept and when, as it
//! answers for it; here it is written.

use weft_functions::session::rules::UrrId;
use weft_node_config::Blueprint;
use weft_state::{Change, Done, Kind};

use super::Persistence;
use crate::bearer::session::{Keep, SessionId, VERSION};
use crate::subscribers::Whose;

/// Sessions, by their numbers.
pub(in crate::agent) const SESSIONS: Kind = Kind(64);
/// Numbers of the next reports of rules, by session and rule.
pub(in crate::agent) const REPORTED: Kind = Kind(65);
/// Notes of the control protocol, by keys of its own.
pub(in crate::agent) const NOTES: Kind = Kind(66);

impl Persistence {
    /// Keeps something of sessions; `done` is called once that is durable, and at once where
    /// nothing is kept.
    pub fn keep(&mut self, keep: Vec<Keep>, done: Done, blueprint: &Blueprint) {
        if self.keeps() {
            let mut changes = Vec::with_capacity(keep.len());
            for one in keep {
                if let Keep::Gone(id) = one {
                    self.forget_contexts(&Whose::Session(id), &mut changes, blueprint);
                }
                changes.push(change_of(one));
            }
            self.keep_changes(changes);
        }
        self.when_durable(done);
    }
}

/// The record of what is to be kept.
pub(in crate::agent) fn change_of(keep: Keep) -> Change {
    match keep {
        Keep::Session(id, octets) => Change::put(SESSIONS, &id.0.to_be_bytes(), VERSION, &octets),
        Keep::Gone(id) => Change::remove(SESSIONS, &id.0.to_be_bytes()),
        Keep::Reported { session, urr, next } => {
            let key = reported_key(session, urr);
            match next {
                Some((created, next)) => {
                    let octets = [created.to_le_bytes(), next.to_le_bytes()].concat();
                    Change::put(REPORTED, &key, VERSION, &octets)
                }
                None => Change::remove(REPORTED, &key),
            }
        }
        Keep::Note(key, Some(octets)) => Change::put(NOTES, &key, VERSION, &octets),
        Keep::Note(key, None) => Change::remove(NOTES, &key),
    }
}

fn reported_key(session: SessionId, urr: UrrId) -> Vec<u8> {
    let mut key = session.0.to_be_bytes().to_vec();
    key.extend(urr.0.to_be_bytes());
    key
}
