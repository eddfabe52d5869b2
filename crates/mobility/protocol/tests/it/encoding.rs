//! Messages as octets: what is written is read, and nothing else is.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use weft_mobility_protocol::function_move::{FunctionStep, MAX_PIECE, Piece, Side};
use weft_mobility_protocol::standby::{MAX_RECORDS, Position, StandbyStep, Standing};
use weft_mobility_protocol::{
    Envelope, Epoch, Incarnation, Leg, Message, NodeId, ParseError, Reason, RouteStage, Step, User,
};

fn leg() -> impl Strategy<Value = Leg> {
    any::<(u32, u32, u64)>().prop_map(|(node, incarnation, epoch)| Leg {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        epoch: Epoch(epoch),
    })
}

fn stage() -> impl Strategy<Value = RouteStage> {
    prop_oneof![
        Just(RouteStage::Prepare),
        Just(RouteStage::Switch),
        Just(RouteStage::Complete),
        Just(RouteStage::Abort),
        Just(RouteStage::Remove),
    ]
}

fn reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        Just(Reason::Stale),
        Just(Reason::Unknown),
        Just(Reason::Busy),
        Just(Reason::Full),
        Just(Reason::Import),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let plain = prop_oneof![
        Just(Step::Prepared),
        Just(Step::Moved),
        Just(Step::Taken),
        Just(Step::Imported),
        Just(Step::Abort),
        Just(Step::Aborted),
        Just(Step::Resumed),
        Just(Step::Arrived),
        Just(Step::Release),
        Just(Step::Released),
        Just(Step::Complete),
        Just(Step::Completed),
        Just(Step::Remove),
        Just(Step::Removed),
    ];
    prop_oneof![
        plain,
        (option::of(leg()), any::<u32>(), any::<u64>()).prop_map(|(source, anchor, settled)| {
            Step::Prepare { source, kept: None, anchor: NodeId(anchor), settled: Epoch(settled) }
        }),
        leg().prop_map(|target| Step::Move { target }),
        vec(any::<u8>(), 0..300).prop_map(Step::Contexts),
        any::<bool>().prop_map(|lost| Step::Adopt { lost }),
        reason().prop_map(Step::Refused),
        (leg(), any::<bool>(), any::<bool>()).prop_map(|(target, certain, target_gone)| {
            Step::Resume { target, certain, target_gone }
        }),
        (stage(), option::of(leg()), option::of(leg())).prop_map(|(stage, old, new)| Step::Route {
            stage,
            old,
            new
        }),
        stage().prop_map(Step::Routed),
    ]
}

fn function_step() -> impl Strategy<Value = FunctionStep> {
    let piece = (any::<(u32, bool, u32)>(), vec(any::<u8>(), 0..300));
    prop_oneof![
        Just(FunctionStep::Prepared),
        Just(FunctionStep::Release),
        Just(FunctionStep::Released),
        Just(FunctionStep::Abort),
        Just(FunctionStep::Aborted),
        (any::<bool>(), "[a-zé]{0,20}").prop_map(|(target, kind)| FunctionStep::Prepare {
            side: if target { Side::Target } else { Side::Source },
            kind,
        }),
        piece.prop_map(|((number, is_last, count), octets)| {
            FunctionStep::Contexts(Piece { number, is_last, count, octets })
        }),
        any::<u32>().prop_map(FunctionStep::Taken),
        any::<u32>().prop_map(FunctionStep::Fetch),
        (any::<u64>(), "[ -~é]{0,100}")
            .prop_map(|(newest, reason)| FunctionStep::Refused { newest: Epoch(newest), reason }),
    ]
}

fn position() -> impl Strategy<Value = Position> {
    any::<(u32, bool, u64, u64)>().prop_map(|(stream, whole, base, number)| Position {
        stream: Incarnation(stream),
        whole,
        base,
        number,
    })
}

fn standby_step() -> impl Strategy<Value = StandbyStep> {
    let standing =
        prop_oneof![Just(Standing::Owns), Just(Standing::Stands), Just(Standing::Leaves)];
    let numbers = any::<(u64, u64)>().prop_map(|(epoch, stamp)| (Epoch(epoch), stamp));
    prop_oneof![
        (numbers.clone(), standing, any::<(bool, bool, bool)>()).prop_map(
            |((epoch, stamp), standing, (whole, hears, built))| StandbyStep::Claim {
                epoch,
                stamp,
                standing,
                whole,
                hears,
                built
            }
        ),
        (numbers.clone(), any::<(u32, bool, u32)>()).prop_map(
            |((epoch, stamp), (lease, whole, peer))| StandbyStep::Grant {
                epoch,
                stamp,
                lease,
                whole,
                peer: NodeId(peer)
            }
        ),
        (numbers.clone(), any::<(u32, u32)>()).prop_map(|((epoch, stamp), (lease, peer))| {
            StandbyStep::Deny { epoch, stamp, lease, peer: NodeId(peer) }
        }),
        (numbers.clone(), any::<(u64, bool)>()).prop_map(|((epoch, stamp), (newest, leaves))| {
            StandbyStep::Alive { epoch, stamp, newest, leaves }
        }),
        any::<u64>().prop_map(|epoch| StandbyStep::Leave { epoch: Epoch(epoch) }),
        (numbers, position()).prop_map(|((epoch, stamp), position)| StandbyStep::Attend {
            epoch,
            stamp,
            position
        }),
        (any::<u64>(), position(), any::<bool>(), vec(any::<u8>(), 0..300)).prop_map(
            |(epoch, at, is_last, octets)| StandbyStep::Records {
                epoch: Epoch(epoch),
                at,
                is_last,
                octets
            }
        ),
    ]
}

