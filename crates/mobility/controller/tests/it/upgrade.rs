//! Nodes come to run another program, one after another.

use std::time::Duration;

use weft_http::client::{Client, ClientError};
use weft_mobility_controller::api;
use weft_mobility_controller::api::upgrade::UpgradeState;
use weft_mobility_protocol::NodeId;
use weft_site::upgrade::{NodePhase, Phase};

use crate::field::{A, B, Field, GATEWAY, until};

const USERS: u64 = 40;

fn begin(client: &Client, order: &str) -> Result<UpgradeState, ClientError> {
    client.post("/v1/upgrade", order.to_owned())
}

fn state(client: &Client) -> UpgradeState {
    client.get("/v1/upgrade").unwrap()
}

fn refusal(refused: Result<UpgradeState, ClientError>) -> String {
    match refused.unwrap_err() {
        ClientError::Refused(problem) => problem.detail,
        error => panic!("{error}"),
    }
}

/// Plays the service manager of all nodes until the upgrade is over.
fn finish(field: &mut Field, client: &Client) -> UpgradeState {
    let mut last = None;
    until("the end of the upgrade", || {
        start_again(field);
        // The controller may be about to start.
        last = client.get::<UpgradeState>("/v1/upgrade").ok();
        last.as_ref().is_some_and(|state| state.phase != Phase::Running)
    });
    last.unwrap()
}

fn start_again(field: &mut Field) {
    let ended: Vec<_> = {
        let mut programs = field.shared.programs.lock().unwrap();
        let ended = programs.iter_mut().filter(|(_, program)| program.has_ended);
        ended
            .map(|(node, program)| {
                (program.has_ended, program.before) = (false, program.before + 1);
                (*node, program.before as u32 + 1)
            })
            .collect()
    };
    ended.into_iter().for_each(|(node, life)| field.restart(node, life));
}

/// How many processes of a node there were.
fn processes(field: &Field, node: NodeId) -> u64 {
    let programs = field.shared.programs.lock().unwrap();
    programs.get(&node).map_or(1, |program| program.before + 1)
}

fn phases(state: &UpgradeState) -> Vec<(&str, NodePhase)> {
    state.nodes.iter().map(|node| (node.node.as_str(), node.phase)).collect()
}

#[test]
fn nodes_go_over_with_their_users() {
    let (mut field, controller, client) = Field::with_users(USERS);
    let begun = begin(&client, "{}").unwrap();
    assert_eq!((begun.phase, begun.nodes.len()), (Phase::Running, 3));
    assert!(refusal(begin(&client, "{}")).contains("an upgrade is under way"));
    let ended = finish(&mut field, &client);
    assert_eq!((ended.phase, ended.reason.as_str()), (Phase::Complete, ""));
    for (node, said) in [GATEWAY, A, B].into_iter().zip(&ended.nodes) {
        assert_eq!(processes(&field, node), 2);
        assert_eq!((said.before.as_str(), said.after.as_str()), ("0.1.1", "0.1.2"));
    }
    field.check(&client, USERS);
    assert_eq!(field.owned(A), USERS as usize);
    assert!(client.delete("/v1/upgrade").is_err(), "none is under way");
    controller.stop();
}

#[test]
fn users_leave_a_node_that_ends_and_come_back() {
    let (mut field, controller, client) = Field::with_users(USERS);
    begin(&client, r#"{"method":"drain"}"#).unwrap();
    let ended = finish(&mut field, &client);
    assert_eq!(ended.phase, Phase::Complete, "{ended:?}");
    let done = NodePhase::Done;
    assert_eq!(phases(&ended), [("gateway", NodePhase::Skipped), ("a", done), ("b", done)]);
    assert!(ended.nodes[0].reason.contains("the anchor of users"));
    assert_eq!([GATEWAY, A, B].map(|node| processes(&field, node)), [1, 2, 2]);
    field.settle(&client, USERS as usize);
    field.check(&client, USERS);
    assert_eq!(field.owned(A), USERS as usize);
    let nodes: Vec<api::Node> = client.get("/v1/nodes").unwrap();
    assert!(nodes.iter().all(|node| !node.cordoned && node.connected));
    controller.stop();
}

#[test]
fn the_first_node_that_fails_ends_it() {
    let (mut field, controller, client) = Field::with_users(USERS);
    let program = |node, change: fn(&mut crate::field::Program)| {
        change(field.shared.programs.lock().unwrap().entry(node).or_default());
    };
    program(A, |a| a.refuses = Some("node.yaml:3:1: there is no place `ful`".to_owned()));
    begin(&client, "{}").unwrap();
    let ended = finish(&mut field, &client);
    assert_eq!(ended.phase, Phase::Failed);
    assert_eq!(ended.reason, "a: node.yaml:3:1: there is no place `ful`");
    let phases = phases(&ended);
    let waiting = NodePhase::Waiting;
    assert_eq!(phases[1..], [("a", NodePhase::Failed), ("b", waiting)]);
    field.check(&client, USERS);
    controller.stop();
}

/// A node of a release that does not know it ends its connection whenever it is asked.
#[test]
fn a_node_of_an_earlier_release_is_told_from_others() {
    let (mut field, controller, client) = Field::with_users(USERS);
    field.shared.programs.lock().unwrap().entry(B).or_default().is_old = true;
    begin(&client, r#"{"nodes":["b"]}"#).unwrap();
    let ended = finish(&mut field, &client);
    assert_eq!(ended.phase, Phase::Failed);
    assert!(ended.reason.contains("a release that cannot be upgraded by its site"), "{ended:?}");
    assert!(refusal(begin(&client, r#"{"nodes":["c"]}"#)).contains("there is no node `c`"));
    let at = field.nodes.iter().position(|node| node.number == B).unwrap();
    field.nodes.remove(at).stop();
    until("b to be away", || {
        let nodes: Vec<api::Node> = client.get("/v1/nodes").unwrap();
        nodes.iter().any(|node| node.name == "b" && !node.connected)
    });
    let said = refusal(begin(&client, r#"{"nodes":["b"]}"#));
    assert!(said.starts_with("b is "), "{said}");
    controller.stop();
}

/// Wherever the controller dies, the next one goes on, and no node goes twice.
#[test]
fn another_controller_goes_on_with_it() {
    for order in ["{}", r#"{"method":"drain","nodes":["a","b"]}"#] {
        let (mut field, mut controller, client) = Field::with_users(USERS);
        begin(&client, order).unwrap();
        for pause in [300, 700, 1500] {
            std::thread::sleep(Duration::from_millis(pause));
            start_again(&mut field);
            controller.stop();
            controller = field.controller();
        }
        let ended = finish(&mut field, &client);
        assert_eq!((ended.phase, ended.reason.as_str()), (Phase::Complete, ""), "{order}");
        assert_eq!([A, B].map(|node| processes(&field, node)), [2, 2], "{order}");
        field.settle(&client, USERS as usize);
        field.check(&client, USERS);
        assert_eq!(field.owned(A), USERS as usize);
        assert_eq!(state(&client), ended);
        controller.stop();
    }
}
