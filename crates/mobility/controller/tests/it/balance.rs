//! Users go where there is room for them.

use weft_http::client::{Client, ClientError};
use weft_mobility_controller::api;

use crate::field::node::busy;
use crate::field::{A, B, Field, until};

const USERS: u64 = 40;

fn level(client: &Client, order: &str) -> Result<api::Rebalance, ClientError> {
    client.post("/v1/rebalance", order.to_owned())
}

/// Waits until the controller has heard what both stations carry with so many users at a.
fn hear(client: &Client, users_at_a: usize) {
    until("loads", || {
        level(client, r#"{"dryRun":true}"#).is_ok_and(|answer| {
            let hears = |at: usize, users: usize| {
                let said = f64::from(busy(users)) / 10_000.0;
                (answer.stations[at].load - said).abs() < 1e-9
            };
            answer.measure == api::Measure::Busy
                && hears(0, users_at_a)
                && hears(1, USERS as usize - users_at_a)
        })
    });
}

/// An operator levels stations; a dry run moves none.
#[test]
fn stations_are_levelled_by_an_order() {
    let (field, controller, client) = Field::with_users(USERS);
    hear(&client, USERS as usize);

    let dry = level(&client, r#"{"dryRun":true}"#).unwrap();
    assert!(dry.orders.is_empty());
    assert_eq!(field.owned(A), USERS as usize);
    let [a, b] = &dry.stations[..] else { panic!("{dry:?}") };
    assert_eq!((a.users, b.users), (USERS as usize, 0));
    assert_eq!(a.users_then + b.users_then, USERS as usize);
    assert!(a.load_then - b.load_then < a.load - b.load, "{dry:?}");

    let answer = level(&client, "{}").unwrap();
    let [order] = &answer.orders[..] else { panic!("{answer:?}") };
    assert_eq!((order.to.as_str(), order.users), ("b", b.users_then));
    assert_eq!(field.finish(&client, order.id).moved, b.users_then);
    field.check(&client, USERS);
    assert_eq!(field.owned(B), b.users_then);

    // By users for what they can carry: b can carry half as much again as a.
    let answer = level(&client, r#"{"by":"users"}"#).unwrap();
    for order in answer.orders {
        field.finish(&client, order.id);
    }
    field.check(&client, USERS);
    assert_eq!((field.owned(A), field.owned(B)), (16, 24));

    // A station that is cordoned is none.
    let _: Vec<api::Node> = client.put("/v1/nodes/b/cordon", String::new()).unwrap();
    match level(&client, "{}").unwrap_err() {
        ClientError::Refused(problem) => assert!(problem.detail.contains("no two stations")),
        error => panic!("{error}"),
    }
    assert!(level(&client, r#"{"dry":1}"#).is_err());
    controller.stop();
}

/// Users that name no node go where there is room: b can carry half as much again as a.
#[test]
fn new_users_are_placed() {
    let field = Field::joining();
    let controller = field.controller();
    let client = field.client();
    field.meet(&client);
    field.add(&client, 1..=50, r#"{"anchor":"gateway"}"#);
    field.settle(&client, 50);
    field.check(&client, 50);
    assert_eq!((field.owned(A), field.owned(B)), (20, 30));
    controller.stop();
}

/// Where the site says so, the controller spreads users by itself, and then lets them be.
#[test]
fn users_are_spread_where_the_site_says_so() {
    let (field, controller, client) = Field::with_users(USERS);
    let site = "apiVersion: weft/v1\nkind: Site\nmetadata: {name: north}\n\
                rebalance: {over: 10, tolerance: 5, users: 8}\n";
    let files = serde_json::json!({"files": [{"name": "site.yaml", "text": site}]});
    let _: serde_json::Value = client.post("/v1/documents", files.to_string()).unwrap();
    until("users at b", || field.owned(B) > 0 && field.owned(A) + field.owned(B) == USERS as usize);
    field.settle(&client, USERS as usize);
    field.check(&client, USERS);
    assert!(field.owned(B) <= 8, "{} at once", field.owned(B));
    controller.stop();
}
