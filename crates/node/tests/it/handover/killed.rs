//! A station is killed, and another life of it goes on with what the disk has at that moment.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use weft_mobility_protocol::controller::Stage;
use weft_mobility_protocol::{Epoch, Incarnation, Kept, NodeId, Route, User};
use weft_state::{Change, Kind, Owner, Role, Store};

use super::nodes::{GATEWAY, KEEPING, station};
use super::world::{ANCHOR, FIRST, SOURCE, TARGET, World, turn};
use crate::captured::{self, captures, records, store_of, to_octets, written_alike};
use crate::common::Rig;

/// Users that a station owns, and an anchor's routes to users.
const OWNED: Kind = Kind(7);
const ROUTES: Kind = Kind(8);
const USERS: u64 = 4;

fn keeping(number: u32) -> String {
    let state = "state: {directory: unused, checkpoints: {rate: 100000}}\nports:";
    station(number, KEEPING).replacen("ports:", state, 1)
}

fn owner(number: u32) -> Owner {
    Owner { role: Role::Node, name: format!("station-{number}") }
}

/// Stations that keep their state in these folders, and a gateway that keeps nothing.
fn world() -> (World, TempDir, TempDir) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let kept = |number: u32, folder: &Path| {
        Rig::restored(&keeping(number), Store::open(folder, &owner(number)).unwrap()).unwrap()
    };
    let rigs = [
        (ANCHOR, Rig::new(GATEWAY)),
        (SOURCE, kept(2, folders[0].path())),
        (TARGET, kept(3, folders[1].path())),
    ];
    let [source, target] = folders;
    (World::of(rigs.into(), USERS), source, target)
}

/// The station is killed; what the disk has of it at that moment is where it goes on.
fn kill(world: &mut World, node: NodeId, folder: &Path, life: u32) -> TempDir {
    let left = tempfile::tempdir().unwrap();
    world.wait_durable(node);
    fs::copy(folder.join("state.redb"), left.path().join("state.redb")).unwrap();
    world.rigs.remove(&node).expect("it lives");
    begin(world, node, left.path(), life);
    left
}

fn begin(world: &mut World, node: NodeId, folder: &Path, life: u32) {
    let store = Store::open(folder, &owner(node.0)).unwrap();
    let rig = Rig::restored(&keeping(node.0), store).unwrap();
    world.join(node, rig, Incarnation(life));
}

fn owned(folder: &Path, number: u32) -> usize {
    count(folder, &owner(number), OWNED)
}

/// Records of a kind on the disk.
fn count(folder: &Path, owner: &Owner, kind: Kind) -> usize {
    let copy = tempfile::tempdir().unwrap();
    fs::copy(folder.join("state.redb"), copy.path().join("state.redb")).unwrap();
    let store = Store::open(copy.path(), owner).unwrap();
    let mut count = 0;
    store
        .each(kind, |_, _, _| {
            count += 1;
            Ok(())
        })
        .unwrap();
    count
}

/// Packets that functions have counted of each user at a station.
fn tallies(world: &mut World, node: NodeId) -> Vec<u64> {
    (FIRST..FIRST + USERS).map(|user| world.tally(node, User(user))).collect()
}

#[test]
fn a_killed_station_goes_on_with_contexts_of_its_users() {
    let _turn = turn();
    let (mut world, source, _target) = world();
    for _ in 0..5 {
        world.send_to_all();
        world.rest();
    }
    world.checkpoint(SOURCE);
    assert_eq!(tallies(&mut world, SOURCE), [10; 4]);
    // Behind the checkpoint: lost when the station is killed now.
    world.send_to_all();
    world.rest();
    let left = kill(&mut world, SOURCE, source.path(), 8);
    world.rest();
    assert_eq!(tallies(&mut world, SOURCE), [10; 4]);
    assert_eq!(world.counted(SOURCE, "context_kept"), USERS);
    world.send_to_all();
    world.rest();
    assert_eq!(tallies(&mut world, SOURCE), [12; 4]);
    // The next life has them, too, and so has a station that they move to.
    world.checkpoint(SOURCE);
    let left = kill(&mut world, SOURCE, left.path(), 9);
    world.rest();
    assert_eq!(tallies(&mut world, SOURCE), [12; 4]);
    world.move_under_traffic(TARGET);
    world.settle();
    let moved = tallies(&mut world, TARGET);
    assert!(moved.iter().all(|count| *count > 12), "{moved:?}");
    assert_eq!(world.drops(), [].into());
    world.checkpoint(SOURCE);
    assert_eq!(owned(left.path(), 2), 0);
}

