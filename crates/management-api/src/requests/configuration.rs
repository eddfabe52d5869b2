//! `POST /v1/configuration`: a node runs by another configuration from now on.
//! `POST /v1/functions/NAME`: it runs one function otherwise.

use std::time::Duration;

use axum::extract::State as Shared;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;
use weft_http::extract::{Json, Path, Query, Text};
use weft_http::problem::Failure;
use weft_node::{Changed, NotComposed, Wanted};
use weft_node_config::{self as config, Mistakes};

use crate::api::{Applied, Composed, Mistake};
use crate::state::{State, stopped};

/// How long an answer waits for the workers to take a change over, and how
/// often it looks.
const SETTLING: Duration = Duration::from_secs(5);
/// How long a function that is to move waits for its process.
pub(crate) const ARRIVING: Duration = Duration::from_secs(15);
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How a configuration is called.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Named {
    /// The file that mistakes name.
    #[param(default = "configuration")]
    file: String,
}

impl Default for Named {
    fn default() -> Named {
        Named { file: "configuration".to_owned() }
    }
}

/// What who changes the configuration of a node that has a standby is told.
const OF_STANDBY: &str = "the standby keeps the configuration of its own file: \
    give it the same users, functions and rules, and restart it";

/// Applies another configuration, whole or not at all.
#[utoipa::path(
    post,
    path = "/v1/configuration",
    params(Named),
    request_body(content = String, content_type = "application/yaml"),
    responses(
        (status = 200, description = "Applied", body = Applied),
        (status = 400, description = "The query or the body cannot be read"),
        (status = 409, description = "The configuration cannot be applied now"),
        (status = 413, description = "The body is too long"),
        (status = 422, description = "The configuration has mistakes, which are listed"),
    ),
)]
pub(crate) async fn apply(
    Shared(state): Shared<State>,
    Query(named): Query<Named>,
    Text(text): Text,
) -> Result<Json<Applied>, Failure> {
    let kinds = state.kinds;
    let read = tokio::task::spawn_blocking(move || config::read(&text, &named.file, kinds));
    let blueprint = read.await.map_err(|_| stopped())?.map_err(|mistakes| {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Failure::new(status, "the configuration has mistakes").with_mistakes(listed(mistakes))
    })?;
    let warnings = listed(blueprint.warnings.clone());
    let (changed, is_pair) =
        state.ask(move |agent| (agent.apply(blueprint), agent.is_one_of_two())).await?;
    let Json(applied) = answer(&state, changed.map_err(Failure::conflict)?, warnings).await?;
    let elsewhere = is_pair.then(|| OF_STANDBY.to_owned());
    Ok(Json(Applied { elsewhere, ..applied }))
}

/// Runs a function in another composition.
#[utoipa::path(
    post,
    path = "/v1/functions/{name}",
    params(("name" = String, Path, description = "The name of the function")),
    request_body = Composed,
    responses(
        (status = 200, description = "The function runs so", body = Applied),
        (status = 400, description = "The body is not JSON"),
        (status = 404, description = "There is no such function"),
        (status = 409, description = "The function cannot be run so now"),
        (status = 413, description = "The body is too long"),
        (status = 415, description = "The body is not announced as JSON"),
        (status = 422, description = "The body is not a composition"),
    ),
)]
pub(crate) async fn compose(
    Shared(state): Shared<State>,
    Path(function): Path<String>,
    Json(Composed { composition, stage, core }): Json<Composed>,
) -> Result<Json<Applied>, Failure> {
    run_as(&state, function, Wanted { composition, stage, core }).await
}

/// Runs a function otherwise, and waits until the workers do.
pub(crate) async fn run_as(
    state: &State,
    function: String,
    wanted: Wanted,
) -> Result<Json<Applied>, Failure> {
    let mut waited = Duration::ZERO;
    let changed = loop {
        let (function, wanted) = (function.clone(), wanted.clone());
        match state.ask(move |agent| agent.compose(&function, &wanted)).await? {
            // A process takes its time to start, and so do users that move.
            Err(error) if error.passes() && waited < ARRIVING => {
                tokio::time::sleep(LOOK_EVERY).await;
                waited += LOOK_EVERY;
            }
            done => break done,
        }
    };
    let answer = answer(state, changed.map_err(refused)?, Vec::new()).await?;
    match state.ask(|agent| agent.move_failure().map(str::to_owned)).await? {
        Some(failure) => Err(Failure::conflict(failure)),
        None => Ok(answer),
    }
}

fn refused(error: NotComposed) -> Failure {
    match error {
        NotComposed::Unknown(_) => Failure::unknown(error),
        _ => Failure::conflict(error),
    }
}

async fn answer(
    state: &State,
    changed: Changed,
    warnings: Vec<Mistake>,
) -> Result<Json<Applied>, Failure> {
    Ok(Json(Applied {
        functions_kept: changed.functions_kept,
        functions_new: changed.functions_new,
        users_before: changed.users_before,
        users_now: changed.users_now,
        settled: settle(state).await?,
        warnings,
        elsewhere: None,
    }))
}

/// Waits until all workers run by the new configuration.
pub(crate) async fn settle(state: &State) -> Result<bool, Failure> {
    let mut waited = Duration::ZERO;
    while waited < SETTLING {
        if state.ask(|agent| agent.is_settled()).await? {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
    Ok(false)
}

fn listed(mistakes: Mistakes) -> Vec<Mistake> {
    let listed = mistakes.0.into_iter().map(|mistake| Mistake {
        file: mistake.file,
        line: mistake.line,
        column: mistake.column,
        message: mistake.message,
        hint: mistake.hint,
    });
    listed.collect()
}
