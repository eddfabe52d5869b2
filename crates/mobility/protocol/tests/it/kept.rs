//! What a station keeps of its users for its next life, and when that life goes on with it.

use weft_mobility_protocol::controller::{Intent, Record};
use weft_mobility_protocol::{
    Contexts, Controller, Counter, Envelope, Epoch, Incarnation, Kept, Leg, Message, NodeId,
    Output, Reason, Settings, Station, Step, TimerKey, TimerKind, User,
};

const NODE: NodeId = NodeId(2);
const OTHER: NodeId = NodeId(3);
const ANCHOR: NodeId = NodeId(1);
const LIFE: Incarnation = Incarnation(7);
const USER: User = User(5);

/// The user was owned in epoch 5, and the move of epoch 7 was given up.
const KEPT: Kept = Kept { epoch: Epoch(5), last: Epoch(7) };

/// In which epoch a controller gives the user back to the station that had it by `before`, and from
/// which one, as it says.
fn giving_back(before: Epoch) -> (Epoch, Epoch) {
    let owner = Leg { node: NODE, incarnation: Incarnation(6), epoch: before };
    let record = Record { anchor: ANCHOR, owner: Some(owner), intent: Intent::Settled };
    let next = Epoch(before.0 + 1);
    let mut controller =
        Controller::new(Settings::default(), [(USER, record)], next, &mut Vec::new());
    let mut out = Vec::new();
    controller.message(hello(NODE, LIFE), &mut out);
    given(&out).expect("the user is given back")
}

fn hello(from: NodeId, from_incarnation: Incarnation) -> Envelope {
    let (to, to_incarnation) = (NodeId::CONTROLLER, Incarnation(0));
    Envelope { from, from_incarnation, to, to_incarnation, message: Message::Hello }
}

/// The epoch of a record by which a user is given back, and that from which it is.
fn given(out: &[Output]) -> Option<(Epoch, Epoch)> {
    out.iter().find_map(|output| match output {
        Output::Persist {
            record: Some(Record { intent: Intent::Move { target, kept: Some(kept), .. }, .. }),
            ..
        } => Some((target.epoch, *kept)),
        _ => None,
    })
}

/// The epoch by which the user is given back, and the one behind that.
fn behind(steps: u64) -> Epoch {
    (0..steps).fold(KEPT.last, |before, _| giving_back(before).0)
}

fn station(settings: Settings) -> Station {
    let mut station = Station::new(NODE, LIFE, settings, &mut Vec::new());
    station.remember(USER, KEPT);
    tell(&mut station, Message::Welcome);
    station
}

fn tell(station: &mut Station, message: Message) -> Vec<Output> {
    let mut out = Vec::new();
    let (from, from_incarnation) = (NodeId::CONTROLLER, Incarnation(0));
    let envelope = Envelope { from, from_incarnation, to: NODE, to_incarnation: LIFE, message };
    station.message(envelope, &mut out);
    out
}

fn prepare(station: &mut Station, user: User, epoch: Epoch, source: Option<Leg>) -> Vec<Output> {
    prepare_from(station, user, epoch, source, None)
}

fn prepare_from(
    station: &mut Station,
    user: User,
    epoch: Epoch,
    source: Option<Leg>,
    kept: Option<Epoch>,
) -> Vec<Output> {
    let step = Step::Prepare { source, kept, anchor: ANCHOR, settled: Epoch(0) };
    tell(station, Message::Handover { user, epoch, step })
}

/// The user is given back in an epoch from another one.
fn give_back(station: &mut Station, epoch: Epoch, from: Epoch) -> Vec<Output> {
    prepare_from(station, USER, epoch, None, Some(from))
}

/// With what contexts the station owns the user.
fn adopt(station: &mut Station, epoch: Epoch, lost: bool) -> Contexts {
    let out = tell(station, Message::Handover { user: USER, epoch, step: Step::Adopt { lost } });
    let imports = out.into_iter().filter_map(|output| match output {
        Output::Import { contexts, .. } => Some(contexts),
        _ => None,
    });
    let all: Vec<_> = imports.collect();
    assert_eq!(all.len(), 1);
    all[0].clone()
}

/// What is kept of the user from now on, where that changes.
fn keeps(out: &[Output]) -> Option<Option<Kept>> {
    out.iter().rev().find_map(|output| match output {
        Output::Keep(USER, kept) => Some(*kept),
        _ => None,
    })
}

fn imported(station: &mut Station, epoch: Epoch, made: bool) -> Vec<Output> {
    let mut out = Vec::new();
    station.imported(USER, epoch, made, &mut out);
    out
}

