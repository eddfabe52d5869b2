//! The records of PFCP sessions that a node with a store (`state`) keeps, so that the sessions
//! are there again when it restarts.

use std::sync::Arc;

use weft_functions::session::rules::{Session, UrrId};

use super::SessionId;

/// Version of the record of a session. All up to it are read.
pub const VERSION: u8 = 1;

/// Something that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// A session as it is from now on. [`Keep::session`] writes it.
    Session(SessionId, Vec<u8>),
    /// A session has ended: nothing of it is kept any more but
    /// [`Reported`](Self::Reported), which is removed rule by rule.
    Gone(SessionId),
    /// Which number the next report of a rule has; none if the rule is gone.
    Reported {
        /// The session.
        session: SessionId,
        /// The rule.
        urr: UrrId,
        /// What tells it from another of that number ([`Urr::created`]), and the number of its
        /// next report.
        ///
        /// [`Urr::created`]: weft_functions::session::rules::Urr::created
        next: Option<(u32, u32)>,
        /// When the report before that ended, in nanoseconds since the node started.
        end: i64,
    },
    /// A note of the control protocol under a key of its own; none if it is removed.
    Note(Vec<u8>, Option<Vec<u8>>),
}

impl Keep {
    /// A session with these rules, like the `users` entry of that name, and what the control
    /// protocol notes beside.
    pub fn session(id: SessionId, like: &str, rules: &Session, note: &[u8]) -> Keep {
        let mut octets = Vec::with_capacity(1024);
        for part in [like.as_bytes(), note] {
            octets.extend((part.len() as u32).to_le_bytes());
            octets.extend(part);
        }
        // Rules are values and names, which can be written.
        octets.extend(serde_json::to_vec(rules).unwrap_or_default());
        Keep::Session(id, octets)
    }
}

/// A session of the node's last life.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptSession {
    /// Its number.
    pub id: SessionId,
    /// Its rules.
    pub rules: Arc<Session>,
    /// What the control protocol has noted of it.
    pub note: Vec<u8>,
    /// Whether packets find it again. The configuration may have changed so that it cannot be
    /// had any more; then it is to be given up.
    pub is_there: bool,
}

/// What was kept in the node's last life.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Whether the node keeps anything.
    pub keeps: bool,
    /// Sessions.
    pub sessions: Vec<KeptSession>,
    /// Notes of the control protocol, by their keys.
    pub notes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl KeptSession {
    /// Reads the record of a session, as [`Keep::Session`] has it: the `users` entry that it is
    /// like, and the session. None of a record that is damaged or of a newer release.
    pub fn read(id: SessionId, version: u8, octets: &[u8]) -> Option<(Arc<str>, KeptSession)> {
        fn part<'o>(octets: &mut &'o [u8]) -> Option<&'o [u8]> {
            let (length, rest) = octets.split_first_chunk()?;
            let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            *octets = rest;
            Some(part)
        }
        let mut rest = octets;
        if !(1..=VERSION).contains(&version) {
            return None;
        }
        let like = std::str::from_utf8(part(&mut rest)?).ok()?.into();
        let note = part(&mut rest)?.to_vec();
        let rules = serde_json::from_slice(rest).ok()?;
        Some((like, KeptSession { id, rules: Arc::new(rules), note, is_there: true }))
    }
}

#[cfg(test)]
mod tests {
    use weft_functions::session::rules::{Apply, Far, FarId};

    use super::*;

    #[test]
    fn a_session_is_read_as_it_was_written() {
        let far = Far {
            id: FarId(7),
            action: Apply::Notify,
            forward: None,
            duplicate: Default::default(),
            bar: None,
            end_marker: false,
        };
        let rules = Session { fars: vec![far], inactivity: Some(9), ..Session::default() };
        let Keep::Session(id, octets) = Keep::session(SessionId(3), "phones", &rules, b"note")
        else {
            panic!("a session")
        };
        assert_eq!(id, SessionId(3));
        let read = |version, octets: &[u8]| KeptSession::read(id, version, octets);
        let note = b"note".to_vec();
        let session = KeptSession { id, rules: Arc::new(rules), note, is_there: true };
        assert_eq!(read(VERSION, &octets), Some(("phones".into(), session)));
        for end in 0..octets.len() {
            assert_eq!(read(VERSION, &octets[..end]), None);
        }
        assert_eq!(read(VERSION + 1, &octets), None);
    }
}