#[test]
fn a_record_of_users_that_have_been_elsewhere_since_is_not_gone_on_with() {
    let _turn = turn();
    let (mut world, source, target) = world();
    world.send_to_all();
    world.rest();
    world.checkpoint(SOURCE);
    let stale = tempfile::tempdir().unwrap();
    fs::copy(source.path().join("state.redb"), stale.path().join("state.redb")).unwrap();
    assert_eq!(owned(stale.path(), 2), USERS as usize);
    // To the target, and back by its death: the source is a successor that has lost time.
    world.move_all(TARGET);
    world.settle();
    world.send_to_all();
    world.rest();
    world.rigs.remove(&SOURCE).expect("it lives");
    begin(&mut world, SOURCE, stale.path(), 8);
    world.rest();
    assert_eq!(tallies(&mut world, SOURCE), [2; 4], "as the store has them");
    world.checkpoint(TARGET);
    assert_eq!(owned(target.path(), 3), USERS as usize);
    world.rigs.remove(&TARGET).expect("it lives");
    world.declare_gone(TARGET, SOURCE);
    world.rest();
    assert_eq!(tallies(&mut world, SOURCE), [0; 4]);
    assert_eq!(world.counted(SOURCE, "context_kept"), 0);
    assert_eq!(world.counted(SOURCE, "context_lost"), USERS);
    world.checkpoint(SOURCE);
    assert_eq!(owned(stale.path(), 2), USERS as usize, "by which it owns them now");
}

#[test]
fn a_station_that_is_killed_amid_moves_leaves_each_user_one_owner_and_counts_none_twice() {
    let _turn = turn();
    let (mut world, source, target) = world();
    let mut folders = [(SOURCE, source), (TARGET, target)];
    // Rounds behind the order: moves are in another state in each.
    let all = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 60];
    for (life, rounds) in (8..).zip(all) {
        let (to, killed) = ((life as usize / 2) % 2, life as usize % 2);
        world.send_to_all();
        world.rest();
        let sent: Vec<_> = world.users.values().map(|ue| ue.down.sent + ue.up.sent).collect();
        world.checkpoint(SOURCE);
        world.checkpoint(TARGET);
        world.move_all(folders[to].0);
        for _ in 0..rounds {
            world.round();
        }
        let (node, folder) = &folders[killed];
        let left = kill(&mut world, *node, folder.path(), life);
        folders[killed].1 = left;
        world.rest();
        for (nth, sent) in sent.into_iter().enumerate() {
            let user = User(FIRST + nth as u64);
            let at = world.controller.owner(user).expect("it has an owner").node;
            let counted = world.tally(at, user);
            assert!(
                counted <= u64::from(sent),
                "round {rounds}: {user} at {at}: {counted} > {sent}"
            );
        }
        world.send_to_all();
        world.rest();
    }
    let kept = world.counted(SOURCE, "context_kept") + world.counted(TARGET, "context_kept");
    assert!(kept > 0);
    world.check_accounts();
}

#[test]
fn records_that_mean_nothing_or_are_of_a_newer_release_are_refused() {
    let eight = |epoch: u64, last: u64| [epoch.to_be_bytes(), last.to_be_bytes()].concat();
    let key = &100_u64.to_be_bytes()[..];
    let cases: [(&[u8], u8, Vec<u8>, &str); 6] = [
        (key, 1, eight(5, 7)[..15].to_vec(), "means nothing"),
        (key, 1, eight(0, 0), "means nothing"),
        (key, 1, eight(7, 5), "means nothing"),
        (&key[1..], 1, eight(5, 7), "means nothing"),
        (key, 0, eight(5, 7), "means nothing"),
        (key, 2, eight(5, 7), "version 2, of a newer release"),
    ];
    for (key, version, octets, told) in cases {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), &owner(2)).unwrap();
        store.write(&[Change::put(OWNED, key, version, &octets)]).unwrap();
        let refused = Rig::restored(&keeping(2), store).err().expect("it is refused").to_string();
        assert!(refused.contains(told), "{octets:?}: {refused}");
    }
}

fn gateway() -> Owner {
    Owner { role: Role::Node, name: "gateway".to_owned() }
}

fn kept_gateway(folder: &Path) -> Rig {
    let state = "state: {directory: unused}\nports:";
    let store = Store::open(folder, &gateway()).unwrap();
    Rig::restored(&GATEWAY.replacen("ports:", state, 1), store).unwrap()
}

/// A gateway that keeps its state in the folder, and stations that keep nothing.
fn world_of_gateway(folder: &Path, users: u64) -> World {
    let rigs = [
        (ANCHOR, kept_gateway(folder)),
        (SOURCE, Rig::new(&station(2, KEEPING))),
        (TARGET, Rig::new(&station(3, KEEPING))),
    ];
    World::of(rigs.into(), users)
}

