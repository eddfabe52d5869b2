//! What outlives a node: another one is made from the folder that the first has left, as it
//! was on the disk at that moment.

mod esp;
mod loading;
mod records;

use std::fs;
use std::path::Path;
use std::sync::mpsc::{TryRecvError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weft_node::bearer::{BearerId, Event, WrittenCommand};
use weft_node::show::BearerView;
use weft_node::{BuildError, Wanted};
use weft_node_config::Composition;
use weft_state::{Owner, Role, Store};

use crate::common::gtpu::{HOST, STATION, datagram, message, signal};
use crate::common::{Rig, udp, udp_to};
use weft_wire::MacAddress;
use weft_wire::gtpu::{Extensions, MessageType, Signal, Teid};

const UPF: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
memory: {packets: 2047}
limits: {users: 64, bearers: 64}
state: {directory: unused, checkpoints: {rate: 100000}}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    descriptors: 256
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24]
    neighbours: {10.0.0.1: 02:00:00:00:01:01}
  core:
    device: 'ring:core'
    direction: downlink
    descriptors: 256
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.254/24]
    neighbours: {198.51.100.1: 02:00:00:00:02:01}
functions:
  from-radio: {function: gtpu-decapsulate}
  count: {function: tally, config: {scope: bearer}}
  to-radio: {function: gtpu-encapsulate}
users:
  - name: ue
    match: {ipv4: 10.45.0.1, teid: 0x1000}
    functions: {to-radio: {tunnel: {teid: 0x2000, peer: 10.0.0.1, local: 10.0.0.254}}}
  - {name: like, match: {ipv4: 10.45.0.9, teid: 0x1009}}
rules: |
  from access -> from-radio
  from from-radio -> count
  from core -> count
  from count when direction == downlink -> to-radio
  from count -> core
  from to-radio -> access
";

fn owner() -> Owner {
    Owner { role: Role::Node, name: "upf".to_owned() }
}

/// A node of that configuration that goes on with what is in `folder`, and has all of it.
fn restored(yaml: &str, folder: &Path) -> Result<Rig, BuildError> {
    let mut rig = resumed(yaml, folder)?;
    rig.load_all();
    Ok(rig)
}

/// The same while contexts are still being read.
fn resumed(yaml: &str, folder: &Path) -> Result<Rig, BuildError> {
    Rig::resumed(yaml, Store::open(folder, &owner())?)
}

/// What is on the disk at this moment: a node that is killed leaves that.
fn left_by(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(folder.join("state.redb"), copy.path().join("state.redb")).unwrap();
    copy
}

/// Applies commands, and waits until they are durable.
fn apply(rig: &mut Rig, commands: Value) -> Result<(), String> {
    let commands: Vec<WrittenCommand> = serde_json::from_value(commands).unwrap();
    let done = rig.node.agent().change_written(&commands);
    wait_durable(rig);
    done.map(|_| ()).map_err(|error| error.to_string())
}

fn wait_durable(rig: &mut Rig) {
    let (told, tells) = channel();
    rig.node.agent().when_durable(Box::new(move |outcome| told.send(outcome).unwrap()));
    rig.settle();
    tells.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
}

fn bearers(rig: &mut Rig) -> Vec<BearerView> {
    let mut all = rig.node.agent().bearers(BearerId(0), 1000);
    // Where they lie is another matter.
    all.iter_mut().for_each(|view| view.slot = 0);
    all
}

fn user(id: u64, number: u8) -> Value {
    json!({"add": {
        "id": id, "like": "like",
        "match": {"ipv4": format!("10.45.1.{number}"), "teid": 0x3000 + u32::from(number)},
        "functions": {"to-radio": {"tunnel":
            {"teid": 0x4000 + u32::from(number), "peer": "10.0.0.1", "local": "10.0.0.254"}}}
    }})
}

fn uplink(number: u8) -> Vec<u8> {
    let inside = udp([10, 45, 1, number], HOST, b"up").split_off(14);
    let teid = 0x3000 + u32::from(number);
    datagram(&message(MessageType::G_PDU, teid, Extensions::NONE, &inside))
}

