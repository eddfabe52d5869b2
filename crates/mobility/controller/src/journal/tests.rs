use std::fs;

use proptest::prelude::*;
use weft_mobility_protocol::controller::Intent;
use weft_mobility_protocol::{Incarnation, Leg, NodeId};

use super::old::{self, recover};
use super::*;

fn leg() -> impl Strategy<Value = Leg> {
    (any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(node, incarnation, epoch)| Leg {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        epoch: Epoch(epoch),
    })
}

fn intent() -> impl Strategy<Value = Intent> {
    prop_oneof![
        Just(Intent::Settled),
        (leg(), any::<bool>()).prop_map(|(target, lost)| Intent::Move { target, lost }),
        any::<u64>().prop_map(|epoch| Intent::Remove { epoch: Epoch(epoch) }),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let record = (any::<u32>(), proptest::option::of(leg()), intent())
        .prop_map(|(anchor, owner, intent)| Record { anchor: NodeId(anchor), owner, intent });
    let end = prop_oneof![Just(End::Moved), Just(End::Aborted), Just(End::Refused)];
    let order = (0..5_u64, any::<u32>(), proptest::option::of(any::<u32>()), any::<[u32; 4]>());
    let order = order.prop_map(|(number, to, from, counts)| {
        let [users, ended @ ..] = counts.map(u64::from);
        Ordered { number, to: NodeId(to), from: from.map(NodeId), users, ended }
    });
    let gone = (any::<u32>(), any::<u32>()).prop_map(|(incarnation, successor)| Gone {
        incarnation: Incarnation(incarnation),
        successor: NodeId(successor),
    });
    prop_oneof![
        4 => (0..20_u64, proptest::option::of(record))
            .prop_map(|(user, record)| Entry::Record(User(user), record)),
        1 => order.prop_map(Entry::Order),
        2 => (0..20_u64, 0..5_u64).prop_map(|(user, order)| Entry::Meant(User(user), order)),
        1 => (0..20_u64, 0..5_u64, end)
            .prop_map(|(user, order, end)| Entry::Ended(User(user), order, end)),
        1 => (any::<u32>(), gone).prop_map(|(node, gone)| Entry::Gone(NodeId(node), gone)),
        1 => (0..4_u32, any::<bool>())
            .prop_map(|(node, cordoned)| Entry::Cordoned(NodeId(node), cordoned)),
        1 => (0..4_u32, any::<(u32, u64, bool)>()).prop_map(|(first, (owner, epoch, whole))| {
            let (owner, epoch) = (NodeId(owner), Epoch(epoch));
            Entry::Pair(NodeId(first), PairRecord { owner, epoch, whole })
        }),
    ]
}

fn frames() -> impl Strategy<Value = Vec<Vec<Entry>>> {
    proptest::collection::vec(proptest::collection::vec(entry(), 1..5), 1..8)
}

/// Some epoch that goes with a frame.
fn epoch(entries: &[Entry]) -> Epoch {
    let number = |entry: &Entry| match entry {
        Entry::Record(user, _) => user.0 + 1,
        _ => 1,
    };
    Epoch(entries.iter().map(number).sum())
}

/// As the machine has it: epochs only rise.
fn epoch_after(frames: &[Vec<Entry>]) -> Epoch {
    frames.iter().map(|entries| epoch(entries)).max().unwrap_or_default()
}

/// What the first frames say.
fn expected(frames: &[Vec<Entry>]) -> Recovered {
    let mut recovered = Recovered { next_epoch: epoch_after(frames), ..Recovered::default() };
    frames.iter().flatten().for_each(|entry| recovered.take(*entry));
    recovered
}

fn write(journal: &mut Journal, frames: &[Vec<Entry>]) {
    for (at, entries) in frames.iter().enumerate() {
        journal.append(entries, epoch_after(&frames[..=at])).unwrap();
    }
}

/// A frame as the file of before had it.
fn old_frame(entries: &[Entry]) -> Vec<u8> {
    let mut out = vec![0; 12];
    out.extend(epoch(entries).0.to_be_bytes());
    entries.iter().for_each(|entry| out.extend(entry::octets(entry)));
    out.extend([0, 0, 0, 0, 0, 0, 0, 0, 255]);
    let length = (out.len() - 12) as u32;
    let check = crc32fast::hash(&out[12..]);
    out[0..4].copy_from_slice(&length.to_be_bytes());
    out[4..8].copy_from_slice(&check.to_be_bytes());
    let check = crc32fast::hash(&out[..8]);
    out[8..12].copy_from_slice(&check.to_be_bytes());
    out
}

fn old_file(frames: &[Vec<Entry>]) -> Vec<u8> {
    let frames: Vec<_> = frames.iter().map(|entries| old_frame(entries)).collect();
    [&old::header()[..], &frames.concat()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_was_appended_is_there_again(frames in frames()) {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
        prop_assert_eq!(recovered, Recovered::default());
        write(&mut journal, &frames);
        drop(journal);
        let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
        prop_assert_eq!(&recovered, &expected(&frames));
        let next_epoch = recovered.next_epoch;
        journal.compact(&recovered.entries(), next_epoch).unwrap();
        journal.append(&frames[0], next_epoch).unwrap();
        drop(journal);
        let (_, recovered) = Journal::open(folder.path()).unwrap();
        let again = [frames.clone(), vec![frames[0].clone()]].concat();
        prop_assert_eq!(recovered, expected(&again));
    }

    /// A controller of before has left its file.
    #[test]
    fn a_file_of_before_is_taken_over(frames in frames(), cut in any::<prop::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let octets = old_file(&frames);
        // Its last frame may have been written in part.
        let last = old_frame(frames.last().unwrap()).len();
        let cut_off = cut.index(last);
        let cut = octets.len() - last + cut_off;
        fs::write(&path, &octets[..cut]).unwrap();
        let whole = expected(&frames[..frames.len() - 1]);
        let whole = Recovered { cut_off: cut_off as u64, ..whole };
        let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
        prop_assert_eq!(recovered, whole);
        journal.append(frames.last().unwrap(), epoch_after(&frames)).unwrap();
        drop(journal);
        prop_assert!(!path.exists());
        let (_, recovered) = Journal::open(folder.path()).unwrap();
        prop_assert_eq!(recovered, expected(&frames));
    }

    #[test]
    fn damage_of_a_file_of_before_is_refused(
        frames in frames(), at in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        let mut octets = old_file(&frames);
        // But for its last octet: without that it may not have been written.
        let at = at.index(octets.len() - 1);
        octets[at] ^= 1 << bit;
        fs::write(&path, &octets).unwrap();
        let error = Journal::open(folder.path()).unwrap_err();
        let foreign = at < 16;
        prop_assert!(matches!(
            (&error, foreign),
            (JournalError::Damaged { .. }, false) | (JournalError::Foreign(_), true)
        ), "{}", error);
        // It is left as it was, and refused again.
        prop_assert_eq!(fs::read(&path).unwrap(), octets);
        Journal::open(folder.path()).unwrap_err();
    }

    #[test]
    fn whatever_stands_in_a_file_is_read_or_refused(
        octets in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let all = [&old::header()[..], &octets].concat();
        let _ = recover(&all, Path::new("records"));
        let _ = recover(&octets, Path::new("records"));
        let _ = entry::parse(&octets);
    }
}

#[test]
fn records_have_one_controller() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(folder.path()).unwrap();
    assert!(matches!(Journal::open(folder.path()), Err(JournalError::InUse(_))));
    drop(journal);
    Journal::open(folder.path()).unwrap();
}

#[test]
fn a_store_that_is_damaged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path()).unwrap();
    journal.append(&[Entry::Record(User(1), None)], Epoch(7)).unwrap();
    drop(journal);
    let path = folder.path().join("state.redb");
    let mut octets = fs::read(&path).unwrap();
    // The epoch, wherever it lies.
    let epoch = [&[0, 5][..], b"next", &[VERSION], &7_u64.to_be_bytes()].concat();
    let places: Vec<_> =
        (0..octets.len() - 8).filter(|at| octets[*at..].starts_with(&epoch[7..])).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| octets[at + 7] = 6);
    fs::write(&path, octets).unwrap();
    let error = Journal::open(folder.path()).unwrap_err();
    assert!(matches!(error, JournalError::Store(StateError::Damaged { .. })), "{error}");
}

#[test]
fn what_is_out_of_date_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path()).unwrap();
    let many: Vec<_> = (0..4000).map(|user| Entry::Record(User(user), None)).collect();
    let mut appended = 0;
    while !journal.wants_compaction() {
        journal.append(&many, Epoch(1000)).unwrap();
        appended += 1;
        assert!(appended < 1000);
    }
    journal.compact(&[], Epoch(1000)).unwrap();
    assert!(!journal.wants_compaction());
    drop(journal);
    let recovered = Journal::open(folder.path()).unwrap().1;
    assert!(recovered.records.is_empty());
    // That no user is left does not make epochs begin anew.
    assert_eq!(recovered.next_epoch, Epoch(1000));
}