#[test]
fn a_user_that_is_given_back_goes_on() {
    let mut station = station(Settings::default());
    let epoch = behind(1);
    let out = give_back(&mut station, epoch, KEPT.last);
    assert_eq!(keeps(&out), Some(Some(Kept { last: epoch, ..KEPT })));
    // What is said twice changes nothing.
    assert_eq!(keeps(&give_back(&mut station, epoch, KEPT.last)), None);
    assert_eq!(adopt(&mut station, epoch, true), Contexts::Kept);
    let out = imported(&mut station, epoch, true);
    assert_eq!(keeps(&out), Some(Some(Kept { epoch, last: epoch })));
    let counts = [Counter::ContextKept, Counter::ContextLost].map(Output::Count);
    assert!(counts.iter().all(|count| out.contains(count)), "{out:?}");
}

#[test]
fn a_record_that_is_old_is_not_gone_on_with() {
    // From another epoch than those of the record, also where it looks alike; from none; and late.
    let others = [1, 4, 6, 8, 9, 5 + 1024, 7 + (1 << 17), 7 + (1 << 32)];
    let others = others.map(|from| (Epoch(1 << 40), Some(Epoch(from))));
    let none = [behind(1), behind(2), Epoch(8), Epoch(1 << 40)].map(|epoch| (epoch, None));
    let late = [(Epoch(7), Some(Epoch(5))), (Epoch(6), Some(Epoch(5)))];
    for (epoch, from) in others.into_iter().chain(none).chain(late) {
        let mut station = station(Settings::default());
        let out = prepare_from(&mut station, USER, epoch, None, from);
        assert_eq!(keeps(&out), if epoch == KEPT.last { None } else { Some(None) }, "{epoch}");
        if epoch > KEPT.last {
            assert_eq!(adopt(&mut station, epoch, true), Contexts::New, "{epoch}");
            let out = imported(&mut station, epoch, true);
            assert!(!out.contains(&Output::Count(Counter::ContextKept)), "{epoch}: {out:?}");
        }
    }
}

#[test]
fn a_user_that_comes_from_elsewhere_is_not_the_one_that_was_kept() {
    let mut station = station(Settings::default());
    let source = Leg { node: OTHER, incarnation: Incarnation(1), epoch: Epoch(6) };
    // A message that says both does not come about: the source counts.
    let from = Some(KEPT.last);
    let out = prepare_from(&mut station, USER, behind(1), Some(source), from);
    assert_eq!(keeps(&out), Some(None));
    // Its source is gone meanwhile.
    assert_eq!(adopt(&mut station, behind(1), true), Contexts::New);
}

#[test]
fn a_user_that_was_removed_and_added_again_begins_anew() {
    let mut station = station(Settings::default());
    give_back(&mut station, behind(1), KEPT.last);
    assert_eq!(adopt(&mut station, behind(1), false), Contexts::New);
    let out = imported(&mut station, behind(1), true);
    assert!(!out.contains(&Output::Count(Counter::ContextKept)), "{out:?}");
    assert!(!out.contains(&Output::Count(Counter::ContextLost)), "{out:?}");
}

#[test]
fn a_station_that_is_full_and_the_life_behind_it_know_the_user_still() {
    let mut first = station(Settings { prepared: 1, ..Settings::default() });
    prepare(&mut first, User(6), Epoch(3), None);
    let out = give_back(&mut first, behind(1), KEPT.last);
    let step = Step::Refused(Reason::Full);
    let message = Message::Handover { user: USER, epoch: behind(1), step };
    assert!(
        out.iter().any(|one| matches!(one, Output::Send(said) if said.message == message)),
        "{out:?}"
    );
    let Some(Some(kept)) = keeps(&out) else { panic!("{out:?}") };
    // The controller asks again in a further epoch, and the station has died meanwhile.
    let mut second = Station::new(NODE, LIFE, Settings::default(), &mut Vec::new());
    second.remember(USER, kept);
    for station in [&mut first, &mut second] {
        let remove = Message::Handover { user: User(6), epoch: Epoch(4), step: Step::Remove };
        tell(station, remove);
        give_back(station, behind(2), behind(1));
        assert_eq!(adopt(station, behind(2), true), Contexts::Kept);
    }
}

#[test]
fn contexts_that_cannot_be_gone_on_with_are_not_tried_again() {
    let mut station = station(Settings::default());
    give_back(&mut station, behind(1), KEPT.last);
    assert_eq!(adopt(&mut station, behind(1), true), Contexts::Kept);
    assert_eq!(keeps(&imported(&mut station, behind(1), false)), Some(None));
    give_back(&mut station, behind(2), behind(1));
    assert_eq!(adopt(&mut station, behind(2), true), Contexts::New);
}

