//! `/v1/handovers`: orders to hand users over.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use serde::Deserialize;
use weft_mobility_protocol::User;

use super::answer::Failure;
use super::shared::{Shared, body};
use super::types::{Handover, HandoverOrder, Unmoved};
use crate::engine::{Order, Ways};

/// Longest wait for an order to be finished.
const LONGEST: Duration = Duration::from_secs(20);

/// How long it is waited for the end.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Patience {
    wait: u64,
}

pub async fn order(
    State(shared): State<Shared>,
    text: String,
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

pub async fn list(State(shared): State<Shared>) -> Result<Json<Vec<Handover>>, Failure> {
    let orders = shared.handle.ask(|engine| engine.orders()).await?;
    Ok(Json(orders.into_iter().map(|order| handover(&shared, order)).collect()))
}

pub async fn one(
    State(shared): State<Shared>,
    Path(number): Path<String>,
    patience: Result<Query<Patience>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Handover>, Failure> {
    let Query(Patience { wait }) = patience.map_err(Failure::bad)?;
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

fn handover(shared: &Shared, order: Order) -> Handover {
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