/// A user is given back from an epoch before that of the move.
fn giving_back() -> impl Strategy<Value = Message> {
    (any::<(u64, u32, u64)>(), 2..=u64::MAX, any::<u64>()).prop_map(
        |((user, anchor, settled), epoch, from)| {
            let kept = Some(Epoch(from % (epoch - 1) + 1));
            let step = Step::Prepare {
                source: None,
                kept,
                anchor: NodeId(anchor),
                settled: Epoch(settled),
            };
            Message::Handover { user: User(user), epoch: Epoch(epoch), step }
        },
    )
}

fn envelope() -> impl Strategy<Value = Envelope> {
    let message = prop_oneof![
        1 => Just(Message::Hello),
        1 => Just(Message::Probe),
        1 => Just(Message::Welcome),
        20 => (any::<(u64, u64)>(), step()).prop_map(|((user, epoch), step)| Message::Handover {
            user: User(user),
            epoch: Epoch(epoch),
            step,
        }),
        4 => giving_back(),
        10 => standby_step().prop_map(Message::Standby),
        10 => ("[a-zé-]{0,40}", any::<u64>(), function_step()).prop_map(
            |(function, epoch, step)| Message::FunctionMove { function, epoch: Epoch(epoch), step },
        ),
    ];
    (any::<[u32; 4]>(), message).prop_map(|([from, lives, to, life], message)| Envelope {
        from: NodeId(from),
        from_incarnation: Incarnation(lives),
        to: NodeId(to),
        to_incarnation: Incarnation(life),
        message,
    })
}

fn written(envelope: &Envelope) -> Vec<u8> {
    let mut bytes = Vec::new();
    envelope.emit(&mut bytes).unwrap();
    bytes
}

proptest! {
    #[test]
    fn what_is_written_is_read(first in envelope(), second in envelope()) {
        let mut bytes = written(&first);
        let length = bytes.len();
        bytes.extend(written(&second));
        prop_assert_eq!(Envelope::parse(&bytes), Ok((first, length)));
        let rest = bytes.len() - length;
        prop_assert_eq!(Envelope::parse(&bytes[length..]), Ok((second, rest)));
    }

    #[test]
    fn what_is_cut_off_waits_for_more(envelope in envelope()) {
        let bytes = written(&envelope);
        for end in 0..bytes.len() {
            prop_assert_eq!(Envelope::parse(&bytes[..end]), Err(ParseError::Truncated));
        }
    }

    #[test]
    fn what_is_read_is_written_the_same(envelope in envelope(), at in 0..200_usize, octet: u8) {
        let mut bytes = written(&envelope);
        let at = at % bytes.len();
        bytes[at] = octet;
        if let Ok((other, length)) = Envelope::parse(&bytes) {
            prop_assert_eq!(written(&other), &bytes[..length]);
        }
    }

    #[test]
    fn any_octets_are_read_or_refused(bytes in vec(any::<u8>(), 0..120)) {
        if let Ok((envelope, length)) = Envelope::parse(&bytes) {
            prop_assert_eq!(written(&envelope), &bytes[..length]);
        }
    }
}

fn prepare(source: Option<Leg>, kept: Option<u64>) -> Envelope {
    let (anchor, settled, kept) = (NodeId(1), Epoch(0x0102), kept.map(Epoch));
    Envelope {
        from: NodeId::CONTROLLER,
        from_incarnation: Incarnation(0),
        to: NodeId(2),
        to_incarnation: Incarnation(7),
        message: Message::Handover {
            user: User(5),
            epoch: Epoch(0x0203),
            step: Step::Prepare { source, kept, anchor, settled },
        },
    }
}

/// A Prepare as release 0.1.0 writes it: without a source, with one, and of a user that is given
/// back.
#[test]
fn a_prepare_is_written_and_read_as_it_was() {
    let head = |version, length| {
        let head = [version, 16, 0, 0, 0, 0, 0, length, 0, 0, 0, 0, 0, 0, 0, 0];
        let to = [0, 0, 0, 2, 0, 0, 0, 7];
        [&head[..], &to, b"\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\x02\x03"].concat()
    };
    let rest = b"\0\0\0\x01\0\0\0\0\0\0\x01\x02";
    let source = Leg { node: NodeId(3), incarnation: Incarnation(8), epoch: Epoch(0x0109) };
    let leg = b"\x01\0\0\0\x03\0\0\0\x08\0\0\0\0\0\0\x01\x09";
    let from = b"\0\0\0\0\0\0\x02\x02";
    for (octets, said) in [
        ([&head(1, 53), &b"\0"[..], rest].concat(), prepare(None, None)),
        ([&head(1, 69), &leg[..], rest].concat(), prepare(Some(source), None)),
        ([&head(2, 61), &b"\0"[..], rest, from].concat(), prepare(None, Some(0x0202))),
    ] {
        assert_eq!(written(&said), octets);
        assert_eq!(Envelope::parse(&octets), Ok((said, octets.len())));
    }
}