fn downlink(number: u8) -> Vec<u8> {
    udp_to(MacAddress([2, 0, 0, 0, 0, 2]), HOST, [10, 45, 1, number], 64, b"down")
}

/// What the bearer's context of `count` says.
fn counted(rig: &mut Rig, id: u64) -> u64 {
    let (_, shown) = rig.node.agent().bearer(BearerId(id)).expect("the bearer is there");
    rig.settle();
    shown.recv().unwrap().iter().find(|(name, _)| name == "count").unwrap().1[0].1
}

/// Lets so much time pass that all contexts have had their turn, and are durable.
fn checkpoint(rig: &mut Rig) {
    for _ in 0..8 {
        rig.advance(50_000_000);
    }
    wait_durable(rig);
}

#[test]
fn bearers_of_all_kinds_outlive_their_node() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(UPF, folder.path()).unwrap();
    let flow = json!({"protocol": 17, "remote": "198.51.100.1", "remotePort": 5060});
    let six = json!({"ipv6": "2001:db8:1::/64", "spi": 4096});
    apply(
        &mut rig,
        json!([
            user(7, 1),
            user(9, 2),
            {"add": {"id": 1, "of": 9, "match": {"flow": flow}, "action": "buffer"}},
            {"add": {"id": 2, "of": 7, "match": {"qfi": 5}}},
            {"add": {"id": 3, "of": "ue", "match": {"flow": {"protocol": 6}}}},
            {"add": {"id": 4, "like": "like", "match": {"ipv4": "10.45.1.4"}, "action": "notify"}},
            {"change": {"id": 7, "action": "notify"}},
            user(30, 30),
        ]),
    )
    .unwrap();
    apply(&mut rig, json!([{"remove": 30}, {"change": {"id": 7, "action": "forward"}}])).unwrap();
    let refused = apply(&mut rig, json!([{"add": {"id": 5, "like": "like", "match": six}}]));
    // Whatever the configuration has no room for was not kept either.
    let before = bearers(&mut rig);
    assert_eq!(before.len(), 6 + usize::from(refused.is_ok()));
    let left = left_by(folder.path());
    let mut again = restored(UPF, left.path()).unwrap();
    assert_eq!(bearers(&mut again), before);
    again.send(0, &[uplink(1)]);
    assert_eq!(again.receive(1).len(), 1);
    again.send(1, &[downlink(2)]);
    let frames = again.receive(0);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0][46..50], 0x4002_u32.to_be_bytes(), "the tunnel that the command gave");
    // It goes on to keep what changes, and numbers are taken as before.
    assert!(apply(&mut again, json!([user(7, 9)])).unwrap_err().contains("there is such a bearer"));
    apply(&mut again, json!([{"remove": 2}, {"remove": 7}, user(8, 8)])).unwrap();
    let before = bearers(&mut again);
    let mut third = restored(UPF, left_by(left.path()).path()).unwrap();
    assert_eq!(bearers(&mut third), before);
}

#[test]
fn usage_goes_on_from_the_last_checkpoint_and_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(UPF, folder.path()).unwrap();
    apply(&mut rig, json!([user(7, 1), user(9, 2)])).unwrap();
    rig.send(0, &vec![uplink(1); 5]);
    rig.send(0, &vec![uplink(2); 3]);
    checkpoint(&mut rig);
    // Behind the checkpoint: lost when the node is killed now.
    rig.send(0, &vec![uplink(1); 2]);
    let mut again = restored(UPF, left_by(folder.path()).path()).unwrap();
    assert_eq!((counted(&mut again, 7), counted(&mut again, 9)), (5, 3));
    // A node that is stopped loses nothing, and a user of the configuration is no exception.
    rig.send(
        0,
        &[datagram(&message(
            MessageType::G_PDU,
            0x1000,
            Extensions::NONE,
            &udp([10, 45, 0, 1], HOST, b"up").split_off(14),
        ))],
    );
    rig.node.stop();
    let mut again = restored(UPF, folder.path()).unwrap();
    assert_eq!((counted(&mut again, 7), counted(&mut again, 9)), (7, 3));
    assert_eq!(again.tally("ue"), 1);
}

