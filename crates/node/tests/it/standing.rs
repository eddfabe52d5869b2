//! A node that stands by: it follows the records of another one change by change, and owns the
//! users when that one has died. It has then what a node has that starts with the same store.

use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use weft_functions::session::rules::UrrId;
use weft_node::bearer::session::{Keep, Query, SessionCommand, SessionId};
use weft_node::bearer::{BearerId, WrittenCommand};
use weft_node::show::BearerView;
use weft_node::{BuildError, Node, Wanted};
use weft_node_config::Composition;
use weft_state::{Change, Feed, Owner, Role, Store, read_changes};

use crate::common::{Rig, blueprint, eal};
use crate::kept_sessions;
use crate::sessions::{downlink, establish, read, uplink, usual};

/// A node that has PFCP sessions, and bearers by commands, all of whose packets are counted.
fn yaml() -> String {
    let users = "  - {name: session, count: 0}\n";
    let with_like = [users, "  - {name: like, match: {ipv4: 10.45.9.9}}\n"].concat();
    let counted = kept_sessions::yaml()
        .replace("  detect: {", "  all: {function: tally, config: {scope: bearer}}\n  detect: {")
        .replace("from access -> detect", "from access -> all")
        .replace("from core -> detect", "from core -> all\n  from all -> detect");
    counted.replace(users, &with_like)
}

fn opened(folder: &Path) -> Store {
    let owner = Owner { role: Role::Node, name: "upf".to_owned() };
    Store::open(folder, &owner).unwrap()
}

/// The node that owns the users, and what it writes.
struct Active {
    rig: Rig,
    folder: tempfile::TempDir,
    feed: Feed,
    taken: u64,
}

impl Active {
    fn start() -> Active {
        let folder = tempfile::tempdir().unwrap();
        let feed = Feed::new(1 << 26, || {});
        feed.keep(true);
        let mut store = opened(folder.path());
        store.feed_into(feed.clone());
        let rig = Rig::restored(&yaml(), store).unwrap();
        Active { rig, folder, feed, taken: 0 }
    }

    /// What is on the disk at this moment.
    fn left(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        fs::copy(self.folder.path().join("state.redb"), copy.path().join("state.redb")).unwrap();
        copy
    }

    /// Waits until all is durable, with all contexts; what was written since the last call, by
    /// transactions.
    fn written(&mut self, keep: Vec<Keep>) -> Vec<Vec<Change>> {
        for _ in 0..4 {
            self.rig.advance(20_000_000);
        }
        let (told, tells) = channel();
        self.rig.node.agent().keep(keep, 0, Box::new(move |outcome| told.send(outcome).unwrap()));
        self.rig.settle();
        tells.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        let (mut all, mut some) = (Vec::new(), Vec::new());
        while let Some(piece) = self.feed.piece(self.taken + 1) {
            self.taken += 1;
            some.extend(read_changes(&piece.octets).unwrap());
            if piece.is_last {
                all.push(std::mem::take(&mut some));
            }
        }
        assert!(some.is_empty());
        all
    }

    fn commands(&mut self, commands: Value) -> bool {
        let commands: Vec<WrittenCommand> = serde_json::from_value(commands).unwrap();
        self.rig.node.agent().change_written(&commands).is_ok()
    }

    fn session(&mut self, command: SessionCommand) -> bool {
        let changed = self.rig.node.agent().change_sessions(&[command]);
        self.rig.settle();
        changed.results.iter().all(Result::is_ok)
    }
}

fn bearers(rig: &mut Rig) -> Vec<BearerView> {
    let mut all = rig.node.agent().bearers(BearerId(0), 1000);
    // Where they lie is another matter.
    all.iter_mut().for_each(|view| view.slot = 0);
    all
}

/// Whether packets of a session pass, either way.
fn carries(rig: &mut Rig, n: u8) -> (bool, bool) {
    rig.send(0, &[uplink(0x1000 + u32::from(n), [10, 45, 0, n], b"up")]);
    let up = !rig.receive(1).is_empty();
    rig.receive(0);
    rig.send(1, &[downlink(n, b"down")]);
    let down = !rig.receive(0).is_empty();
    rig.receive(1);
    (up, down)
}