#[test]
fn an_epoch_to_give_back_from_that_means_nothing_is_refused() {
    let octets = written(&prepare(None, Some(0x0202)));
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut octets = octets.clone();
        change(&mut octets);
        octets[7] = octets.len() as u8;
        Envelope::parse(&octets)
    };
    assert!(with(&|_| {}).is_ok());
    // From none, from the move's own, and from a later one.
    for from in [0, 0x0203, 0x0204, u64::MAX] {
        let put = |octets: &mut Vec<u8>| octets[53..].copy_from_slice(&from.to_be_bytes());
        assert_eq!(with(&put), Err(ParseError::Value), "{from}");
    }
    // Cut off inside the field, or before it; longer than it; in a version that has none.
    for length in 53..61 {
        assert_eq!(with(&|octets| octets.truncate(length)), Err(ParseError::Length), "{length}");
    }
    assert_eq!(with(&|octets| octets.push(0)), Err(ParseError::Length));
    assert_eq!(with(&|octets| octets[0] = 1), Err(ParseError::Length));
    // What comes from a source is not given back.
    let leg = [&[1][..], &[0; 16]].concat();
    let put = |octets: &mut Vec<u8>| drop(octets.splice(40..41, leg.iter().copied()));
    assert_eq!(with(&put), Err(ParseError::Value));
    // Version 2 says nothing else, however little of the message is there.
    for kind in (0..=255).filter(|kind| *kind != 16) {
        assert_eq!(with(&|octets| octets[1] = kind), Err(ParseError::Version(2)), "{kind}");
        assert_eq!(Envelope::parse(&[2, kind]), Err(ParseError::Version(2)));
    }
    assert_eq!(Envelope::parse(&[2]), Err(ParseError::Truncated));
}

#[test]
fn a_length_that_lies_is_refused() {
    let mut bytes = written(&Envelope {
        from: NodeId(1),
        from_incarnation: Incarnation(1),
        to: NodeId(2),
        to_incarnation: Incarnation(1),
        message: Message::Handover { user: User(1), epoch: Epoch(2), step: Step::Prepared },
    });
    bytes.push(0);
    bytes[7] += 1;
    assert_eq!(Envelope::parse(&bytes), Err(ParseError::Length));
    bytes[4] = 0xff;
    assert_eq!(Envelope::parse(&bytes), Err(ParseError::Length));
    bytes[0] = 9;
    assert_eq!(Envelope::parse(&bytes), Err(ParseError::Version(9)));
}

#[test]
fn a_piece_has_a_bound_and_a_reason_is_cut() {
    let envelope = |step| Envelope {
        from: NodeId(1),
        from_incarnation: Incarnation(2),
        to: NodeId(3),
        to_incarnation: Incarnation(4),
        message: Message::FunctionMove { function: "count".into(), epoch: Epoch(5), step },
    };
    let piece = |octets| Piece { octets: vec![7; octets], ..Piece::default() };
    let most = envelope(FunctionStep::Contexts(piece(MAX_PIECE)));
    let bytes = written(&most);
    assert_eq!(Envelope::parse(&bytes), Ok((most, bytes.len())));
    let beyond = envelope(FunctionStep::Contexts(piece(MAX_PIECE + 1)));
    assert_eq!(beyond.emit(&mut Vec::new()), Err(ParseError::Length));
    let reason = "é".repeat(2000);
    let refused = envelope(FunctionStep::Refused { newest: Epoch(0), reason: reason.clone() });
    let (read, _) = Envelope::parse(&written(&refused)).unwrap();
    let Message::FunctionMove { step: FunctionStep::Refused { reason: said, .. }, .. } =
        read.message
    else {
        panic!("another message");
    };
    assert_eq!(said, reason[..1024]);
}

#[test]
fn records_have_a_bound() {
    let envelope = |octets| Envelope {
        from: NodeId(1),
        from_incarnation: Incarnation(2),
        to: NodeId(3),
        to_incarnation: Incarnation(4),
        message: Message::Standby(StandbyStep::Records {
            epoch: Epoch(5),
            at: Position::default(),
            is_last: true,
            octets: vec![7; octets],
        }),
    };
    let most = envelope(MAX_RECORDS);
    let mut bytes = written(&most);
    assert_eq!(Envelope::parse(&bytes), Ok((most, bytes.len())));
    assert_eq!(envelope(MAX_RECORDS + 1).emit(&mut Vec::new()), Err(ParseError::Length));
    // One octet more than may be, written by another.
    bytes.push(7);
    let length = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&length.to_be_bytes());
    assert_eq!(Envelope::parse(&bytes), Err(ParseError::Length));
}
