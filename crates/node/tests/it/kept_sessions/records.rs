//! Records of sessions as releases have written them: this one goes on with them all.

use serde_json::{Value, json};

use super::*;
use crate::captured::{self, Record, captures, records, store_of, to_text, written_alike};

/// Contexts, sessions, numbers of reports, notes.
const KINDS: [u16; 4] = [4, 64, 65, 66];

fn owner() -> Owner {
    Owner { role: Role::Node, name: "upf".to_owned() }
}

fn shown(rig: &mut Rig) -> Value {
    let kept = rig.node.agent().kept();
    let sessions = kept.sessions.iter().map(|one| {
        json!({"id": one.id.0, "rules": *one.rules, "note": to_text(&one.note), "there": one.is_there})
    });
    let notes = kept.notes.iter().map(|(key, octets)| json!([to_text(key), to_text(octets)]));
    json!({"sessions": sessions.collect::<Vec<_>>(), "notes": notes.collect::<Vec<_>>()})
}

/// What the rules of a session have measured.
fn measured(rig: &mut Rig, id: u64) -> Value {
    let rules = read(usual(id as u8));
    let modify = SessionCommand::Modify {
        id: SessionId(id),
        rules,
        end_markers: Vec::new(),
        query: Query::All,
        drop_waiting: false,
    };
    json!(command(rig, modify).unwrap())
}

/// A time of day that has not come: no time has passed since then.
fn tomorrow() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_nanos()).unwrap() + 86_400_000_000_000
}

/// What a node has that goes on with these records.
fn shown_of(records: &[Record]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let store = store_of(&written_at(records, Some(tomorrow())), folder.path(), &owner());
    let mut rig = Rig::restored(&yaml(), store).unwrap();
    let mut shown = shown(&mut rig);
    shown["measured"] = json!([measured(&mut rig, 1), measured(&mut rig, 2)]);
    shown
}

/// The records as they would have been written at that time of day, or at none: nothing else
/// differs from one day to another.
fn written_at(records: &[Record], unix: Option<i64>) -> Vec<Record> {
    const CONTEXT: &str = "\u{11}session-detection";
    let at = |record: &Record| {
        let mut octets = captured::to_octets(&record.octets);
        match record.kind {
            // From version 2 on a context says at which time of day it was written.
            4 if octets.starts_with(CONTEXT.as_bytes()) && octets[CONTEXT.len()] > 1 => {
                let then = octets[CONTEXT.len() + 2..].first_chunk().unwrap();
                let then = i64::from_le_bytes(*then);
                let day = unix.map_or(0, |unix| unix - then);
                let place = octets.len() - 16;
                octets[place..place + 8].copy_from_slice(&day.to_le_bytes());
            }
            // A report that ends later than the node starts ends then.
            65 if octets.len() == 16 => {
                let end = unix.map_or(0, |_| i64::MAX);
                octets[4..12].copy_from_slice(&end.to_le_bytes());
            }
            _ => {}
        }
        Record { octets: to_text(&octets), key: record.key.clone(), ..*record }
    };
    records.iter().map(at).collect()
}

#[test]
fn records_of_all_releases_are_read() {
    let now = {
        let folder = tempfile::tempdir().unwrap();
        let mut rig = restored(folder.path());
        for id in [1, 2] {
            command(&mut rig, establish(id, usual(id as u8))).unwrap();
            keep(&mut rig, vec![kept_as(id)]);
            assert!(carries(&mut rig, id as u8));
        }
        let note =
            Keep::Note(b"note".to_vec(), Some(b"as the control protocol writes it".to_vec()));
        keep(&mut rig, vec![reported(2, Some(1)), note]);
        checkpoint(&mut rig);
        let left = killed(folder.path());
        let records = records(left.path(), &owner(), &KINDS);
        let shown = shown_of(&records);
        captured::Kept { records, shown }
    };
    for kind in KINDS {
        assert!(now.records.iter().any(|one| one.kind == kind), "none of kind {kind}");
    }
    let all = captures("records-sessions", &now);
    for (release, kept) in &all {
        assert_eq!(shown_of(&kept.records), kept.shown, "release {release}");
    }
    let (release, newest) = all.into_iter().next_back().unwrap();
    let alike = |kept: captured::Kept| captured::Kept {
        records: written_at(&kept.records, None),
        shown: kept.shown,
    };
    written_alike(&(release, alike(newest)), &alike(now));
}
