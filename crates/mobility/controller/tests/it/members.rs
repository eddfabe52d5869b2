//! Nodes that join by themselves, and nodes that are given up.

use weft_http::client::{Client, ClientError};
use weft_mobility_controller::api;

use crate::field::{A, B, Field, until};

const USERS: u64 = 40;

fn nodes(client: &Client) -> Vec<api::Node> {
    client.get("/v1/nodes").unwrap_or_default()
}

fn node(client: &Client, name: &str) -> Option<api::Node> {
    nodes(client).into_iter().find(|node| node.name == name)
}

fn refusal(removed: Result<(), ClientError>) -> (u16, String) {
    match removed.unwrap_err() {
        ClientError::Refused(problem) => (problem.status, problem.detail),
        error => panic!("{error}"),
    }
}

/// Stations that the file does not have are known once they register, also to the next
/// controller; others learn where they are without a new connection.
#[test]
fn nodes_join_without_an_edit() {
    let field = Field::joining();
    let mut controller = field.controller();
    let client = field.client();
    for _ in 0..2 {
        field.meet(&client);
        let a = node(&client, "a").unwrap();
        assert_eq!((a.registered, a.number, a.capacity), (true, 2, Some(2000)));
        assert!(!node(&client, "gateway").unwrap().registered);
        controller.stop();
        controller = field.controller();
    }
    field.meet(&client);
    field.add(&client, 1..=USERS, r#"{"anchor":"gateway","node":"a"}"#);
    field.settle(&client, USERS as usize);
    assert_eq!(field.drain(&client, "a", "b").moved, USERS as usize);
    field.check(&client, USERS);
    controller.stop();
}

/// A station dies for good: its lease ends, and the other one has its users. When it comes
/// back it has none, and takes users again.
#[test]
fn users_of_a_node_whose_lease_ends_are_adopted() {
    let mut field = Field::joining();
    let controller = field.controller();
    let client = field.client();
    field.meet(&client);
    field.add(&client, 1..=USERS, r#"{"anchor":"gateway","node":"a"}"#);
    field.settle(&client, USERS as usize);
    let dead = field.nodes.iter().position(|node| node.number == A).unwrap();
    field.nodes.remove(dead).stop();
    until("an end of the lease", || node(&client, "a").is_some_and(|node| node.expired));
    until("adopted users", || node(&client, "b").is_some_and(|node| node.users == USERS as usize));
    field.check(&client, USERS);
    assert_eq!(field.owned(B), USERS as usize);

    let back = field.node(A, 2);
    field.nodes.push(back);
    until("a node that is back", || {
        node(&client, "a").is_some_and(|node| {
            node.connected && !node.expired && node.incarnation == Some(2) && node.users == 0
        })
    });
    assert_eq!(field.drain(&client, "b", "a").moved, USERS as usize);
    field.check(&client, USERS);
    controller.stop();
}

/// Nodes say what they carry, those of the file as well; what one said that has gone is not
/// shown.
#[test]
fn loads_of_nodes_are_shown_while_they_are_connected() {
    for mut field in [Field::joining(), Field::new(1)] {
        let controller = field.controller();
        let client = field.client();
        field.meet(&client);
        let has_rates =
            |node: &api::Node| node.load.is_some_and(|load| load.received_per_second.is_some());
        until("rates of all nodes", || {
            nodes(&client).iter().filter(|node| has_rates(node)).count() == 3
        });
        let load = node(&client, "b").unwrap().load.unwrap();
        let said = (load.received_per_second, load.dropped_per_second, load.busy);
        assert_eq!(said, (Some(1000.0), Some(10.0), Some(0.125)));
        assert!(load.received >= 2000 && load.dropped * 100 == load.received, "{load:?}");
        let metrics = client.text("/metrics").unwrap();
        assert!(
            metrics.contains("weft_controller_node_busy_ratio{node=\"b\"} 0.125\n"),
            "{metrics}"
        );
        let dead = field.nodes.iter().position(|node| node.number == B).unwrap();
        field.nodes.remove(dead).stop();
        until("a node without a load", || {
            node(&client, "b").is_some_and(|node| node.load.is_none())
        });
        let metrics = client.text("/metrics").unwrap();
        assert!(!metrics.contains("weft_controller_node_received_packets_total{node=\"b\"}"));
        assert!(metrics.contains("weft_controller_node_received_packets_total{node=\"a\"}"));
        controller.stop();
    }
}

/// A node is removed when it is stopped and has no users, and not before.
#[test]
fn a_node_is_removed_when_it_has_nothing() {
    let mut field = Field::joining();
    let controller = field.controller();
    let client = field.client();
    field.meet(&client);
    field.add(&client, 1..=USERS, r#"{"anchor":"gateway","node":"a"}"#);
    field.settle(&client, USERS as usize);
    let remove = |name: &str| client.delete(&format!("/v1/nodes/{name}"));
    assert!(refusal(remove("b")).1.contains("it is connected"));
    assert!(refusal(remove("gateway")).1.contains("the controller's file"));
    assert_eq!(refusal(remove("c")).0, 404);
    let other = field.nodes.iter().position(|node| node.number == B).unwrap();
    field.nodes.remove(other).stop();
    until("a node that has gone", || node(&client, "b").is_some_and(|node| !node.connected));
    remove("b").unwrap();
    assert_eq!(node(&client, "b"), None);
    controller.stop();
    let controller = field.controller();
    until("nodes", || node(&client, "a").is_some_and(|node| node.connected));
    assert_eq!(node(&client, "b"), None);
    controller.stop();
}
