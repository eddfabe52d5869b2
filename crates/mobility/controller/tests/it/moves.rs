//! A controller among stations and an anchor, on real connections and a real disk.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::field::{A, B, Field, GATEWAY, in_the_end, until};
use weft_http::client::Client;
use weft_mobility_controller::api;
use weft_mobility_protocol::User;

/// What a child process is told by.
const FILE: &str = "WEFT_TEST_CONTROLLER";

#[test]
fn thousands_of_users_go_by_one_order_and_come_back() {
    const USERS: u64 = 3000;
    let field = Field::new(USERS);
    let controller = field.controller();
    let client = field.client();
    field.settle(&client, USERS as usize);
    assert_eq!(field.owned(A), USERS as usize);
    for (nth, (from, to)) in [("a", "b"), ("b", "a")].into_iter().enumerate() {
        let handover = field.drain(&client, from, to);
        let counts = (handover.users, handover.moved, handover.aborted, handover.refused);
        assert_eq!(counts, (USERS as usize, USERS as usize, 0, 0), "{:?}", handover.reasons);
        field.settle(&client, USERS as usize);
        field.check(&client, USERS);
        // Contexts went along each time.
        let moves = field.shared.moves.lock().unwrap().clone();
        assert!(moves.values().all(|moves| *moves == nth as u64 + 1));
    }
    let none = field.drain(&client, "b", "a");
    assert_eq!((none.users, none.finished), (0, true));
    controller.stop();
}

/// A node that is drained has no users, and takes none until it is told to: after a restart of
/// the controller as well.
#[test]
fn a_drained_node_takes_no_further_users() {
    const USERS: u64 = 300;
    let field = Field::new(USERS);
    let controller = field.controller();
    let client = field.client();
    field.settle(&client, USERS as usize);
    let orders: Vec<api::Handover> = client.post("/v1/nodes/a/drain", String::new()).unwrap();
    // The anchor takes no users, so all go to b.
    let to: Vec<_> = orders.iter().map(|order| (order.to.as_str(), order.users)).collect();
    assert_eq!(to, [("b", USERS as usize)]);
    assert_eq!(field.finish(&client, orders[0].id).moved, USERS as usize);
    field.settle(&client, USERS as usize);
    field.check(&client, USERS);
    assert_eq!(field.owned(A), 0);
    let refusals = |client: &Client| {
        let order = r#"{"user":1,"to":"a"}"#.to_owned();
        let error = client.post::<api::Handover>("/v1/handovers", order).unwrap_err();
        assert_eq!(error.to_string(), "the node takes no further users: it is cordoned");
        let place = r#"{"anchor":"gateway","node":"a"}"#.to_owned();
        let error = client.put::<api::User>("/v1/users/9999", place).unwrap_err();
        assert_eq!(error.to_string(), "the node takes no further users: it is cordoned");
        let drained = client.post::<Vec<api::Handover>>("/v1/nodes/b/drain", String::new());
        let error = drained.unwrap_err().to_string();
        assert!(error.starts_with("no other node can take the users"), "{error}");
        // What was refused has changed nothing.
        let nodes: Vec<api::Node> = client.get("/v1/nodes").unwrap();
        let cordoned: Vec<_> = nodes.iter().filter(|node| node.cordoned).collect();
        assert_eq!((cordoned.len(), cordoned[0].name.as_str()), (1, "a"));
    };
    refusals(&client);
    controller.stop();
    let controller = field.controller();
    field.meet(&client);
    refusals(&client);
    client.delete("/v1/nodes/a/cordon").unwrap();
    let orders: Vec<api::Handover> = client.post("/v1/nodes/b/drain", String::new()).unwrap();
    assert_eq!(field.finish(&client, orders[0].id).moved, USERS as usize);
    assert_eq!(field.owned(A), USERS as usize);
    assert!(client.post::<Vec<api::Handover>>("/v1/nodes/nowhere/drain", String::new()).is_err());
    controller.stop();
}

