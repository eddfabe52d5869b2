//! Two replicas of a controller on etcd: one leads, and the other takes over.

use std::time::{Duration, Instant};

use weft_etcd::local::{Members, is_installed};
use weft_http::client::{Client, ClientError, Server};
use weft_mobility_controller::Controller;
use weft_mobility_controller::api;
use weft_mobility_controller::api::upgrade::UpgradeState;
use weft_site::upgrade::Phase;

use crate::field::{A, B, Field, in_the_end, until};

const USERS: u64 = 300;

struct Replicas {
    field: Field,
    etcd: Vec<String>,
    /// By their names, those that run.
    running: Vec<(&'static str, Controller)>,
    began: Instant,
}

impl Replicas {
    fn client(&self, name: &str) -> Client {
        let socket = self.field.folder.path().join(format!("{name}.controller"));
        Client::of("controller", Server::Socket(socket)).unwrap()
    }

    fn start(&mut self, name: &'static str) {
        let socket = self.field.folder.path().join(format!("{name}.controller"));
        let controller = in_the_end(|| {
            let configuration = self.field.replica(name, &self.etcd);
            Controller::start(configuration, socket.clone(), None, |error| panic!("{error}"))
        });
        self.running.push((name, controller));
    }

    /// The replica that leads, once one does.
    fn leader(&self) -> &'static str {
        let mut leads = None;
        until("a leader", || {
            leads = self
                .running
                .iter()
                .map(|(name, _)| *name)
                .find(|name| self.client(name).get::<Vec<api::Node>>("/v1/nodes").is_ok());
            leads.is_some()
        });
        leads.unwrap()
    }

    fn stop(&mut self, name: &str) {
        let at = self.running.iter().position(|(running, _)| *running == name).unwrap();
        self.running.remove(at).1.stop();
        self.began = Instant::now();
    }
}

fn start(users: u64) -> Option<(Members, tempfile::TempDir, Replicas)> {
    if !is_installed() {
        eprintln!("skipped: there is no etcd (Debian package etcd-server)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let members = Members::start(folder.path(), 1, &[]).unwrap();
    let etcd = members.options("/").endpoints;
    let (field, running) = (Field::new(users), Vec::new());
    let mut replicas = Replicas { field, etcd, running, began: Instant::now() };
    replicas.start("one");
    replicas.start("two");
    Some((members, folder, replicas))
}

fn other(name: &str) -> &'static str {
    if name == "one" { "two" } else { "one" }
}

/// Replicas take over from each other while users move there and back: no user has two owners
/// or none, and orders are carried out to their ends.
#[test]
fn another_replica_goes_on_with_moves() {
    let Some((_members, _folder, mut replicas)) = start(USERS) else { return };
    let client = replicas.client(replicas.leader());
    replicas.field.settle(&client, USERS as usize);
    let (mut from, mut to) = ("a", "b");
    for _ in 0..4 {
        let leader = replicas.leader();
        let order = format!(r#"{{"allFrom":"{from}","to":"{to}"}}"#);
        let order: api::Handover = replicas.client(leader).post("/v1/handovers", order).unwrap();
        // Somewhere in it.
        std::thread::sleep(Duration::from_millis(20));
        replicas.stop(leader);
        let next = replicas.leader();
        assert_eq!(next, other(leader));
        let client = replicas.client(next);
        let done = replicas.field.finish(&client, order.id);
        assert_eq!((done.moved, done.aborted), (USERS as usize, 0), "{done:?}");
        replicas.field.settle(&client, USERS as usize);
        replicas.field.check(&client, USERS);
        println!("settled {:?} after the leader stopped", replicas.began.elapsed());
        replicas.start(leader);
        (from, to) = (to, from);
    }
    assert_eq!(replicas.field.owned(A), USERS as usize);
    assert_eq!(replicas.field.owned(B), 0);
}

/// An upgrade of the site goes on with the next leader, and no node changes its process twice.
#[test]
fn another_replica_goes_on_with_an_upgrade() {
    let Some((_members, _folder, mut replicas)) = start(USERS) else { return };
    let leader = replicas.leader();
    let client = replicas.client(leader);
    replicas.field.settle(&client, USERS as usize);
    let _: UpgradeState = client.post("/v1/upgrade", "{}".to_owned()).unwrap();
    let programs = replicas.field.shared.programs.clone();
    let changed = || programs.lock().unwrap().values().filter(|one| one.before > 0).count();
    until("a node to be upgraded", || changed() > 0);
    replicas.stop(leader);
    assert_eq!(replicas.leader(), other(leader));
    let client = replicas.client(other(leader));
    until("the end of the upgrade", || {
        client.get::<UpgradeState>("/v1/upgrade").is_ok_and(|state| state.phase == Phase::Complete)
    });
    assert_eq!(changed(), 3);
    assert!(programs.lock().unwrap().values().all(|one| one.before == 1));
    replicas.field.settle(&client, USERS as usize);
    replicas.field.check(&client, USERS);
}

/// A replica that does not lead answers for itself only, and says who leads.
#[test]
fn one_that_does_not_lead_says_who_does() {
    let Some((_members, _folder, replicas)) = start(2) else { return };
    let leader = replicas.leader();
    let follower = replicas.client(other(leader));
    until("a known leader", || {
        let about: serde_json::Value = follower.get("/v1/controller").unwrap();
        about["leader"] == leader
    });
    let error = follower.get::<Vec<api::Node>>("/v1/nodes").unwrap_err();
    let ClientError::Refused(problem) = error else { panic!("{error}") };
    assert_eq!((problem.status, problem.detail), (503, format!("{leader} leads; ask there")));
    let metrics = |name: &str| replicas.client(name).text("/metrics").unwrap();
    assert!(metrics(other(leader)).contains("weft_controller_leads 0"));
    assert!(metrics(leader).contains("weft_controller_leads 1"));
    let about: serde_json::Value = replicas.client(leader).get("/v1/controller").unwrap();
    assert_eq!((&about["replica"], about["term"].is_u64()), (&leader.into(), true));
}

/// What comes together is one transaction: far fewer than the two records of each move.
#[test]
fn many_moves_share_a_transaction() {
    const MANY: u64 = 4000;
    let Some((_members, _folder, replicas)) = start(MANY) else { return };
    let client = replicas.client(replicas.leader());
    replicas.field.settle(&client, MANY as usize);
    let count = |name: &str| -> f64 {
        let text = client.text("/metrics").unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let names = ["weft_controller_etcd_transactions_total", "weft_controller_etcd_bytes_total"];
    let before = names.map(count);
    let began = Instant::now();
    assert_eq!(replicas.field.drain(&client, "a", "b").moved, MANY as usize);
    let took = began.elapsed().as_secs_f64();
    let after = names.map(count);
    let of_moves = |at: usize| (after[at] - before[at]) / MANY as f64;
    println!(
        "{:.1} transactions for 1,000 moves, {:.0} octets a move, {:.0} moves a second",
        of_moves(0) * 1000.0,
        of_moves(1),
        MANY as f64 / took,
    );
    // 2 for 1,000, and some more where the machine makes few moves in the time that records wait.
    assert!(of_moves(0) < 0.02, "{} transactions a move", of_moves(0));
}
