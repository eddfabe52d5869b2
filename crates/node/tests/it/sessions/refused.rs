//! Sessions whose rules lead nowhere, and commands that are refused.

use serde_json::json;
use weft_node::bearer::session::{SessionCommand, SessionError, SessionId};

use super::{Upf, downlink, establish, uplink, usual};

/// Rows 36 and 37 of the table of faults: rules that lead nowhere, and traffic.
#[test]
fn fault_36_and_37_rules_without_an_action_or_destination_drop_their_packets() {
    let mut upf = Upf::new();
    let mut rules = usual(1);
    rules["pdrs"][0].as_object_mut().unwrap().remove("far");
    rules["fars"][1]["forward"].as_object_mut().unwrap().remove("interface");
    upf.establish(1, rules);
    upf.establish(2, usual(2));
    upf.rig.send(0, &[uplink(0x1001, [10, 45, 0, 1], b"up")]);
    upf.rig.send(1, &[downlink(1, b"down")]);
    assert_eq!((upf.rig.drops("no_far"), upf.rig.drops("no_destination")), (1, 1));
    // Other sessions do not notice.
    upf.rig.send(0, &[uplink(0x1002, [10, 45, 0, 2], b"up")]);
    upf.rig.send(1, &[downlink(2, b"down")]);
    assert_eq!((upf.rig.receive(1).len(), upf.rig.receive(0).len()), (1, 1));
}

#[test]
fn a_command_that_is_wrong_changes_nothing() {
    let mut upf = Upf::new();
    upf.establish(1, usual(1));
    let mut wrong = usual(2);
    wrong["pdrs"][0]["far"] = json!(7);
    let mut taken = usual(2);
    taken["pdrs"][0]["local"]["teid"] = json!(0x1001);
    let mut elsewhere = usual(2);
    elsewhere["fars"][1]["forward"]["outer"]["gtpu"]["local"] = json!("10.0.0.253");
    let commands = [
        establish(1, usual(2)),
        establish(2, wrong),
        establish(2, taken),
        establish(2, elsewhere),
        establish(2, json!({"pdrs": [], "fars": []})),
        SessionCommand::Remove { id: SessionId(9) },
        establish(3, usual(3)),
    ];
    let (changed, _) = upf.change(&commands);
    let rule = |path: &str, message: &str| {
        Err(SessionError::Rule { path: path.to_owned(), message: message.to_owned() })
    };
    assert_eq!(
        changed.results,
        [
            Err(SessionError::Exists(SessionId(1))),
            rule("pdrs.0.far", "there is no such forwarding action rule"),
            Err(SessionError::KeyTaken("TEID 0x1001".to_owned())),
            rule("fars", "no port has the address 10.0.0.253"),
            Err(SessionError::NoKey),
            Err(SessionError::Unknown(SessionId(9))),
            Ok(()),
        ]
    );
    upf.rig
        .send(0, &[uplink(0x1003, [10, 45, 0, 3], b"up"), uplink(0x1001, [10, 45, 0, 1], b"up")]);
    assert_eq!(upf.rig.receive(1).len(), 2);
    // What was refused has left nothing behind.
    upf.establish(2, usual(2));
}
