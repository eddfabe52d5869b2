//! PFCP sessions that outlive the node. The control protocol says what is kept and when, as it
//! answers for it; here it is written.

use std::time::{SystemTime, UNIX_EPOCH};

use weft_dataplane::clock::Clock;
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
    pub fn keep(&mut self, keep: Vec<Keep>, done: Done, (blueprint, clock): (&Blueprint, &Clock)) {
        if self.keeps() {
            let mut changes = Vec::with_capacity(keep.len());
            let started = started(clock);
            for one in keep {
                if let Keep::Gone(id) = one {
                    self.forget_contexts(&Whose::Session(id), &mut changes, blueprint);
                }
                changes.push(change_of(one, started));
            }
            self.keep_changes(changes);
        }
        self.when_durable(done);
    }
}

/// When the node's clock showed 0, in nanoseconds since 1970, as both clocks are now.
pub(in crate::agent) fn started(clock: &Clock) -> i64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix = i64::try_from(unix.as_nanos()).unwrap_or(i64::MAX);
    unix.saturating_sub(clock.now().cast_signed())
}

/// The record of what is to be kept by a node that `started` then.
pub(in crate::agent) fn change_of(keep: Keep, started: i64) -> Change {
    match keep {
        Keep::Session(id, octets) => Change::put(SESSIONS, &id.0.to_be_bytes(), VERSION, &octets),
        Keep::Gone(id) => Change::remove(SESSIONS, &id.0.to_be_bytes()),
        Keep::Reported { session, urr, next, end } => {
            let key = reported_key(session, urr);
            match next {
                Some((created, next)) => {
                    // Earlier releases read the first and the last four octets.
                    let mut octets = created.to_le_bytes().to_vec();
                    octets.extend(started.saturating_add(end).to_le_bytes());
                    octets.extend(next.to_le_bytes());
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