/// What functions have of bearers and sessions: as octets, but for the time, where these have no
/// other times; and as an operator sees it.
fn contexts(rig: &mut Rig) -> Vec<(String, Vec<u8>)> {
    let agent = rig.node.agent();
    let all = agent.blueprint().functions.iter().position(|plan| plan.name == "all").unwrap();
    let bearers = agent.bearers(BearerId(0), 1000);
    let bearers = bearers.iter().map(|view| (view.id.to_string(), view.slot));
    let mut slots: Vec<_> = bearers.collect();
    let mut contexts = Vec::new();
    for n in 1..8 {
        let name = SessionId(n).user_name();
        let Some((view, answer)) = rig.node.agent().contexts_of(&name) else { continue };
        rig.settle();
        contexts.push((name.clone(), format!("{:?}", answer.recv().unwrap()).into_bytes()));
        slots.push((name, view.slot));
    }
    let worker = &mut rig.node.workers()[0];
    contexts.extend(slots.into_iter().map(|(name, slot)| {
        let mut octets = Vec::new();
        worker.end_with_context(all as u16, slot, &mut octets);
        octets.drain(2..10);
        (name, octets)
    }));
    contexts
}

/// A node that has followed has what one has that starts with the same records.
fn are_alike(followed: &mut Rig, restored: &mut Rig) {
    assert_eq!(bearers(followed), bearers(restored));
    assert_eq!(contexts(followed), contexts(restored));
    assert_eq!(followed.node.agent().kept(), restored.node.agent().kept());
    let sessions = |rig: &mut Rig| {
        let view = rig.node.agent().state_view().expect("it keeps things");
        (view.restored_bearers, view.restored_sessions, view.restored_contexts)
    };
    assert_eq!(sessions(followed), sessions(restored));
    for n in 1..8 {
        assert_eq!(carries(followed, n), carries(restored, n), "session or bearer {n}");
    }
}

/// A user that a command adds; its address is also one of a session's.
fn user(id: u8, address: u8) -> Value {
    json!({"add": {"id": id, "like": "like", "match": {"ipv4": format!("10.45.0.{address}")}}})
}

/// A dedicated bearer of a user.
fn dedicated(id: u8, of: u8, port: u16) -> Value {
    let flow = json!({"protocol": 17, "remote": "198.51.100.1", "remotePort": port});
    json!({"add": {"id": 100 + u32::from(id), "of": of, "match": {"flow": flow}}})
}

fn step(active: &mut Active, (what, n, m): (u8, u8, u8)) -> Vec<Keep> {
    let id = SessionId(u64::from(n));
    match what {
        0 => drop(active.commands(json!([user(n, m)]))),
        1 => drop(active.commands(json!([dedicated(m, n, m.into())]))),
        2 => drop(active.commands(json!([{"remove": n}]))),
        3 => drop(active.commands(json!([{"remove": 100 + u32::from(m)}]))),
        4 => drop(active.commands(json!([{"change": {"id": n, "action": "drop"}}]))),
        // A user with a dedicated bearer changes its address within one transaction.
        5 => drop(active.commands(json!([
            {"remove": 100 + u32::from(m)}, {"remove": n}, user(n, m), dedicated(m, n, n.into())
        ]))),
        // Two users change their addresses with each other.
        6 if n != m => drop(active.commands(json!([
            {"remove": n}, {"remove": m}, user(n, m), user(m, n)
        ]))),
        7 | 8 => {
            if active.session(establish(id.0, usual(n))) {
                let note = Keep::Note(vec![n], Some(vec![m]));
                return vec![Keep::session(id, "session", &read(usual(n)), &[m]), note];
            }
        }
        9 => {
            let modify = SessionCommand::Modify {
                id,
                rules: read(usual(m)),
                end_markers: Vec::new(),
                query: Query::None,
                drop_waiting: false,
            };
            if active.session(modify) {
                return vec![Keep::session(id, "session", &read(usual(m)), &[n])];
            }
        }
        10 => {
            if active.session(SessionCommand::Remove { id }) {
                let reported = Keep::Reported { session: id, urr: UrrId(1), next: None, end: 0 };
                return vec![reported, Keep::Gone(id), Keep::Note(vec![n], None)];
            }
        }
        _ => drop(carries(&mut active.rig, n)),
    }
    Vec::new()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Bearers, users and sessions come, change and go, and take keys from one another; the
    /// other node has a copy of some moment, and each change from then on.
    #[test]
    fn a_node_that_has_followed_has_what_was_kept(
        steps in proptest::collection::vec((0_u8..13, 1_u8..6, 1_u8..6), 1..40),
        copied in 0_usize..20,
        // How many steps are made durable together.
        together in 1_usize..4,
    ) {
        let mut active = Active::start();
        let (mut base, mut changes, mut keep) = (active.left(), Vec::new(), Vec::new());
        for (at, one) in steps.iter().enumerate() {
            keep.extend(step(&mut active, *one));
            if at % together == 0 {
                changes.extend(active.written(std::mem::take(&mut keep)));
            }
            if at == copied {
                changes.extend(active.written(std::mem::take(&mut keep)));
                (base, changes) = (active.left(), Vec::new());
            }
        }
        changes.extend(active.written(keep));
        let left = [active.left(), active.left()];
        drop(active);
        let [of_followed, of_restored] = left.each_ref().map(|left| opened(left.path()));
        let base = opened(base.path());
        let mut followed = Rig::stood_by(&yaml(), &base, &changes, of_followed).unwrap();
        let mut restored = Rig::restored(&yaml(), of_restored).unwrap();
        are_alike(&mut followed, &mut restored);
    }
}

