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
        (leg(), any::<(bool, Option<u64>)>()).prop_map(|(target, (lost, kept))| {
            let kept = kept.map(Epoch).filter(|kept| *kept > Epoch(0) && *kept < target.epoch);
            Intent::Move { target, lost, kept }
        }),
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
        1 => (0..4_u32, 0..3_u8, any::<u32>()).prop_map(|(node, kind, life)| {
            let kinds = [Cordon::Lifted, Cordon::Stays, Cordon::UntilRestart(Incarnation(life))];
            Entry::Cordoned(NodeId(node), kinds[usize::from(kind)])
        }),
        1 => (0..4_u32, any::<(u32, u64, bool)>()).prop_map(|(first, (owner, epoch, whole))| {
            let (owner, epoch) = (NodeId(owner), Epoch(epoch >> 1));
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
    seal(&mut out);
    out
}

/// Gives a frame its length and its sums.
fn seal(out: &mut [u8]) {
    let length = (out.len() - 12) as u32;
    let check = crc32fast::hash(&out[12..]);
    out[0..4].copy_from_slice(&length.to_be_bytes());
    out[4..8].copy_from_slice(&check.to_be_bytes());
    let check = crc32fast::hash(&out[..8]);
    out[8..12].copy_from_slice(&check.to_be_bytes());
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

/// A record with which it would not be known, some moves later, which epoch is the newest.
#[test]
fn an_epoch_that_no_controller_gives_is_refused() {
    for (epoch, is_read) in [(Epoch::END.0 - 1, true), (Epoch::END.0, false), (u64::MAX, false)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path()).unwrap();
        journal.append(&[], Epoch(epoch)).unwrap();
        drop(journal);
        let error = Journal::open(folder.path()).err().map(|error| error.to_string());
        assert_eq!(error.is_none(), is_read, "{epoch}: {error:?}");
        assert!(error.is_none_or(|error| error.contains("2^63") && !error.contains('\n')));
        let mut file = old_frame(&[]);
        file[12..20].copy_from_slice(&epoch.to_be_bytes());
        seal(&mut file);
        let octets = [&old::header()[..], &file].concat();
        let read = recover(&octets, folder.path());
        assert_eq!(read.is_ok(), is_read, "{epoch}: {read:?}");
    }
}

fn move_of(kept: Option<u64>) -> Entry {
    let leg = |epoch| Leg { node: NodeId(2), incarnation: Incarnation(7), epoch: Epoch(epoch) };
    let intent = Intent::Move { target: leg(0x0b0c), lost: true, kept: kept.map(Epoch) };
    Entry::Record(User(5), Some(Record { anchor: NodeId(1), owner: Some(leg(0x0a0b)), intent }))
}

/// Octets of a move as release 0.1.0 writes it, without and with the epoch from which the user is
/// given back.
#[test]
fn moves_are_written_and_read_as_they_were() {
    let before: &[u8] = b"\0\0\0\0\0\0\0\x05\x02\0\0\0\x01\x01\
        \0\0\0\x02\0\0\0\x07\0\0\0\0\0\0\x0a\x0b\
        \0\0\0\x02\0\0\0\x07\0\0\0\0\0\0\x0b\x0c\x01";
    let mut back = [before, b"\0\0\0\0\0\0\x0a\x0b"].concat();
    back[8] = 10;
    for (octets, kept) in [(before, None), (&back, Some(0x0a0b))] {
        assert_eq!(entry::octets(&move_of(kept)), octets);
        assert_eq!(entry::parse(octets), Some(move_of(kept)));
        for length in 0..octets.len() {
            assert_eq!(entry::parse(&octets[..length]), None, "{length} octets");
        }
        assert_eq!(entry::parse(&[octets, &[0]].concat()), None);
    }
    // From no epoch, from the move's own, and from a later one.
    for from in [0, 0x0b0c, u64::MAX] {
        back[47..].copy_from_slice(&u64::to_be_bytes(from));
        assert_eq!(entry::parse(&back), None, "{from}");
    }
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
