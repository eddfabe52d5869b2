use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;
use crate::disk::Disk;

const BEARER: Kind = Kind(1);
const OTHER: Kind = Kind(2);

fn node(name: &str) -> Owner {
    Owner { role: Role::Node, name: name.to_owned() }
}

type All = BTreeMap<(u16, Vec<u8>), (u8, Vec<u8>)>;

fn all(store: &Store) -> Result<All, StateError> {
    let mut all = All::new();
    for kind in [BEARER, OTHER] {
        store.each(kind, |key, version, record| {
            all.insert((kind.0, key.to_vec()), (version, record.to_vec()));
            Ok(())
        })?;
    }
    Ok(all)
}

fn apply(changes: &[Change], records: &mut All) {
    for change in changes {
        let key = (change.kind().0, change.key().to_vec());
        match &change.value {
            Some(value) => drop(records.insert(key, (value[0], value[1..].to_vec()))),
            None => drop(records.remove(&key)),
        }
    }
}

fn some_changes(random: &mut Xoshiro256PlusPlus, most: u64) -> Vec<Change> {
    let count = random.next_u64() % most + 1;
    let change = |_| {
        let kind = if random.next_u64().is_multiple_of(4) { OTHER } else { BEARER };
        let key = (random.next_u64() % 300).to_be_bytes();
        match random.next_u64() % 4 {
            0 => Change::remove(kind, &key),
            _ => {
                let length = (random.next_u64() % 400) as usize;
                let octets = vec![random.next_u64() as u8; length];
                Change::put(kind, &key, random.next_u64() as u8, &octets)
            }
        }
    };
    (0..count).map(change).collect()
}

/// The power is gone at any operation, with any part of what was not synced on the disk: what
/// was answered for is there, and of what was being written all or nothing.
#[test]
fn what_was_answered_is_there_after_any_power_loss() {
    let seeds = std::env::var("WEFT_SEEDS").ok().and_then(|text| text.parse().ok());
    for seed in 0..seeds.unwrap_or(300_u64) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut image, mut durable) = (Vec::new(), All::new());
        for life in 0..3 {
            let disk = Disk::with(std::mem::take(&mut image));
            // A store is made whole before it has its name.
            let mut store = Store::open_in(
                {
                    let disk = disk.clone();
                    move || disk.clone()
                },
                &node("a"),
            );
            let found = store
                .as_ref()
                .map_err(ToString::to_string)
                .and_then(|store| all(store).map_err(|error| error.to_string()));
            assert_eq!(found.as_ref(), Ok(&durable), "seed {seed}, life {life}");
            disk.fail_after(random.next_u64() % 60);
            let mut under_way = durable.clone();
            while let Ok(store) = &mut store {
                let changes = some_changes(&mut random, 40);
                apply(&changes, &mut under_way);
                if store.write(&changes).is_err() {
                    break;
                }
                durable = under_way.clone();
            }
            drop(store);
            image = disk.after_power_loss(&mut random);
            // Of the last write all may be there though it was not answered for.
            let again = Disk::with(image.clone());
            let store = Store::open_in(move || again.clone(), &node("a"));
            let there = store.and_then(|store| all(&store)).expect("it can be read");
            assert!(there == durable || there == under_way, "seed {seed}, life {life}");
            durable = there;
        }
    }
}

/// The machine stopped while a store was made.
#[test]
fn a_store_that_was_not_made_whole_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("state.redb.new"), "half").unwrap();
    let mut store = Store::open(folder.path(), &node("a")).unwrap();
    assert!(store.is_new() && all(&store).unwrap().is_empty());
    store.write(&[Change::put(BEARER, b"1", 1, b"one")]).unwrap();
    drop(store);
    assert_eq!(all(&Store::open(folder.path(), &node("a")).unwrap()).unwrap().len(), 1);
}

#[test]
fn a_write_that_failed_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let opened = disk.clone();
    let mut store = Store::open_in(move || opened.clone(), &node("a")).unwrap();
    store.write(&[Change::put(BEARER, b"1", 1, b"one")]).unwrap();
    disk.fail_after(1);
    let second = [Change::put(BEARER, b"2", 1, b"two")];
    store.write(&second).unwrap_err();
    store.write(&second).unwrap_err();
    disk.fail_after(u64::MAX);
    store.write(&second).unwrap();
    assert_eq!(all(&store).unwrap().len(), 2);
    drop(folder);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever happens to a file that was closed: it is refused, or it is as it was.
    #[test]
    fn damage_is_refused_or_without_effect(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 1..20),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        seed in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), &node("a")).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut records = All::new();
        for _ in 0..4 {
            let changes = some_changes(&mut random, 200);
            apply(&changes, &mut records);
            store.write(&changes).unwrap();
        }
        drop(store);
        let path = folder.path().join("state.redb");
        let mut octets = fs::read(&path).unwrap();
        for (at, bit) in flips {
            let at = at.index(octets.len());
            octets[at] ^= 1 << bit;
        }
        if let Some(cut) = cut {
            octets.truncate(cut.index(octets.len()).max(1));
        }
        fs::write(&path, octets).unwrap();
        match Store::open(folder.path(), &node("a")).and_then(|store| all(&store)) {
            Ok(there) => prop_assert_eq!(there, records),
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1, "{}", error),
        }
    }
}