/// Looks at all contexts at once; how many were written.
fn round(rig: &mut Rig) -> Option<u64> {
    let (tell, told) = channel();
    rig.node.agent().checkpoint_all(move |count| tell.send(count).unwrap());
    let begun = Instant::now();
    loop {
        rig.settle();
        match told.try_recv() {
            Ok(count) => return Some(count),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => assert!(begun.elapsed() < Duration::from_secs(60)),
        }
    }
}

#[test]
fn a_round_before_the_end_writes_what_has_changed_and_leaves_little() {
    let folder = tempfile::tempdir().unwrap();
    // Slow enough that no context has its turn.
    let mut rig = restored(&UPF.replace("rate: 100000", "rate: 1"), folder.path()).unwrap();
    let users: Vec<_> = (1..=60).map(|number| user(number.into(), number)).collect();
    apply(&mut rig, Value::Array(users)).unwrap();
    rig.send(0, &vec![uplink(1); 5]);
    rig.send(0, &vec![uplink(2); 3]);
    assert!(round(&mut rig).unwrap() >= 60);
    assert_eq!(round(&mut rig), Some(0));
    rig.send(0, &vec![uplink(1); 2]);
    let before = rig.node.agent().state_view().unwrap().changes;
    assert_eq!(round(&mut rig), Some(1));
    let changes = rig.node.agent().state_view().unwrap().changes - before;
    assert!(changes < 10, "{changes} changes for one context");
    // A node that is killed behind it has lost nothing.
    let mut again = restored(UPF, left_by(folder.path()).path()).unwrap();
    assert_eq!((counted(&mut again, 1), counted(&mut again, 2)), (7, 3));
    // A bearer that goes meanwhile takes nothing along.
    apply(&mut rig, json!([{"remove": 2}, user(61, 61)])).unwrap();
    rig.send(0, &[uplink(61)]);
    assert!(round(&mut rig).unwrap() >= 1);
    rig.node.stop();
    let mut again = restored(UPF, folder.path()).unwrap();
    assert_eq!((counted(&mut again, 1), counted(&mut again, 61)), (7, 1));
    assert_eq!(bearers(&mut again).len(), 60);
}

#[test]
fn contexts_that_were_read_are_not_written_before_they_change() {
    let folder = tempfile::tempdir().unwrap();
    // Slow enough that no context has its turn.
    let yaml = UPF.replace("rate: 100000", "rate: 1");
    let mut rig = restored(&yaml, folder.path()).unwrap();
    let users: Vec<_> = (1..=60).map(|number| user(number.into(), number)).collect();
    apply(&mut rig, Value::Array(users)).unwrap();
    rig.send(0, &vec![uplink(1); 5]);
    rig.send(0, &vec![uplink(2); 3]);
    assert!(round(&mut rig).unwrap() >= 60);
    let left = left_by(folder.path());
    let mut again = restored(&yaml, left.path()).unwrap();
    assert_eq!(round(&mut again), Some(0));
    again.send(0, &vec![uplink(1); 2]);
    assert_eq!(round(&mut again), Some(1));
    // What was read for a bearer says nothing of the next one that has its slot.
    apply(&mut again, json!([{"remove": 2}])).unwrap();
    apply(&mut again, json!([user(2, 2)])).unwrap();
    again.send(0, &vec![uplink(2); 3]);
    assert_eq!(round(&mut again), Some(1));
    let left = left_by(left.path());
    let mut third = restored(&yaml, left.path()).unwrap();
    assert_eq!((counted(&mut third, 1), counted(&mut third, 2)), (7, 3));
    // A node that is stopped knows it, too.
    third.send(0, &[uplink(2)]);
    third.node.stop();
    let mut fourth = restored(&yaml, left.path()).unwrap();
    assert_eq!((counted(&mut fourth, 1), counted(&mut fourth, 2)), (7, 4));
    assert_eq!(round(&mut fourth), Some(0));
}

