//! Records of sessions as releases have written them: this one goes on with them all.

use serde_json::{Value, json};

use super::*;
use crate::captured::{self, captures, records, store_of, to_text, written_alike};

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
        let mut again = restored(left.path());
        let mut shown = shown(&mut again);
        shown["measured"] = json!([measured(&mut again, 1), measured(&mut again, 2)]);
        captured::Kept { records, shown }
    };
    for kind in KINDS {
        assert!(now.records.iter().any(|one| one.kind == kind), "none of kind {kind}");
    }
    let all = captures("records-sessions", &now);
    for (release, kept) in &all {
        let folder = tempfile::tempdir().unwrap();
        let store = store_of(&kept.records, folder.path(), &owner());
        let mut rig = Rig::restored(&yaml(), store).unwrap();
        let mut shown = shown(&mut rig);
        shown["measured"] = json!([measured(&mut rig, 1), measured(&mut rig, 2)]);
        assert_eq!(shown, kept.shown, "release {release}");
    }
    written_alike(all.last().unwrap(), &now);
}