/// A node that is drained for a restart takes users again behind it, and not before; one that was
/// cordoned on purpose stays so. A controller that starts between knows it as well.
#[test]
fn a_node_that_is_drained_until_its_restart_takes_users_behind_it() {
    const USERS: u64 = 30;
    let mut field = Field::new(USERS);
    let controller = field.controller();
    let client = field.client();
    field.settle(&client, USERS as usize);
    let until_restart = r#"{"untilRestart":true}"#.to_owned();
    let drain = |client: &Client, node: &str| {
        let path = format!("/v1/nodes/{node}/drain");
        client.post::<Vec<api::Handover>>(&path, until_restart.clone()).unwrap()
    };
    let cordoned = |client: &Client| -> Vec<String> {
        let nodes: Vec<api::Node> = client.get("/v1/nodes").unwrap();
        nodes.into_iter().filter(|node| node.cordoned).map(|node| node.name).collect()
    };
    let orders = drain(&client, "a");
    assert_eq!(field.finish(&client, orders[0].id).moved, USERS as usize);
    controller.stop();
    let controller = field.controller();
    field.meet(&client);
    assert_eq!(cordoned(&client), ["a"], "the same process of it has come again");
    field.restart(A, 2);
    until("a takes users", || cordoned(&client).is_empty());
    let orders = drain(&client, "b");
    assert_eq!(field.finish(&client, orders[0].id).moved, USERS as usize);
    assert_eq!(field.owned(A), USERS as usize);
    let _: Vec<api::Node> = client.put("/v1/nodes/b/cordon", String::new()).unwrap();
    assert!(drain(&client, "b").is_empty());
    field.restart(B, 2);
    field.meet(&client);
    assert_eq!(cordoned(&client), ["b"], "it was cordoned on purpose");
    for wrong in [r#"{"untilRestart":1}"#, r#"{"until":true}"#, "{"] {
        let refused = client.post::<Vec<api::Handover>>("/v1/nodes/a/drain", wrong.to_owned());
        assert!(refused.is_err(), "{wrong}");
    }
    assert_eq!(cordoned(&client), ["b"]);
    controller.stop();
}

#[test]
fn cut_connections_delay_moves_and_lose_none() {
    const USERS: u64 = 400;
    let field = Field::new(USERS);
    let controller = field.controller();
    let client = field.client();
    field.settle(&client, USERS as usize);
    for (from, to) in [("a", "b"), ("b", "a"), ("a", "b")] {
        let order = format!(r#"{{"allFrom":"{from}","to":"{to}"}}"#);
        let handover: api::Handover = client.post("/v1/handovers", order).unwrap();
        for node in field.nodes.iter().cycle().take(6) {
            node.cut();
            std::thread::sleep(Duration::from_millis(10));
        }
        let handover = field.finish(&client, handover.id);
        // One whose messages were cut off too often was given up, and is at home.
        assert_eq!(handover.moved + handover.aborted, USERS as usize, "{:?}", handover.reasons);
        field.settle(&client, USERS as usize);
        let again = field.drain(&client, from, to);
        assert_eq!((again.users, again.moved), (handover.aborted, handover.aborted));
        field.settle(&client, USERS as usize);
        field.check(&client, USERS);
    }
    assert_eq!(field.owned(B), USERS as usize);
    // No contexts were made anew on the way.
    assert!(field.shared.moves.lock().unwrap().values().all(|moves| *moves >= 3));
    controller.stop();
}

#[test]
fn a_station_that_dies_gets_its_users_back_without_their_contexts() {
    const USERS: u64 = 300;
    let mut field = Field::new(USERS);
    let controller = field.controller();
    let client = field.client();
    field.settle(&client, USERS as usize);
    field.drain(&client, "a", "b");
    field.settle(&client, USERS as usize);
    field.restart(B, 2);
    until("an owner for each", || field.owned(B) == USERS as usize);
    field.settle(&client, USERS as usize);
    field.check(&client, USERS);
    assert!(field.shared.moves.lock().unwrap().values().all(|moves| *moves == 0));
    // The anchor forgets all ways, and is told them again.
    field.restart(GATEWAY, 2);
    let handover = field.drain(&client, "b", "a");
    assert_eq!(handover.moved, USERS as usize, "{:?}", handover.reasons);
    let metrics = client.text("/metrics").unwrap();
    let no_owner = format!("weft_controller_no_owner_total {USERS}\n");
    assert!(metrics.contains(&no_owner), "{metrics}");
    controller.stop();
}

#[test]
fn a_station_that_does_not_come_back_has_a_successor() {
    const USERS: u64 = 50;
    let mut field = Field::new(USERS);
    let controller = field.controller();
    let client = field.client();
    field.settle(&client, USERS as usize);
    let at = field.nodes.iter().position(|node| node.number == A).unwrap();
    field.nodes.remove(at).stop();
    // On a busy machine the successor's connection may be down for a moment.
    let gone = || client.post("/v1/nodes/a/gone", r#"{"successor":"b"}"#.to_owned());
    let _: Vec<api::Node> = in_the_end(gone);
    until("a new owner for each", || field.owned(B) == USERS as usize);
    field.settle(&client, USERS as usize);
    field.check(&client, USERS);
    controller.stop();
}

/// Is the controller's process in the test below; alone it does nothing.
#[test]
fn controller_process() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let file = std::path::PathBuf::from(file);
    let _controller = in_the_end(|| {
        let configuration = weft_mobility_controller::config::Configuration::load(&file).unwrap();
        let socket = file.with_file_name("test.controller");
        weft_mobility_controller::Controller::start(configuration, socket, None, |error| {
            panic!("{error}")
        })
    });
    loop {
        std::thread::park();
    }
}

fn spawn(field: &Field) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "moves::controller_process", "--nocapture"])
        .env(FILE, field.file())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Ends its process when the test fails, too.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL; it may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// FAULTS 57, for the controller.