#[test]
fn contexts_of_more_users_than_are_read_at_once_find_theirs() {
    const MANY: u64 = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let yaml = UPF.replace("users: 64", "users: 10240").replace("rate: 100000", "rate: 1");
    let mut rig = restored(&yaml, folder.path()).unwrap();
    let add = |id: u64| {
        let [_, _, high, low] = (id as u32).to_be_bytes();
        json!({"add": {"id": id, "like": "like",
            "match": {"ipv4": format!("10.46.{high}.{low}"), "teid": 0x10_0000 + id}}})
    };
    for first in (0..MANY).step_by(1000) {
        apply(&mut rig, Value::Array((first..first + 1000).map(add).collect())).unwrap();
    }
    let some = [0_u32, 1, 4_095, 4_096, 9_999];
    let packets = |id: u32, count: u32| {
        let [_, _, high, low] = id.to_be_bytes();
        let inside = udp([10, 46, high, low], HOST, b"up").split_off(14);
        let frame =
            datagram(&message(MessageType::G_PDU, 0x10_0000 + id, Extensions::NONE, &inside));
        vec![frame; count as usize]
    };
    for (id, count) in some.into_iter().zip(1..) {
        rig.send(0, &packets(id, count));
        assert_eq!(rig.receive(1).len(), count as usize);
    }
    assert!(round(&mut rig).unwrap() >= MANY);
    let left = left_by(folder.path());
    let mut again = restored(&yaml, left.path()).unwrap();
    let view = again.node.agent().state_view().unwrap();
    assert!(view.restored_contexts >= MANY, "{view:?}");
    for (id, count) in some.into_iter().zip(1_u64..) {
        assert_eq!(counted(&mut again, id.into()), count, "bearer {id}");
    }
    assert_eq!(counted(&mut again, 5_000), 0);
    assert_eq!(round(&mut again), Some(0));
}

#[test]
fn no_round_is_told_of_where_no_contexts_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(&UPF.replace("rate: 100000", "rate: 0"), folder.path()).unwrap();
    assert_eq!(round(&mut rig), None);
}

#[test]
fn a_bearer_that_comes_again_does_not_have_the_usage_of_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(UPF, folder.path()).unwrap();
    apply(&mut rig, json!([user(7, 1)])).unwrap();
    rig.send(0, &vec![uplink(1); 5]);
    checkpoint(&mut rig);
    apply(&mut rig, json!([{"remove": 7}])).unwrap();
    apply(&mut rig, json!([user(7, 1)])).unwrap();
    let mut again = restored(UPF, left_by(folder.path()).path()).unwrap();
    assert_eq!(counted(&mut again, 7), 0);
    rig.send(0, &vec![uplink(1); 2]);
    checkpoint(&mut rig);
    let mut again = restored(UPF, left_by(folder.path()).path()).unwrap();
    assert_eq!(counted(&mut again, 7), 2);
}

#[test]
fn functions_stay_where_commands_have_put_them_until_the_configuration_says_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(UPF, folder.path()).unwrap();
    let wanted =
        Wanted { composition: Composition::Thread, stage: Some("beside".to_owned()), core: None };
    rig.node.agent().compose("count", &wanted).unwrap();
    wait_durable(&mut rig);
    let composition = |rig: &mut Rig| {
        let functions = &rig.node.agent().blueprint().functions;
        functions.iter().find(|plan| plan.name == "count").unwrap().composition
    };
    let left = left_by(folder.path());
    let mut again = restored(UPF, left.path()).unwrap();
    assert_eq!(composition(&mut again), Composition::Thread);
    again.node.stop();
    // The file has another word on it by now.
    let other = UPF.replace("{function: tally,", "{function: tally, composition: thread,");
    let mut again = restored(&other, left.path()).unwrap();
    assert_eq!(composition(&mut again), Composition::Thread);
    again.node.stop();
}

#[test]
fn a_configuration_that_cannot_have_a_bearer_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(UPF, folder.path()).unwrap();
    apply(&mut rig, json!([user(7, 1)])).unwrap();
    let left = left_by(folder.path());
    let other = UPF.replace("name: like,", "name: unlike,");
    let Err(error) = restored(&other, left.path()) else { panic!("it starts") };
    let text = error.to_string();
    assert!(text.starts_with("state: bearer 7: no users of the configuration are called `like`"));
    assert_eq!(text.lines().count(), 1);
    // Nothing is lost by that.
    assert_eq!(bearers(&mut restored(UPF, left.path()).unwrap()).len(), 1);
}

