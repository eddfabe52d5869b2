//! All that can be asked: served and described from one list.

use axum::routing::{MethodRouter, delete, get, post, put};
use schemars::{Schema, SchemaGenerator};

use super::shared::Shared;
use super::types::{Gone, Handover, HandoverOrder, Node, Placement, User};
use super::{events, handovers, metrics, nodes, users};
use crate::engine::Happening;

type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// One operation.
pub struct Operation {
    pub method: &'static str,
    pub path: &'static str,
    pub summary: &'static str,
    /// Names, types and descriptions of what the query may say.
    pub query: &'static [(&'static str, &'static str, &'static str)],
    pub request: Option<MakeSchema>,
    /// Status, kind and shape of an answer that grants it.
    pub answer: (u16, &'static str, Option<MakeSchema>),
    /// Statuses of answers that do not.
    pub refusals: &'static [u16],
    pub route: MethodRouter<Shared>,
}

const JSON: &str = "application/json";

fn of<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// All operations.
pub fn operations() -> Vec<Operation> {
    let mut all = about_nodes_and_users();
    all.extend(about_handovers());
    all
}

fn operation(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    route: MethodRouter<Shared>,
) -> Operation {
    let answer = (200, JSON, None);
    Operation { method, path, summary, query: &[], request: None, answer, refusals: &[], route }
}

fn about_nodes_and_users() -> Vec<Operation> {
    vec![
        Operation {
            answer: (200, JSON, Some(of::<Vec<Node>>)),
            ..operation("get", "/v1/nodes", "The nodes", get(nodes::list))
        },
        Operation {
            request: Some(of::<Gone>),
            answer: (200, JSON, Some(of::<Vec<Node>>)),
            refusals: &[400, 404, 503],
            ..operation(
                "post",
                "/v1/nodes/{name}/gone",
                "A node does not come back: its users are its successor's",
                post(nodes::gone),
            )
        },
        Operation {
            query: &[
                ("owner", "string", "Only users of this node"),
                ("first", "integer", "Only users from this number on"),
                ("count", "integer", "So many at most; 100 unless said, 10,000 at most"),
            ],
            answer: (200, JSON, Some(of::<Vec<User>>)),
            refusals: &[400, 404],
            ..operation("get", "/v1/users", "Users in order of their numbers", get(users::list))
        },
        Operation {
            answer: (200, JSON, Some(of::<User>)),
            refusals: &[400, 404],
            ..operation("get", "/v1/users/{user}", "One user", get(users::one))
        },
        Operation {
            request: Some(of::<Placement>),
            answer: (202, JSON, Some(of::<User>)),
            refusals: &[400, 404, 409, 503],
            ..operation(
                "put",
                "/v1/users/{user}",
                "A new user: the event `owned` tells when its node has it",
                put(users::put),
            )
        },
        Operation {
            answer: (202, JSON, None),
            refusals: &[400, 404],
            ..operation(
                "delete",
                "/v1/users/{user}",
                "A user is to be forgotten: the event `removed` tells when it is",
                delete(users::delete),
            )
        },
    ]
}

fn about_handovers() -> Vec<Operation> {
    vec![
        Operation {
            request: Some(of::<HandoverOrder>),
            answer: (202, JSON, Some(of::<Handover>)),
            refusals: &[400, 404, 409, 503],
            ..operation(
                "post",
                "/v1/handovers",
                "Hands over one user, or all of a node, as many at once as the window allows",
                post(handovers::order),
            )
        },
        Operation {
            answer: (200, JSON, Some(of::<Vec<Handover>>)),
            ..operation(
                "get",
                "/v1/handovers",
                "Orders since the controller started, oldest first",
                get(handovers::list),
            )
        },
        Operation {
            query: &[("wait", "integer", "Seconds to wait for its end, 20 at most")],
            answer: (200, JSON, Some(of::<Handover>)),
            refusals: &[400, 404],
            ..operation(
                "get",
                "/v1/handovers/{id}",
                "One order, and how far it is",
                get(handovers::one),
            )
        },
        Operation {
            answer: (200, "text/event-stream", Some(of::<Happening>)),
            refusals: &[429],
            ..operation("get", "/v1/events", "What happens from now on", get(events::events))
        },
        Operation {
            answer: (200, "text/plain", None),
            ..operation("get", "/metrics", "Counters for Prometheus", get(metrics::metrics))
        },
    ]
}
