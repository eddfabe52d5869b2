//! Contexts that move from one instance to another, for every function.

use crate::common::Example;
use crate::common::testing::{CONTEXTS, Rig, Seen, Spec, specs};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use weft_compose::Kind;
use weft_functions::KINDS;

/// A packet of one of the users: when it comes, behind the one before, in
/// nanoseconds, and which tags it has.
#[derive(Clone, Debug)]
struct Arrival {
    gap: u64,
    user: u32,
    tags: [u32; 8],
    spec: Spec,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![Just(0), 0_u64..10_000_000, 0_u64..100_000_000_000];
    let one = (gap, 0..3_u32, any::<[bool; 8]>(), specs());
    vec(
        one.prop_map(|(gap, user, tags, spec)| Arrival {
            gap,
            user,
            tags: tags.map(u32::from),
            spec,
        }),
        0..12,
    )
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(KINDS)
}

fn send(rig: &mut Rig, arrival: &Arrival) -> Seen {
    rig.now += arrival.gap;
    let Arrival { user, tags, .. } = *arrival;
    rig.send_as(&arrival.spec, |metadata| {
        (metadata.user, metadata.bearer, metadata.group) = (user, user, user);
        metadata.tags = tags;
    })
}

/// A context as it would have been written at a time of day that never comes: those of sessions say
/// which it was, which is the machine's, and how long they were away follows from it.
fn exported(rig: &Rig, example: &Example, slot: u32) -> Vec<u8> {
    let mut octets = rig.export(slot);
    // Behind version and time, a context without rules has nothing.
    if example.kind.name == "session-detection" && octets.len() > 10 {
        let at = octets.len() - 16;
        octets[at..at + 8].copy_from_slice(&i64::MAX.to_le_bytes());
    }
    octets
}

/// Moves all contexts to an instance whose clock shows `now`.
fn moved(source: &Rig, example: &Example, now: u64) -> Rig {
    let mut target = Rig::new(&example.kind, example.config.clone()).expect("the example works");
    target.now = now;
    for slot in 0..CONTEXTS as u32 {
        let octets = exported(source, example, slot);
        target.instance.import(slot, now, &octets).expect("a whole context");
    }
    target
}

proptest! {
    #[test]
    fn a_moved_context_behaves_as_if_it_had_stayed(
        kind in kinds(),
        before in arrivals(),
        after in arrivals(),
        clock in 0_u64..1 << 60,
    ) {
        let example = Example::of(&kind);
        let mut source = example.rig();
        for arrival in &before {
            send(&mut source, arrival);
        }
        let mut target = moved(&source, &example, clock);
        for arrival in &after {
            prop_assert_eq!(send(&mut source, arrival), send(&mut target, arrival));
        }
        let (source, target) = (moved(&source, &example, 0), moved(&target, &example, 0));
        for slot in 0..CONTEXTS as u32 {
            prop_assert_eq!(
                exported(&source, &example, slot),
                exported(&target, &example, slot)
            );
        }
    }

    #[test]
    fn moving_twice_changes_no_byte(kind in kinds(), before in arrivals()) {
        let example = Example::of(&kind);
        let mut source = example.rig();
        for arrival in &before {
            send(&mut source, arrival);
        }
        let once = moved(&source, &example, source.now);
        let twice = moved(&once, &example, source.now);
        for slot in 0..CONTEXTS as u32 {
            prop_assert_eq!(
                exported(&once, &example, slot),
                exported(&twice, &example, slot)
            );
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_make_a_context_that_works(
        kind in kinds(),
        arrivals in arrivals(),
        changes in vec((any::<Index>(), any::<u8>()), 0..4),
        end in any::<Index>(),
        noise in vec(any::<u8>(), 0..100),
    ) {
        let example = Example::of(&kind);
        let mut rig = example.rig();
        for arrival in &arrivals {
            send(&mut rig, arrival);
        }
        let mut damaged = rig.export(1);
        for (place, octet) in changes {
            *place.get_mut(&mut damaged) = octet;
        }
        let cut = damaged[..end.index(damaged.len())].to_vec();
        let longer = [&damaged[..], &noise[..]].concat();
        for bytes in [cut, longer, damaged, noise] {
            let before = exported(&rig, &example, 1);
            if rig.instance.import(1, rig.now, &bytes).is_err() {
                prop_assert_eq!(exported(&rig, &example, 1), before);
            }
            for arrival in &arrivals {
                send(&mut rig, arrival);
            }
        }
    }
}

/// What functions keep beyond their node, of all functions.
fn checkpointed() -> impl Iterator<Item = (&'static Kind, Example)> {
    KINDS.iter().filter(|kind| kind.checkpointed).map(|kind| (kind, Example::of(kind)))
}

/// All contexts as they stand at the time 0 of a node.
fn contexts(rig: &Rig, example: &Example) -> Vec<Vec<u8>> {
    let rig = moved(rig, example, 0);
    (0..CONTEXTS as u32).map(|slot| exported(&rig, example, slot)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each function: its contexts are checkpointed, the node starts again with another clock,
    /// imports them, and gives them the settings of the configuration.
    #[test]
    fn a_node_that_starts_again_has_what_was_checkpointed(
        before in arrivals(),
        clock in 0_u64..1 << 60,
    ) {
        for (kind, example) in checkpointed() {
            let mut source = example.rig();
            for arrival in &before {
                send(&mut source, arrival);
            }
            let checkpoint = contexts(&source, &example);
            let mut again = moved(&source, &example, clock);
            drop(source);
            example.settle(&mut again);
            prop_assert_eq!(contexts(&again, &example), checkpoint, "{}", kind.name);
        }
    }

    /// A node that stands by imports checkpoints over earlier ones, as they come.
    #[test]
    fn checkpoints_replace_earlier_ones_in_any_order(
        first in arrivals(),
        second in arrivals(),
        order in vec(0..CONTEXTS as u32, 0..12),
    ) {
        for (kind, example) in checkpointed().filter(|(kind, _)| kind.rollback) {
            let mut source = example.rig();
            for arrival in &first {
                send(&mut source, arrival);
            }
            let mut standing = moved(&source, &example, source.now);
            for arrival in &second {
                send(&mut source, arrival);
            }
            standing.now = source.now;
            for slot in order.iter().copied().chain(0..CONTEXTS as u32) {
                let octets = exported(&source, &example, slot);
                standing.instance.import(slot, standing.now, &octets).expect("a whole context");
            }
            prop_assert_eq!(
                contexts(&standing, &example),
                contexts(&source, &example),
                "{}",
                kind.name
            );
        }
    }
}

#[test]
fn bytes_of_another_version_are_refused() {
    for kind in KINDS {
        let mut rig = Example::of(kind).rig();
        let mut bytes = rig.export(1);
        rig.instance.import(0, 0, &bytes).expect("its own version");
        bytes[..2].copy_from_slice(&u16::MAX.to_le_bytes());
        assert!(rig.instance.import(0, 0, &bytes).is_err(), "{}", kind.name);
    }
}

/// What a released context held is not there for the next user of its slot.
#[test]
fn a_released_context_is_fresh() {
    for kind in KINDS {
        let example = Example::of(kind);
        let mut rig = example.rig();
        let fresh = Rig::new(kind, example.config.clone()).expect("the example works").export(1);
        rig.send_as(&Spec::udp(b"payload"), |metadata| {
            (metadata.user, metadata.bearer, metadata.group) = (1, 1, 1);
        });
        rig.instance.release(1);
        assert_eq!(rig.export(1), fresh, "{}", kind.name);
    }
}