#[test]
fn a_killed_gateway_goes_on_by_its_ways_before_its_controller_is_heard() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let mut world = world_of_gateway(folder.path(), USERS);
    world.move_under_traffic(TARGET);
    world.settle();
    world.wait_durable(ANCHOR);
    let left = tempfile::tempdir().unwrap();
    fs::copy(folder.path().join("state.redb"), left.path().join("state.redb")).unwrap();
    world.rigs.remove(&ANCHOR).expect("it lives");
    // No message comes through.
    world.lossy = 1000;
    world.join(ANCHOR, kept_gateway(left.path()), Incarnation(8));
    world.check_all_arrived();
    assert_eq!(world.drops(), [].into());
    world.lossy = 0;
    world.settle();
    world.move_under_traffic(SOURCE);
    world.check_all_arrived();
    assert_eq!(world.drops(), [].into());
}

#[test]
fn a_way_that_a_user_may_leave_is_not_on_the_disk_any_more() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let mut world = world_of_gateway(folder.path(), 1);
    world.wait_durable(ANCHOR);
    assert_eq!(count(folder.path(), &gateway(), ROUTES), 1);
    world.move_all(TARGET);
    while world.controller.stage(User(FIRST)) != Some(Stage::Moving) {
        world.round();
    }
    // The disk is not waited for.
    assert_eq!(count(folder.path(), &gateway(), ROUTES), 0);
    world.rest();
    world.wait_durable(ANCHOR);
    assert_eq!(count(folder.path(), &gateway(), ROUTES), 1);
    world.forget(User(FIRST));
    assert_eq!(count(folder.path(), &gateway(), ROUTES), 0);
}

#[test]
fn ways_that_mean_nothing_or_are_of_a_newer_release_are_refused() {
    let way = Route { epoch: Epoch(5), is_aborted: false, leg: None }.octets();
    for (version, octets, told) in
        [(1, &way[..8], "means nothing"), (2, &way[..], "version 2, of a newer release")]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), &gateway()).unwrap();
        let key = 100_u64.to_be_bytes();
        store.write(&[Change::put(ROUTES, &key, version, octets)]).unwrap();
        drop(store);
        let store = Store::open(folder.path(), &gateway()).unwrap();
        let state = "state: {directory: unused}\nports:";
        let refused = Rig::restored(&GATEWAY.replacen("ports:", state, 1), store).err();
        let refused = refused.expect("it is refused").to_string();
        assert!(refused.contains(told), "{refused}");
    }
}

fn said_by(records: &[captured::Record]) -> Value {
    let said = records.iter().map(|record| {
        let kept = Kept::read(record.version, &to_octets(&record.octets)).expect("it is read");
        json!({"user": record.key, "epoch": kept.epoch.0, "last": kept.last.0})
    });
    said.collect()
}

#[test]
fn records_of_all_releases_are_read() {
    let _turn = turn();
    let now = {
        let (mut world, source, _target) = world();
        world.wait_durable(SOURCE);
        let left = tempfile::tempdir().unwrap();
        fs::copy(source.path().join("state.redb"), left.path().join("state.redb")).unwrap();
        let records = records(left.path(), &owner(2), &[OWNED.0]);
        captured::Kept { shown: said_by(&records), records }
    };
    assert_eq!(now.records.len(), USERS as usize);
    let all = captures("records-owned", &now);
    for (release, kept) in &all {
        let folder = tempfile::tempdir().unwrap();
        let store = store_of(&kept.records, folder.path(), &owner(2));
        Rig::restored(&keeping(2), store).unwrap();
        assert_eq!(said_by(&kept.records), kept.shown, "release {release}");
    }
    written_alike(all.last().unwrap(), &now);
}

#[test]
fn routes_of_all_releases_are_read() {
    let _turn = turn();
    let read = |records: &[captured::Record]| {
        let read = records.iter().map(|record| {
            let route = Route::read(record.version, &to_octets(&record.octets)).expect("it is read");
            let leg = route.leg.map(|leg| [leg.node.0.into(), leg.incarnation.0.into(), leg.epoch.0]);
            json!({"user": record.key, "epoch": route.epoch.0, "aborted": route.is_aborted, "leg": leg})
        });
        read.collect::<Value>()
    };
    let now = {
        let folder = tempfile::tempdir().unwrap();
        let mut world = world_of_gateway(folder.path(), 2);
        world.wait_durable(ANCHOR);
        let left = tempfile::tempdir().unwrap();
        fs::copy(folder.path().join("state.redb"), left.path().join("state.redb")).unwrap();
        let records = records(left.path(), &gateway(), &[ROUTES.0]);
        captured::Kept { shown: read(&records), records }
    };
    assert_eq!(now.records.len(), 2);
    let all = captures("records-routes", &now);
    for (release, kept) in &all {
        let folder = tempfile::tempdir().unwrap();
        drop(store_of(&kept.records, folder.path(), &gateway()));
        kept_gateway(folder.path());
        assert_eq!(read(&kept.records), kept.shown, "release {release}");
    }
    written_alike(all.last().unwrap(), &now);
}
