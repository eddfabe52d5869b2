use proptest::prelude::*;
use weft_mobility_protocol::controller::Intent;
use weft_mobility_protocol::{Incarnation, Leg, NodeId};

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

fn frame(entries: &[Entry]) -> Vec<u8> {
    entry::frame(entries, epoch(entries))
}

/// What the first frames say.
fn expected(frames: &[Vec<Entry>]) -> Recovered {
    let mut recovered = Recovered::default();
    for entries in frames {
        entries.iter().for_each(|entry| recovered.take(*entry));
        recovered.next_epoch = recovered.next_epoch.max(epoch(entries));
    }
    recovered
}

/// What a file holds that is written anew.
fn entries(recovered: &Recovered) -> Vec<Entry> {
    let records = recovered.records.iter().map(|(user, record)| Entry::Record(*user, *record));
    let mut all: Vec<_> = records.collect();
    for (order, users) in recovered.orders.values() {
        all.push(Entry::Order(*order));
        all.extend(users.iter().map(|user| Entry::Meant(*user, order.number)));
    }
    all.extend(recovered.gone.iter().map(|(node, gone)| Entry::Gone(*node, *gone)));
    all
}

fn written(frames: &[Vec<Entry>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
    assert_eq!(recovered, Recovered::default());
    for entries in frames {
        journal.append(entries, epoch(entries)).unwrap();
    }
    folder
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_was_appended_is_there_again(frames in frames()) {
        let folder = written(&frames);
        let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
        prop_assert_eq!(&recovered, &expected(&frames));
        let next_epoch = recovered.next_epoch;
        let all = entries(&recovered);
        journal.compact(&all, next_epoch).unwrap();
        journal.append(&frames[0], epoch(&frames[0])).unwrap();
        drop(journal);
        let (_, recovered) = Journal::open(folder.path()).unwrap();
        let again = [frames.clone(), vec![frames[0].clone()]].concat();
        prop_assert_eq!(recovered, expected(&again));
    }

    #[test]
    fn a_tail_is_cut_off_wherever_it_ends(frames in frames(), cut in any::<prop::sample::Index>()) {
        let folder = written(&frames);
        let path = folder.path().join("records");
        let octets = fs::read(&path).unwrap();
        let last = frame(frames.last().unwrap()).len();
        let start = octets.len() - last;
        let cut = start + cut.index(last);
        // As it may be after a stop: short, or of the right length and empty.
        let mut blank = octets.clone();
        blank[cut..].fill(0);
        for tail in [&octets[..cut], &blank] {
            fs::write(&path, tail).unwrap();
            let (mut journal, recovered) = Journal::open(folder.path()).unwrap();
            let whole = expected(&frames[..frames.len() - 1]);
            if *tail == octets[..] {
                // Its end was empty anyway.
                prop_assert_eq!(recovered, expected(&frames));
                continue;
            }
            let cut_off = (tail.len() - start) as u64;
            prop_assert_eq!(recovered, Recovered { cut_off, ..whole });
            journal.append(frames.last().unwrap(), epoch(frames.last().unwrap())).unwrap();
            drop(journal);
            let (_, recovered) = Journal::open(folder.path()).unwrap();
            prop_assert_eq!(recovered, expected(&frames));
        }
    }

    #[test]
    fn damage_before_the_last_frame_is_refused(
        frames in proptest::collection::vec(proptest::collection::vec(entry(), 1..5), 2..8),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let folder = written(&frames);
        let path = folder.path().join("records");
        let mut octets = fs::read(&path).unwrap();
        let last = frame(frames.last().unwrap()).len();
        let at = at.index(octets.len() - last);
        octets[at] ^= 1 << bit;
        fs::write(&path, &octets).unwrap();
        let error = Journal::open(folder.path()).unwrap_err();
        let foreign = at < entry::FILE_HEAD;
        prop_assert!(matches!(
            (&error, foreign),
            (JournalError::Damaged { .. }, false) | (JournalError::Foreign(_), true)
        ), "{}", error);
        // It is left as it was.
        prop_assert_eq!(fs::read(&path).unwrap(), octets);
    }

    /// What was written in full was answered for, so that an epoch of it may be in use.
    #[test]
    fn damage_in_the_last_frame_is_no_tail(
        frames in frames(), at in any::<prop::sample::Index>(), bit in 0..8_u8,
    ) {
        let folder = written(&frames);
        let path = folder.path().join("records");
        let mut octets = fs::read(&path).unwrap();
        let last = frame(frames.last().unwrap()).len();
        let start = octets.len() - last;
        // But for its last octet: without that it may not have been written.
        let at = start + at.index(last - 1);
        octets[at] ^= 1 << bit;
        fs::write(&path, &octets).unwrap();
        let error = Journal::open(folder.path()).unwrap_err();
        prop_assert!(
            matches!(error, JournalError::Damaged { at, .. } if at == start as u64), "{}", error
        );
        prop_assert_eq!(fs::read(&path).unwrap(), octets);
    }

    /// Sectors of a frame reach the disk in any order.
    #[test]
    fn a_frame_with_a_hole_is_a_tail(
        frames in frames(), users in 300..600_u64, hole in any::<prop::sample::Index>(),
    ) {
        let folder = written(&frames);
        let path = folder.path().join("records");
        let start = fs::read(&path).unwrap().len();
        let long: Vec<_> = (0..users).map(|user| Entry::Meant(User(user), 1)).collect();
        let mut journal = Journal::open(folder.path()).unwrap().0;
        journal.append(&long, Epoch(1)).unwrap();
        drop(journal);
        let mut octets = fs::read(&path).unwrap();
        let whole = octets.len();
        let first = start.div_ceil(512);
        let hole = first + hole.index(whole / 512 - first);
        octets[hole * 512..(hole + 1) * 512].fill(0);
        fs::write(&path, &octets).unwrap();
        let (_, recovered) = Journal::open(folder.path()).unwrap();
        let cut_off = (whole - start) as u64;
        prop_assert_eq!(recovered, Recovered { cut_off, ..expected(&frames) });
    }

    #[test]
    fn whatever_stands_in_a_file_is_read_or_refused(
        octets in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let all = [&entry::header()[..], &octets].concat();
        let _ = recover(&all, Path::new("records"));
        let _ = recover(&octets, Path::new("records"));
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
fn a_file_that_is_out_of_date_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path()).unwrap();
    let many = vec![Entry::Record(User(1), None); 1000];
    let mut appended = 0;
    while !journal.wants_compaction() {
        journal.append(&many, Epoch(1000)).unwrap();
        appended += 1;
        assert!(appended < 1000);
    }
    journal.compact(&[], Epoch(1000)).unwrap();
    assert!(!journal.wants_compaction());
    assert!(fs::metadata(folder.path().join("records")).unwrap().len() < 100);
    drop(journal);
    // That no user is left does not make epochs begin anew.
    assert_eq!(Journal::open(folder.path()).unwrap().1.next_epoch, Epoch(1000));
}