#[test]
fn many_bearers_are_there_again_in_little_time() {
    const MANY: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let yaml = UPF.replace("users: 64", "users: 20480");
    let mut rig = restored(&yaml, folder.path()).unwrap();
    for first in (0..MANY).step_by(1000) {
        let commands: Vec<_> = (first..first + 1000)
            .map(|id| {
                let [_, _, high, low] = (id as u32).to_be_bytes();
                json!({"add": {"id": id, "like": "like",
                    "match": {"ipv4": format!("10.46.{high}.{low}"), "teid": 0x10_0000 + id},
                    "functions": {"to-radio": {"tunnel":
                        {"teid": 0x10_0000 + id, "peer": "10.0.0.1", "local": "10.0.0.254"}}}}})
            })
            .collect();
        apply(&mut rig, Value::Array(commands)).unwrap();
    }
    let left = left_by(folder.path());
    let begun = Instant::now();
    let mut again = restored(&yaml, left.path()).unwrap();
    let took = begun.elapsed();
    assert_eq!(again.node.agent().bearers(BearerId(0), 30_000).len(), MANY as usize);
    // Ample for a machine that is twice overloaded, and a build without optimisation.
    assert!(took < Duration::from_secs(60), "{took:?}");
    for id in [0_u32, 1, 9_999, 19_999] {
        let [_, _, high, low] = id.to_be_bytes();
        let inside = udp([10, 46, high, low], HOST, b"up").split_off(14);
        let teid = 0x10_0000 + id;
        again.send(0, &[datagram(&message(MessageType::G_PDU, teid, Extensions::NONE, &inside))]);
        assert_eq!(again.receive(1).len(), 1, "user {id}");
    }
    // Each tunnel is known as that of its bearer.
    let events = again.node.agent().listen();
    for id in [0_u32, 1, 15, 16, 4_096, 19_999] {
        let teid = Teid(0x10_0000 + id);
        let gone = Signal::ErrorIndication { teid, peer: STATION.into(), udp_port: None };
        again.send(0, &[signal(gone)]);
        let told: Vec<_> = events.try_iter().collect();
        let is_told = |event: &Event| match event {
            Event::ErrorIndication { bearer: Some(told), .. } => *told == BearerId(id.into()),
            _ => false,
        };
        assert!(told.iter().any(is_told), "bearer {id}: {told:?}");
    }
}

/// A store that the first release with stores has written is read by all later ones: it lies in
/// the tree, and is never written again. `WEFT_FIXTURE=1` writes it where it is not there.
#[test]
fn a_store_of_an_earlier_release_is_read() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/state-1.redb");
    let flow = json!({"protocol": 17, "remote": "198.51.100.1", "remotePort": 5060});
    let commands = json!([
        user(7, 1),
        {"add": {"id": 1, "of": 7, "match": {"flow": flow}, "action": "buffer"}},
        {"add": {"id": 2, "of": 7, "match": {"qfi": 5}}},
        {"add": {"id": 3, "of": "ue", "match": {"flow": {"protocol": 6}}}},
        {"add": {"id": 4, "like": "like", "match": {"ipv4": "10.45.1.4"}, "action": "notify"}},
    ]);
    let folder = tempfile::tempdir().unwrap();
    let mut rig = restored(UPF, folder.path()).unwrap();
    apply(&mut rig, commands).unwrap();
    rig.send(0, &vec![uplink(1); 5]);
    checkpoint(&mut rig);
    let now = bearers(&mut rig);
    if std::env::var_os("WEFT_FIXTURE").is_some() && !fixture.exists() {
        fs::create_dir_all(fixture.parent().unwrap()).unwrap();
        rig.node.stop();
        fs::copy(folder.path().join("state.redb"), &fixture).unwrap();
    }
    let copy = tempfile::tempdir().unwrap();
    fs::copy(&fixture, copy.path().join("state.redb")).unwrap();
    let mut again = restored(UPF, copy.path()).unwrap();
    assert_eq!(bearers(&mut again), now);
    assert_eq!(counted(&mut again, 7), 5);
}
