//! `/v1/handovers`: orders to hand users over.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use serde::Deserialize;
use utoipa::IntoParams;
use weft_http::extract::{Json, Path, Query, Text};
use weft_http::problem::Failure;
use weft_mobility_protocol::User;

use super::state::{Shared, body};
use super::types::{Handover, HandoverOrder, Unmoved};
use crate::engine::{Order, Ways};

/// Longest wait for an order to be finished.
const LONGEST: Duration = Duration::from_secs(20);

/// How long it is waited for the end.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Patience {
    /// Seconds to wait for the end of the order; 20 at most.
    #[param(default = 0, maximum = 20)]
    wait: u64,
}

/// Hands over one user, or all of a node, as many at once as the window allows.
#[utoipa::path(
    post,
    path = "/v1/handovers",
    request_body = HandoverOrder,
    responses(
        (
            status = 202,
            description = "The order, which is not finished yet",
            body = Handover,
            headers(("location" = String, description = "Where the order is found")),
        ),
        (status = 400, description = "The body cannot be read, or the users cannot go there"),
        (status = 404, description = "There is no such user or node"),
        (status = 409, description = "The user is there, or is moving"),
        (status = 413, description = "The body is too long"),
        (status = 503, description = "A node is not connected, or the controller stops"),
    ),
)]
pub async fn order(
    State(shared): State<Shared>,
    Text(text): Text,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Handover>), Failure> {
    let HandoverOrder { user, all_from, to } = body(&text)?;
    let to = shared.node(&to)?;
    let who = match (user, all_from) {
        (Some(user), None) => Ways::User(User(user)),
        (None, Some(from)) => Ways::AllFrom(shared.node(&from)?),
        _ => return Err(Failure::bad("give either `user` or `allFrom`")),
    };
    let order = shared.handle.ask(move |engine| engine.hand_over(who, to)).await??;
    let place = [(LOCATION, format!("/v1/handovers/{}", order.number))];
    Ok((StatusCode::ACCEPTED, place, Json(handover(&shared, order))))
}

/// Orders since the controller started, oldest first.
#[utoipa::path(
    get,
    path = "/v1/handovers",
    responses((status = 200, description = "The orders", body = Vec<Handover>)),
)]
pub async fn list(State(shared): State<Shared>) -> Result<Json<Vec<Handover>>, Failure> {
    let orders = shared.handle.ask(|engine| engine.orders()).await?;
    Ok(Json(orders.into_iter().map(|order| handover(&shared, order)).collect()))
}

/// One order, and how far it is.
#[utoipa::path(
    get,
    path = "/v1/handovers/{id}",
    params(("id" = u64, Path, description = "The number of the order"), Patience),
    responses(
        (status = 200, description = "The order", body = Handover),
        (status = 400, description = "The query cannot be read"),
        (status = 404, description = "There is no such order, or it is forgotten"),
    ),
)]
pub async fn one(
    State(shared): State<Shared>,
    Path(number): Path<String>,
    Query(Patience { wait }): Query<Patience>,
) -> Result<Json<Handover>, Failure> {
    let none = || Failure::unknown("there is no such handover, or it is forgotten");
    let number: u64 = number.parse().map_err(|_| none())?;
    let followed = shared.handle.ask(move |engine| engine.follow(number)).await?;
    let (mut order, finished) = followed.ok_or_else(none)?;
    if wait > 0 && !order.is_finished() {
        // Whether it is finished or the time is up, it is looked at again.
        let _ = tokio::time::timeout(Duration::from_secs(wait).min(LONGEST), finished).await;
        let again = shared.handle.ask(move |engine| engine.order(number)).await?;
        order = again.ok_or_else(none)?;
    }
    Ok(Json(handover(&shared, order)))
}

pub fn handover(shared: &Shared, order: Order) -> Handover {
    let unmoved =
        |(user, reason): &(User, String)| Unmoved { user: user.0, reason: reason.clone() };
    Handover {
        id: order.number,
        to: shared.name(order.to),
        all_from: order.from.map(|node| shared.name(node)),
        users: order.users,
        moved: order.moved,
        aborted: order.aborted,
        refused: order.refused,
        under_way: order.under_way(),
        finished: order.is_finished(),
        reasons: order.reasons.iter().map(unmoved).collect(),
    }
}
