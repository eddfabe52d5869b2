//! Records of the store as releases have written them: this one goes on with them all.

use super::*;
use crate::captured::{Kept, captures, records, store_of, written_alike};

/// Default and dedicated bearers, compositions, contexts.
const KINDS: [u16; 4] = [1, 2, 3, 4];

fn shown(rig: &mut Rig) -> Value {
    let functions = rig.node.agent().blueprint().functions.iter();
    let compositions: Vec<_> =
        functions.map(|plan| format!("{} {:?}", plan.name, plan.composition)).collect();
    let bearers = bearers(rig);
    let counted: Vec<_> = bearers.iter().map(|bearer| counted(rig, bearer.id.0)).collect();
    json!({"bearers": bearers, "compositions": compositions, "counted": counted})
}

#[test]
fn records_of_all_releases_are_read() {
    let now = {
        let folder = tempfile::tempdir().unwrap();
        let mut rig = restored(UPF, folder.path()).unwrap();
        let flow = json!({"protocol": 17, "remote": "198.51.100.1", "remotePort": 5060});
        let six = json!({"ipv6": "2001:db8:1::/64", "spi": 4096});
        apply(
            &mut rig,
            json!([
                user(7, 1),
                user(8, 2),
                {"add": {"id": 9, "like": "like", "match": six, "action": "notify"}},
                {"add": {"id": 70, "of": 7, "match": {"flow": flow}, "action": "buffer"}},
                {"add": {"id": 71, "of": "ue", "match": {"flow": {"protocol": 17}}, "action": "drop"}},
            ]),
        )
        .unwrap();
        rig.send(0, &[uplink(1), uplink(1), uplink(2)]);
        checkpoint(&mut rig);
        let composed = Wanted {
            composition: Composition::Thread,
            stage: Some("beside".to_owned()),
            core: None,
        };
        let shown = shown(&mut rig);
        rig.node.agent().compose("to-radio", &composed).unwrap();
        wait_durable(&mut rig);
        let left = left_by(folder.path());
        Kept { records: records(left.path(), &owner(), &KINDS), shown }
    };
    for kind in KINDS {
        assert!(now.records.iter().any(|one| one.kind == kind), "none of kind {kind}");
    }
    let all = captures("records-bearers", &now);
    for (release, kept) in &all {
        let folder = tempfile::tempdir().unwrap();
        let store = store_of(&kept.records, folder.path(), &owner());
        let mut rig = Rig::restored(UPF, store).unwrap();
        let mut shown = shown(&mut rig);
        let composed = shown["compositions"].as_array_mut().unwrap();
        let of_thread = composed.iter().position(|one| one == "to-radio Thread");
        composed[of_thread.expect("as a command has said")] =
            kept.shown["compositions"][of_thread.unwrap()].clone();
        assert_eq!(shown, kept.shown, "release {release}");
        rig.node.stop();
    }
    written_alike(all.last().unwrap(), &now);
}