#[test]
fn other_owners_and_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = |owner: &Owner| Store::open(folder.path(), owner).unwrap_err().to_string();
    let store = Store::open(folder.path(), &node("a")).unwrap();
    assert!(store.is_new());
    assert!(text(&node("a")).ends_with("another process uses it"));
    drop(store);
    assert!(!Store::open(folder.path(), &node("a")).unwrap().is_new());
    assert!(text(&node("b")).ends_with("it is that of node a, not of node b"));
    let controller = Owner { role: Role::Controller, name: "a".to_owned() };
    assert!(text(&controller).ends_with("it is that of node a, not of controller a"));
    let path = folder.path().join("state.redb");
    fs::write(&path, "weftjrnl and more").unwrap();
    assert!(text(&node("a")).ends_with("this is not a store of Weft"));
    let aside = set_aside(folder.path()).unwrap().unwrap();
    assert_eq!(fs::read(aside).unwrap(), b"weftjrnl and more");
    assert!(Store::open(folder.path(), &node("a")).unwrap().is_new());
    assert!(set_aside(folder.path()).unwrap().is_some());
    assert!(set_aside(folder.path()).unwrap().is_none());
}

#[test]
fn a_store_of_a_newer_release_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path(), &node("a")).unwrap();
    let identity = [&9_u16.to_be_bytes()[..], b"node\0a"].concat();
    store.write(&[Change::put(Kind(0), b"identity", 1, &identity)]).unwrap();
    drop(store);
    let error = Store::open(folder.path(), &node("a")).unwrap_err().to_string();
    assert!(
        error.ends_with("written in format 9, and this program reads formats up to 1"),
        "{error}"
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let error = Store::open(std::path::Path::new("/proc/weft"), &node("a")).unwrap_err();
    assert!(error.to_string().starts_with("state /proc/weft: "), "{error}");
}

#[test]
fn a_writer_tells_when_changes_are_durable() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &node("a")).unwrap();
    let writer = Writer::start(store, Durability::Durable).unwrap();
    let (told, tells) = channel();
    for number in 0..100_u64 {
        let told = told.clone();
        let change = Change::put(BEARER, &number.to_be_bytes(), 1, b"there");
        let done: Done = Box::new(move |outcome| told.send((number, outcome.is_ok())).unwrap());
        writer.write(vec![change], vec![done]);
    }
    let all_told: Vec<_> =
        (0..100).map(|_| tells.recv_timeout(Duration::from_secs(30)).unwrap()).collect();
    assert!(all_told.iter().enumerate().all(|(at, told)| *told == (at as u64, true)));
    let lag = writer.lag();
    assert!(lag.changes == 100 && lag.commits <= 100 && lag.failure.is_none());
    assert_eq!(all(&writer.stop().unwrap()).unwrap().len(), 100);
}

/// What was given before is in a copy, and what is given later is not, though it comes while
/// the disk is busy.
#[test]
fn a_copy_ends_where_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &node("a")).unwrap();
    let writer = Writer::start(store, Durability::Durable).unwrap();
    let (copied, copies) = channel();
    for number in 0..50_u64 {
        let change = Change::put(BEARER, &number.to_be_bytes(), 1, b"there");
        writer.write(vec![change], Vec::new());
        let copied = copied.clone();
        assert!(writer.copy(Box::new(move |copy| copied.send((number, copy)).unwrap())));
    }
    for _ in 0..50 {
        let (number, copy) = copies.recv_timeout(Duration::from_secs(30)).unwrap();
        let mut keys = Vec::new();
        let each = |key: &[u8], _, _: &[u8]| {
            keys.push(u64::from_be_bytes(key.try_into().unwrap()));
            Ok(())
        };
        copy.unwrap().0.each_of(BEARER, &mut { each }).unwrap();
        assert_eq!(keys, (0..=number).collect::<Vec<_>>());
    }
    assert_eq!(all(&writer.stop().unwrap()).unwrap().len(), 50);
}

#[test]
fn a_writer_goes_on_once_the_disk_does() {
    let disk = Disk::default();
    let opened = disk.clone();
    let store = Store::open_in(move || opened.clone(), &node("a")).unwrap();
    let writer = Writer::start(store, Durability::Durable).unwrap();
    disk.fail_after(0);
    let (told, tells) = channel();
    let done: Done = Box::new(move |outcome| told.send(outcome).unwrap());
    writer.write(vec![Change::put(BEARER, b"1", 1, b"one")], vec![done]);
    let refused = tells.recv_timeout(Duration::from_secs(30)).unwrap().unwrap_err();
    assert!(refused.contains("the power is gone"), "{refused}");
    assert!(writer.lag().failure.is_some());
    disk.fail_after(u64::MAX);
    let mut waited = 0;
    while writer.lag().failure.is_some() {
        std::thread::sleep(Duration::from_millis(100));
        waited += 1;
        assert!(waited < 300);
    }
    // What was refused is there all the same: it was made, and only not answered for.
    assert_eq!(all(&writer.stop().unwrap()).unwrap().len(), 1);
}

#[test]
fn relaxed_answers_do_not_wait_for_a_disk_that_keeps_up() {
    let disk = Disk::default();
    let opened = disk.clone();
    let store = Store::open_in(move || opened.clone(), &node("a")).unwrap();
    let writer = Writer::start(store, Durability::Relaxed).unwrap();
    let (told, tells) = channel();
    let done: Done = Box::new(move |outcome| told.send(outcome.is_ok()).unwrap());
    writer.write(vec![Change::put(BEARER, b"1", 1, b"one")], vec![done]);
    // It was called before `write` returned.
    assert_eq!(tells.try_recv(), Ok(true));
    assert_eq!(all(&writer.stop().unwrap()).unwrap().len(), 1);
}
