//! `/v1/users`: the users.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use weft_mobility_protocol::controller::Refusal;

use super::answer::Failure;
use super::shared::{Shared, body};
use super::types::{Placement, User};
use crate::engine::UserView;

/// Users that one answer holds.
const MOST: usize = 10_000;

/// Which users are asked for.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Page {
    owner: Option<String>,
    first: u64,
    count: usize,
}

impl Default for Page {
    fn default() -> Page {
        Page { owner: None, first: 0, count: 100 }
    }
}

pub async fn list(
    State(shared): State<Shared>,
    page: Result<Query<Page>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Vec<User>>, Failure> {
    let Query(page) = page.map_err(Failure::bad)?;
    let owner = page.owner.map(|owner| shared.node(&owner)).transpose()?;
    let (first, count) = (weft_mobility_protocol::User(page.first), page.count.min(MOST));
    let users = shared.handle.ask(move |engine| engine.users(owner, first, count)).await?;
    Ok(Json(users.into_iter().map(|view| user(&shared, view)).collect()))
}

pub async fn one(
    State(shared): State<Shared>,
    Path(number): Path<String>,
) -> Result<Json<User>, Failure> {
    let number = parse(&number)?;
    let view = shared.handle.ask(move |engine| engine.user(number)).await?;
    Ok(Json(user(&shared, view.ok_or(Refusal::UnknownUser)?)))
}

pub async fn put(
    State(shared): State<Shared>,
    Path(number): Path<String>,
    text: String,
) -> Result<(StatusCode, Json<User>), Failure> {
    let number = parse(&number)?;
    let Placement { anchor, node } = body(&text)?;
    let (anchor, node) = (shared.node(&anchor)?, shared.node(&node)?);
    if anchor == node {
        return Err(Failure::bad("the anchor cannot own a user itself"));
    }
    let add = move |engine: &mut crate::engine::Engine| {
        engine.add(number, anchor, node)?;
        engine.user(number).ok_or(Refusal::UnknownUser)
    };
    let view = shared.handle.ask(add).await??;
    Ok((StatusCode::ACCEPTED, Json(user(&shared, view))))
}

pub async fn delete(
    State(shared): State<Shared>,
    Path(number): Path<String>,
) -> Result<StatusCode, Failure> {
    let number = parse(&number)?;
    shared.handle.ask(move |engine| engine.remove(number)).await??;
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
        target: view.target.map(|node| shared.name(node)),
        state: view.state.to_owned(),
    }
}