#[test]
fn users_that_are_not_given_back_are_forgotten() {
    let mut station = Station::new(NODE, LIFE, Settings::default(), &mut Vec::new());
    station.remember(USER, KEPT);
    station.remember(User(6), KEPT);
    let key = TimerKey { user: None, kind: TimerKind::Release };
    let sets =
        |out: &[Output]| out.iter().any(|one| matches!(one, Output::SetTimer(of, _) if *of == key));
    assert!(sets(&tell(&mut station, Message::Welcome)));
    // Another controller says it once more.
    assert!(!sets(&tell(&mut station, Message::Welcome)));
    give_back(&mut station, behind(1), KEPT.last);
    let mut out = Vec::new();
    station.timer(key, &mut out);
    assert_eq!(out, [Output::Keep(User(6), None)]);
    assert_eq!(adopt(&mut station, behind(1), true), Contexts::Kept);
}

#[test]
fn a_user_that_leaves_is_not_kept() {
    let mut station = station(Settings::default());
    let epoch = behind(1);
    give_back(&mut station, epoch, KEPT.last);
    adopt(&mut station, epoch, true);
    imported(&mut station, epoch, true);
    let target = Leg { node: OTHER, incarnation: Incarnation(1), epoch: behind(2) };
    let step = Step::Move { target };
    let out = tell(&mut station, Message::Handover { user: USER, epoch: behind(2), step });
    assert_eq!(keeps(&out), Some(None));
    // The move is given up.
    let step = Step::Resume { target, certain: true, target_gone: true };
    let out = tell(&mut station, Message::Handover { user: USER, epoch: behind(2), step });
    assert_eq!(keeps(&out), Some(Some(Kept { epoch, last: behind(2) })));
    let step = Step::Remove;
    let out = tell(&mut station, Message::Handover { user: USER, epoch: behind(3), step });
    assert_eq!(keeps(&out), Some(None));
}

/// A controller that starts again does not know of moves that were given up: it names the ownership.
#[test]
fn a_user_is_given_back_by_a_controller_that_has_started_again() {
    let (epoch, from) = giving_back(KEPT.epoch);
    assert_eq!(from, KEPT.epoch);
    let mut station = station(Settings::default());
    give_back(&mut station, epoch, from);
    assert_eq!(adopt(&mut station, epoch, true), Contexts::Kept);
}

/// The record says it, so that a controller that dies and starts again says it as well; and an epoch
/// follows the one before by no more than its tag wants.
#[test]
fn a_controller_names_the_epoch_only_to_the_node_that_had_the_user() {
    let owner = Leg { node: NODE, incarnation: Incarnation(6), epoch: Epoch(5) };
    let record = Record { anchor: ANCHOR, owner: Some(owner), intent: Intent::Settled };
    let begin = |record| {
        let (settings, next) = (Settings::default(), Epoch(1 << 20));
        Controller::new(settings, [(USER, record)], next, &mut Vec::new())
    };
    let mut controller = begin(record);
    controller.message(hello(NODE, LIFE), &mut Vec::new());
    let given_back = controller.record(USER).unwrap();
    let Intent::Move { target, kept, lost } = given_back.intent else { panic!("{given_back:?}") };
    assert_eq!((target.node, kept, lost), (NODE, Some(Epoch(5)), true));
    assert!(target.epoch < Epoch((1 << 20) + 1024), "{}", target.epoch);
    let says = |out: &[Output]| {
        out.iter().find_map(|output| match output {
            Output::Send(Envelope {
                message: Message::Handover { step: Step::Prepare { kept, .. }, .. },
                ..
            }) => Some(*kept),
            _ => None,
        })
    };
    let mut out = Vec::new();
    controller.persisted(USER, target.epoch, &mut out);
    assert_eq!(says(&out), Some(Some(Epoch(5))));
    let mut out = Vec::new();
    Controller::new(Settings::default(), [(USER, given_back)], Epoch(1 << 30), &mut out);
    assert_eq!(says(&out), Some(Some(Epoch(5))));
    // Its successor has not had the user.
    let mut controller = begin(record);
    controller.message(hello(OTHER, LIFE), &mut Vec::new());
    controller.node_gone(NODE, OTHER, &mut Vec::new());
    let Intent::Move { target, kept, .. } = controller.record(USER).unwrap().intent else {
        panic!("the user has an owner")
    };
    assert_eq!((target.node, kept), (OTHER, None));
}