/// Contexts come while the node stands by, go along with what changes, and begin anew with what
/// goes and comes back.
#[test]
fn contexts_are_there_before_the_node_owns_the_users() {
    let mut active = Active::start();
    let (left, mut changes) = (active.left(), Vec::new());
    let steps = [
        json!([user(1, 1), user(2, 2), user(3, 3)]),
        json!([{"change": {"id": 1, "action": "drop"}}]),
        json!([{"remove": 2}, user(2, 2)]),
        json!([{"change": {"id": 1, "action": "forward"}}]),
    ];
    for commands in steps {
        assert!(active.commands(commands));
        (1..4).for_each(|n| {
            carries(&mut active.rig, n);
        });
        changes.extend(active.written(Vec::new()));
    }
    let (base, now) = (opened(left.path()), contexts(&mut active.rig));
    let has_counted: Vec<_> = now.iter().map(|(_, octets)| octets[2]).collect();
    assert_eq!(has_counted, [2, 2, 4], "packets to 1 are dropped for a time");
    // The node's own store has no contexts: those that it has come from the changes.
    let empty = tempfile::tempdir().unwrap();
    let mut followed = Rig::stood_by(&yaml(), &base, &changes, opened(empty.path())).unwrap();
    assert_eq!(contexts(&mut followed), now);
}

/// What comes in while the node stands by is not its to carry, and it tells peers nothing.
#[test]
fn a_node_that_stands_by_carries_nothing() {
    let mut active = Active::start();
    assert!(active.session(establish(1, usual(1))));
    let keep = vec![Keep::session(SessionId(1), "session", &read(usual(1)), &[])];
    let changes = active.written(keep);
    let (left, empty) = (active.left(), tempfile::tempdir().unwrap());
    let base = opened(empty.path());
    let mut followed = Rig::stood_by(&yaml(), &base, &changes, opened(left.path())).unwrap();
    assert!(followed.receive(0).is_empty() && followed.receive(1).is_empty());
    assert_eq!(carries(&mut followed, 1), (true, true));
}

#[test]
fn a_change_of_how_functions_run_asks_for_another_node() {
    let mut active = Active::start();
    let base = active.left();
    active.written(Vec::new());
    let wanted =
        Wanted { composition: Composition::Thread, stage: Some("beside".to_owned()), core: None };
    let function = active.rig.node.agent().blueprint().functions[0].name.clone();
    active.rig.node.agent().compose(&function, &wanted).unwrap();
    let changes = active.written(Vec::new());
    let base = opened(base.path());
    let records = base.snapshot().unwrap();
    let mut standing = Node::stand_by(eal(), blueprint(&yaml()), &records).unwrap();
    assert!(!changes.iter().all(|some| standing.apply(some).unwrap()));
}

/// The other node has users that this configuration does not know: one line says so.
#[test]
fn a_configuration_that_cannot_have_a_bearer_is_named() {
    let mut active = Active::start();
    let base = opened(active.left().path());
    active.written(Vec::new());
    assert!(active.commands(json!([user(7, 7)])));
    let changes = active.written(Vec::new());
    let other = yaml().replace("name: like,", "name: other,");
    let records = base.snapshot().unwrap();
    let mut standing = Node::stand_by(eal(), blueprint(&other), &records).unwrap();
    let outcome: Result<Vec<_>, BuildError> =
        changes.iter().map(|some| standing.apply(some)).collect();
    let text = outcome.unwrap_err().to_string();
    assert!(text.starts_with("state: bearer 7: no users of the configuration are called `like`"));
    assert_eq!(text.lines().count(), 1);
}
