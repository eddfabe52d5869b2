//! The users of a node are found without looking at all: whatever happens, they are those of whom
//! the records say so.

use proptest::prelude::*;
use weft_mobility_protocol::RouteStage::{Abort, Complete, Prepare, Remove, Switch};
use weft_mobility_protocol::controller::{Intent, Record, Stage};
use weft_mobility_protocol::{
    Controller, Epoch, Incarnation, Leg, Message, NodeId, Output, Reason, Settings, Step, User,
};

use crate::said;

const ANCHORS: [NodeId; 2] = [NodeId(8), NodeId(9)];
const STATIONS: u32 = 3;
const USERS: u64 = 5;
const ANSWERS: [Step; 15] = [
    Step::Prepared,
    Step::Imported,
    Step::Completed,
    Step::Aborted,
    Step::Moved,
    Step::Released,
    Step::Resumed,
    Step::Removed,
    Step::Routed(Prepare),
    Step::Routed(Switch),
    Step::Routed(Complete),
    Step::Routed(Abort),
    Step::Routed(Remove),
    Step::Refused(Reason::Full),
    Step::Refused(Reason::Stale),
];

#[derive(Clone, Debug)]
enum Input {
    Add(u64, usize, u32),
    Move(u64, u32),
    Remove(u64),
    Hello(u32, u32),
    Gone(u32, u32),
    Answer(u64, usize),
    Stored,
}

fn input() -> impl Strategy<Value = Input> {
    let (user, node) = (1..=USERS, 1..=STATIONS);
    prop_oneof![
        1 => (user.clone(), 0..2usize, node.clone()).prop_map(|(u, a, n)| Input::Add(u, a, n)),
        3 => (user.clone(), node.clone()).prop_map(|(u, n)| Input::Move(u, n)),
        1 => user.clone().prop_map(Input::Remove),
        1 => (node.clone(), 1..6u32).prop_map(|(n, life)| Input::Hello(n, life)),
        1 => (node.clone(), node).prop_map(|(n, to)| Input::Gone(n, to)),
        20 => (user, 0..ANSWERS.len()).prop_map(|(u, step)| Input::Answer(u, step)),
        5 => Just(Input::Stored),
    ]
}

fn apply(controller: &mut Controller, input: &Input, out: &mut Vec<Output>) {
    match *input {
        Input::Add(user, anchor, node) => {
            controller.add(User(user), ANCHORS[anchor], NodeId(node), out);
        }
        Input::Move(user, node) => controller.move_users([User(user)], NodeId(node), out),
        Input::Remove(user) => controller.remove(User(user), out),
        Input::Hello(node, life) => {
            controller.message(said(NodeId(node), life, Message::Hello), out);
        }
        Input::Gone(node, successor) => {
            controller.node_gone(NodeId(node), NodeId(successor), out);
        }
        // From each node: those that are not asked are not heard.
        Input::Answer(user, step) => {
            let user = User(user);
            for node in (1..=STATIONS).map(NodeId).chain(ANCHORS) {
                let Some(record) = controller.record(user) else { return };
                let message =
                    Message::Handover { user, epoch: record.epoch(), step: ANSWERS[step].clone() };
                let life = controller.incarnation(node).unwrap_or(Incarnation(1));
                controller.message(said(node, life.0, message), out);
            }
        }
        Input::Stored => {
            for output in std::mem::take(out) {
                if let Output::Persist { user, record: Some(record), .. } = output {
                    controller.persisted(user, record.epoch(), out);
                }
            }
        }
    }
}

/// What the records say of a node: its users, how many stay, and whether it is an anchor.
fn looked_for(controller: &Controller, node: NodeId) -> (Vec<User>, usize, bool) {
    let all: Vec<(User, Record, Stage)> = controller.users_from(User(0)).collect();
    let target = |record: &Record| match record.intent {
        Intent::Move { target, .. } => Some(target),
        Intent::Settled | Intent::Remove { .. } => None,
    };
    let is = |leg: Option<Leg>| leg.is_some_and(|leg| leg.node == node);
    let there = all.iter().filter(|(_, record, _)| is(record.owner) || is(target(record)));
    let stays = all.iter().filter(|(_, record, _)| is(target(record).or(record.owner)));
    let is_anchor = all.iter().any(|(_, record, _)| record.anchor == node);
    (there.map(|(user, ..)| *user).collect(), stays.count(), is_anchor)
}

fn check(controller: &Controller) {
    for node in (0..=STATIONS).map(NodeId).chain(ANCHORS) {
        let users = controller.users_at(node, User(0)).map(|(user, ..)| user).collect();
        let found = (users, controller.staying(node), controller.is_anchor(node));
        assert_eq!(found, looked_for(controller, node), "{node:?}");
    }
}

proptest! {
    #[test]
    fn users_of_a_node_are_those_of_the_records(
        inputs in prop::collection::vec(input(), 1..200),
    ) {
        let mut out = Vec::new();
        let owner = |user| Leg {
            node: NodeId(1 + user as u32 % STATIONS),
            incarnation: Incarnation(1),
            epoch: Epoch(user),
        };
        let intent = Intent::Settled;
        let record =
            |user| Record { anchor: ANCHORS[0], owner: Some(owner(user)), intent };
        let records = (1..USERS).map(|user| (User(user), record(user)));
        let mut controller =
            Controller::new(Settings::default(), records, Epoch(USERS), &mut out);
        for node in (1..=STATIONS).map(NodeId).chain(ANCHORS) {
            controller.message(said(node, 1, Message::Hello), &mut out);
        }
        check(&controller);
        for input in &inputs {
            apply(&mut controller, input, &mut out);
            check(&controller);
        }
    }
}
