//! A node that has a standby and is taken over: it owns the users by a lease, up to the moment in
//! which another process does.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weft_node::{Lease, StandbyView};

use super::*;

fn with_standby() -> String {
    UPF.replace(
        "metadata: {name: upf}\n",
        "metadata: {name: upf}\nstate: {directory: unused}\nstandby: {node: 1}\n",
    )
}

fn open(folder: &Path) -> Store {
    Store::open(folder, &Owner { role: Role::Node, name: "upf".to_owned() }).unwrap()
}

/// The node, its lease, and whether its standby lacks records.
fn owner(folder: &Path) -> (Rig, Lease, Arc<AtomicBool>) {
    let mut rig = Rig::restored(&with_standby(), open(folder)).unwrap();
    let (lease, lacks) = (Lease::default(), Arc::<AtomicBool>::default());
    lease.extend(Instant::now() + Duration::from_secs(600));
    let lacking = lacks.clone();
    let view = move || StandbyView {
        hears: true,
        whole: !lacking.load(Ordering::SeqCst),
        ..StandbyView::default()
    };
    rig.node.agent().hold_by(lease.clone(), view);
    (rig, lease, lacks)
}

/// What speaks for a node of a pair: gives its part away, or does something else instead.
struct Pair<T>(T);

impl<T: FnMut() -> Result<Vec<u8>, String>> Beside for Pair<T> {
    fn pause(&mut self) -> Result<Vec<Keep>, String> {
        Ok(Vec::new())
    }

    fn resume(&mut self) {}

    fn before_yours(&mut self, _: u32, _: usize) -> Result<Vec<u8>, String> {
        (self.0)()
    }
}

/// Another process asks for a node whose store is in `folder`; what it was given, or why nothing.
fn ask(
    old: Rig,
    yaml: &str,
    folder: &Path,
    beside: impl Beside + Send + 'static,
) -> Result<(Rig, Vec<u8>), String> {
    let mut given = Vec::new();
    let ours = |octets: &[u8], since: Instant| {
        assert!(since <= Instant::now());
        given = octets.to_vec();
    };
    let store = || Some(open(folder));
    match take_over_with(old, yaml, &KINDS, beside, (store, ours)) {
        Ok(rig) => Ok((rig, given)),
        Err((why, _)) => {
            assert!(given.is_empty(), "it has been given what it has not");
            let why = why.strip_suffix("; the node goes on in the other process");
            Err(why.expect("it goes on").to_owned())
        }
    }
}

fn gives() -> impl Beside + Send {
    Pair(|| Ok(b"the part".to_vec()))
}

#[test]
fn a_node_that_has_a_standby_goes_over_with_its_part_in_the_pair() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, ..) = owner(folder.path());
    let (rig, given) = ask(rig, &with_standby(), folder.path(), gives()).unwrap();
    assert_eq!(given, b"the part");
    drop(rig);
}

#[test]
fn without_a_lease_a_node_gives_nothing_away() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, lease, _) = owner(folder.path());
    lease.extend(Instant::now());
    let why = ask(rig, &with_standby(), folder.path(), gives()).err().unwrap();
    assert_eq!(
        why,
        "neither controller nor standby is heard, and another node may have the users; try again"
    );
    // It ends when packets wait already, and while another node is granted the users.
    let (rig, lease, _) = owner(folder.path());
    let ends = Pair(move || {
        lease.extend(Instant::now());
        Ok(b"the part".to_vec())
    });
    let why = ask(rig, &with_standby(), folder.path(), ends).err().unwrap();
    assert_eq!(why, "neither controller nor standby is heard; try again");
    let (rig, ..) = owner(folder.path());
    let has_lost = Pair(|| Err("the node does not own the users any more".to_owned()));
    let why = ask(rig, &with_standby(), folder.path(), has_lost).err().unwrap();
    assert_eq!(why, "the node does not own the users any more");
    // The store is the first one's again each time.
    owner(folder.path());
}

#[test]
fn a_standby_that_is_given_all_records_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, _, lacks) = owner(folder.path());
    lacks.store(true, Ordering::SeqCst);
    let why = ask(rig, &with_standby(), folder.path(), gives()).err().unwrap();
    assert_eq!(why, "the standby is given all records; try again");
}

#[test]
fn a_configuration_of_no_pair_of_another_number_or_with_another_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let without = with_standby().replace("standby: {node: 1}\n", "");
    for (yaml, number) in [(without, "none"), (with_standby().replace("node: 1", "node: 2"), "2")] {
        let (rig, ..) = owner(folder.path());
        let why = ask(rig, &yaml, folder.path(), gives()).err().unwrap();
        let told = format!(
            "the node has the number 1 in its pair (`standby.node`), the configuration {number}; \
             restart the node"
        );
        assert_eq!(why, told);
    }
    let other = tempfile::tempdir().unwrap();
    let (rig, ..) = owner(folder.path());
    let why = ask(rig, &with_standby(), other.path(), gives()).err().unwrap();
    assert_eq!(why, "state: a node that has a standby stays with its folder; restart the node");
}
