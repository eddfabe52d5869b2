//! `/v1/users`: the users.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;
use weft_http::extract::{Json, Path, Query, Text};
use weft_http::problem::Failure;
use weft_mobility_protocol::controller::Refusal;

use super::answer::refused;
use super::state::{Shared, body};
use super::types::{Placement, User};
use crate::engine::{Engine, OrderError, UserView};

/// Users that one answer holds.
const MOST: usize = 10_000;

/// Which users are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// Only users of this node.
    owner: Option<String>,
    /// Only users from this number on.
    #[param(default = 0)]
    first: u64,
    /// Users that the page holds; at most 10,000 are given.
    #[param(default = 100, maximum = 10_000)]
    count: usize,
}

impl Default for Page {
    fn default() -> Page {
        Page { owner: None, first: 0, count: 100 }
    }
}

/// Users, in the order of their numbers.
#[utoipa::path(
    get,
    path = "/v1/users",
    params(Page),
    responses(
        (status = 200, description = "A page of users", body = Vec<User>),
        (status = 400, description = "The query cannot be read"),
        (status = 404, description = "There is no such node"),
    ),
)]
pub async fn list(
    State(shared): State<Shared>,
    Query(page): Query<Page>,
) -> Result<Json<Vec<User>>, Failure> {
    let owner = page.owner.map(|owner| shared.node(&owner)).transpose()?;
    let (first, count) = (weft_mobility_protocol::User(page.first), page.count.min(MOST));
    let users = shared.handle.ask(move |engine| engine.users(owner, first, count)).await?;
    Ok(Json(users.into_iter().map(|view| user(&shared, view)).collect()))
}

/// One user.
#[utoipa::path(
    get,
    path = "/v1/users/{user}",
    params(("user" = u64, Path, description = "The number of the user")),
    responses(
        (status = 200, description = "The user", body = User),
        (status = 400, description = "That is not a number"),
        (status = 404, description = "There is no such user"),
    ),
)]
pub async fn one(
    State(shared): State<Shared>,
    Path(number): Path<String>,
) -> Result<Json<User>, Failure> {
    let number = parse(&number)?;
    let view = shared.handle.ask(move |engine| engine.user(number)).await?;
    let view = view.ok_or_else(|| refused(Refusal::UnknownUser))?;
    Ok(Json(user(&shared, view)))
}

/// Adds a user: the event `owned` tells when its node has it.
#[utoipa::path(
    put,
    path = "/v1/users/{user}",
    params(("user" = u64, Path, description = "The number of the user")),
    request_body = Placement,
    responses(
        (status = 202, description = "The user, which is not at its node yet", body = User),
        (status = 400, description = "The number or the body cannot be read"),
        (status = 404, description = "There is no such node"),
        (status = 409, description = "There is such a user already"),
        (status = 413, description = "The body is too long"),
        (status = 503, description = "A node is not connected, or the controller stops"),
        (status = 507, description = "The controller has as many users as it takes"),
    ),
)]
pub async fn put(
    State(shared): State<Shared>,
    Path(number): Path<String>,
    Text(text): Text,
) -> Result<(StatusCode, Json<User>), Failure> {
    let number = parse(&number)?;
    let Placement { anchor, node } = body(&text)?;
    let anchor = shared.node(&anchor)?;
    let node = node.map(|node| shared.node(&node)).transpose()?;
    if node == Some(anchor) {
        return Err(Failure::bad("the anchor cannot own a user itself"));
    }
    let add = move |engine: &mut Engine| {
        if let Some(most) = engine.full().filter(|_| engine.user(number).is_none()) {
            let detail = format!("the controller has {most} users and takes no more");
            return Err(Failure::new(StatusCode::INSUFFICIENT_STORAGE, detail));
        }
        let node = node.or_else(|| engine.place_for(anchor)).ok_or(OrderError::Nowhere)?;
        if engine.is_cordoned(node) {
            return Err(OrderError::Cordoned.into());
        }
        engine.add(number, anchor, node).map_err(refused)?;
        engine.user(number).ok_or_else(|| refused(Refusal::UnknownUser))
    };
    let view = shared.handle.ask(add).await??;
    Ok((StatusCode::ACCEPTED, Json(user(&shared, view))))
}

/// Removes a user: the event `removed` tells when it is forgotten.
#[utoipa::path(
    delete,
    path = "/v1/users/{user}",
    params(("user" = u64, Path, description = "The number of the user")),
    responses(
        (status = 202, description = "The user will be forgotten"),
        (status = 400, description = "That is not a number"),
        (status = 404, description = "There is no such user"),
    ),
)]
pub async fn delete(
    State(shared): State<Shared>,
    Path(number): Path<String>,
) -> Result<StatusCode, Failure> {
    let number = parse(&number)?;
    let removed = shared.handle.ask(move |engine| engine.remove(number)).await?;
    removed.map_err(refused)?;
    Ok(StatusCode::ACCEPTED)
}

fn parse(number: &str) -> Result<weft_mobility_protocol::User, Failure> {
    let user = number.parse().map(weft_mobility_protocol::User);
    user.map_err(|_| Failure::bad(format!("`{number}` is not the number of a user")))
}

fn user(shared: &Shared, view: UserView) -> User {
    User {
        user: view.user.0,
        anchor: shared.name(view.anchor),
        owner: view.owner.map(|node| shared.name(node)),
        epoch: view.epoch,
        owned: view.owned,
        target: view.target.map(|node| shared.name(node)),
        state: view.state.to_owned(),
    }
}