#[test]
fn fault_57_a_controller_that_is_killed_at_any_time_goes_on_where_it_was() {
    const USERS: u64 = 600;
    let field = Field::new(USERS);
    let client = field.client();
    let mut process = Process(spawn(&field));
    field.settle(&client, USERS as usize);
    let mut epoch = 0;
    let mut cut_short = 0;
    for round in 0..12_u64 {
        let (from, to) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let order = format!(r#"{{"allFrom":"{from}","to":"{to}"}}"#);
        let handover: api::Handover = client.post("/v1/handovers", order).unwrap();
        std::thread::sleep(Duration::from_millis(3 * round));
        drop(process);
        let at = if to == "a" { A } else { B };
        cut_short += u64::from((1..USERS as usize).contains(&field.owned(at)));
        process = Process(spawn(&field));
        field.meet(&client);
        // The order goes on, with the moves that had not begun.
        let handover = field.finish(&client, handover.id);
        // Whose messages were lost too often was given up, and is at home.
        let counts = (handover.users, handover.moved + handover.aborted, handover.refused);
        assert_eq!(counts, (USERS as usize, USERS as usize, 0), "{:?}", handover.reasons);
        field.settle(&client, USERS as usize);
        field.check(&client, USERS);
        let rest = field.drain(&client, from, to);
        assert_eq!((rest.users, rest.moved), (handover.aborted, handover.aborted));
        assert_eq!(field.owned(at), USERS as usize);
        // Every user has moved once more, and once only, with its contexts.
        let moves = field.shared.moves.lock().unwrap().clone();
        assert!(moves.values().all(|moves| *moves == round + 1), "round {round}");
        let user: api::User = client.get(&format!("/v1/users/{USERS}")).unwrap();
        assert!(user.epoch > epoch);
        epoch = user.epoch;
    }
    assert!(cut_short > 0, "no order was cut short: the test shows nothing");
    assert_eq!(field.shared.owners.lock().unwrap()[&User(1)], [A]);
}

/// FAULTS 57: a node that was said to be gone stays so for a controller that dies.
#[test]
fn fault_57_a_killed_controller_remembers_who_does_not_come_back() {
    const USERS: u64 = 50;
    let mut field = Field::new(USERS);
    let client = field.client();
    let mut process = Process(spawn(&field));
    field.settle(&client, USERS as usize);
    let at = field.nodes.iter().position(|node| node.number == A).unwrap();
    field.nodes.remove(at).stop();
    // On a busy machine the successor's connection may be down for a moment.
    let gone = || client.post("/v1/nodes/a/gone", r#"{"successor":"b"}"#.to_owned());
    let _: Vec<api::Node> = in_the_end(gone);
    let successor = |client: &Client| {
        let nodes: Vec<api::Node> = client.get("/v1/nodes").unwrap_or_default();
        nodes.into_iter().find(|node| node.name == "a").and_then(|node| node.successor)
    };
    for _ in 0..3 {
        drop(process);
        process = Process(spawn(&field));
        until("the successor", || successor(&client).as_deref() == Some("b"));
    }
    field.settle(&client, USERS as usize);
    field.check(&client, USERS);
    assert_eq!(field.owned(B), USERS as usize);
    // It comes back after all, and is as good as any other.
    let node = field.node(A, 2);
    field.nodes.push(node);
    until("the node", || successor(&client).is_none());
    assert_eq!(field.drain(&client, "b", "a").moved, USERS as usize);
    drop(process);
}
