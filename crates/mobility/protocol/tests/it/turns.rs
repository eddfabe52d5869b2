//! Moves take turns: so many are under way at once, and records of further ones are durable before
//! their turn.

use weft_mobility_protocol::controller::{Intent, Record, Stage};
use weft_mobility_protocol::{
    Controller, Epoch, Incarnation, Leg, Message, NodeId, Output, Settings, Step, User,
};

use crate::said;

const ANCHOR: NodeId = NodeId(9);
const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const WINDOW: usize = 2;
const AHEAD: usize = 4;

fn settings() -> Settings {
    Settings { window: WINDOW, ahead: AHEAD, ..Settings::default() }
}

fn leg(node: NodeId, epoch: u64) -> Leg {
    Leg { node, incarnation: Incarnation(1), epoch: Epoch(epoch) }
}

fn settled(user: u64) -> (User, Record) {
    let owner = Some(leg(A, user));
    (User(user), Record { anchor: ANCHOR, owner, intent: Intent::Settled })
}

/// A controller with so many settled users at station A, to which all nodes have said hello.
fn controller(users: u64) -> Controller {
    let mut out = Vec::new();
    let mut controller =
        Controller::new(settings(), (1..=users).map(settled), Epoch(users + 1), &mut out);
    for node in [ANCHOR, A, B] {
        controller.message(said(node, 1, Message::Hello), &mut out);
    }
    controller
}

/// Records of moves that are to become durable.
fn records(out: &[Output]) -> Vec<(User, Epoch)> {
    let record = |output: &Output| match output {
        Output::Persist { user, record: Some(record), .. } if record.intent != Intent::Settled => {
            Some((*user, record.epoch()))
        }
        _ => None,
    };
    out.iter().filter_map(record).collect()
}

fn in_stage(controller: &Controller, stage: Stage) -> usize {
    controller.users_from(User(0)).filter(|(.., at)| *at == stage).count()
}

/// The target of a move, or the source, and the anchor answer until it is over.
fn complete(controller: &mut Controller, user: User, out: &mut Vec<Output>) {
    let epoch = controller.record(user).unwrap().epoch();
    let mut say = |from, step| {
        let message = Message::Handover { user, epoch, step };
        controller.message(said(from, 1, message), out);
    };
    use weft_mobility_protocol::RouteStage::{Complete, Prepare, Switch};
    say(B, Step::Prepared);
    say(ANCHOR, Step::Routed(Prepare));
    say(B, Step::Imported);
    say(ANCHOR, Step::Routed(Switch));
    say(A, Step::Released);
    say(B, Step::Completed);
    say(ANCHOR, Step::Routed(Complete));
}

#[test]
fn records_are_durable_before_their_turn() {
    let (mut controller, mut out) = (controller(20), Vec::new());
    controller.move_users((1..=20).map(User), B, &mut out);
    let stored = records(&out);
    assert_eq!(stored.len(), WINDOW + AHEAD);
    assert!(controller.is_short_of_records());
    assert!(stored.iter().all(|(user, _)| controller.is_before_its_turn(*user)));
    stored.iter().for_each(|(user, epoch)| controller.persisted(*user, *epoch, &mut out));
    assert_eq!(in_stage(&controller, Stage::PreparingTarget), WINDOW);
    assert_eq!(in_stage(&controller, Stage::Storing), AHEAD);
    assert!(!controller.is_short_of_records());
    // One that ends lets the next one begin at once, and the record of another one is made.
    out.clear();
    complete(&mut controller, User(1), &mut out);
    assert_eq!(controller.stage(User(1)), Some(Stage::Settled));
    assert_eq!(controller.stage(User(3)), Some(Stage::PreparingTarget));
    assert_eq!(records(&out).len(), 1);
    assert!(!controller.is_short_of_records(), "three are left to begin with");
    complete(&mut controller, User(2), &mut out);
    assert!(controller.is_short_of_records());
}

#[test]
fn all_move_in_the_end() {
    let (mut controller, mut out) = (controller(50), Vec::new());
    controller.move_users((1..=50).map(User), B, &mut out);
    let mut writes = 0;
    while !controller.is_idle() {
        let stored = records(&std::mem::take(&mut out));
        writes += usize::from(!stored.is_empty());
        stored.iter().for_each(|(user, epoch)| controller.persisted(*user, *epoch, &mut out));
        let under_way: Vec<_> = controller
            .users_from(User(0))
            .filter(|(.., stage)| *stage == Stage::PreparingTarget)
            .map(|(user, ..)| user)
            .collect();
        assert!((1..=WINDOW).contains(&under_way.len()), "{under_way:?}");
        for user in under_way {
            complete(&mut controller, user, &mut out);
        }
    }
    assert!(controller.users_from(User(0)).all(|(_, record, _)| record.owner.unwrap().node == B));
    assert!(writes <= 25, "{writes}");
}

#[test]
fn a_user_whose_owner_is_gone_waits_for_no_turn() {
    let (mut controller, mut out) = (controller(6), Vec::new());
    controller.move_users((1..=6).map(User), B, &mut out);
    let stored = records(&out);
    // Three records are durable; of these two moves have begun.
    stored[..3].iter().for_each(|(user, epoch)| controller.persisted(*user, *epoch, &mut out));
    assert_eq!(in_stage(&controller, Stage::PreparingTarget), 2);
    controller.message(said(A, 2, Message::Hello), &mut out);
    assert_eq!(in_stage(&controller, Stage::PreparingTarget), 3);
    assert!(controller.is_short_of_records(), "the others are waited for");
    stored[3..].iter().for_each(|(user, epoch)| controller.persisted(*user, *epoch, &mut out));
    assert_eq!(in_stage(&controller, Stage::PreparingTarget), 6);
    assert!(!controller.is_short_of_records());
}

#[test]
fn a_controller_that_starts_again_begins_as_many_as_the_window_allows() {
    let moving = |user: u64| {
        let intent = Intent::Move { target: leg(B, 100 + user), lost: false, kept: None };
        (User(user), Record { intent, ..settled(user).1 })
    };
    let mut out = Vec::new();
    let mut controller = Controller::new(settings(), (1..=5).map(moving), Epoch(200), &mut out);
    assert_eq!(in_stage(&controller, Stage::PreparingTarget), WINDOW);
    for node in [ANCHOR, A, B] {
        controller.message(said(node, 1, Message::Hello), &mut out);
    }
    for user in 1..=5 {
        assert_eq!(controller.stage(User(user)), Some(Stage::PreparingTarget), "the next one");
        complete(&mut controller, User(user), &mut out);
    }
    assert!(controller.is_idle());
    assert!(records(&out).is_empty(), "they are durable already");
}
