//! `POST /v1/configuration`: a node runs by another configuration from now on.
//! `POST /v1/functions/NAME`: it runs one function otherwise.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State as Shared};
use axum::http::StatusCode;
use serde::Deserialize;
use weft_node::config::{self, Mistakes};
use weft_node::{Changed, NotComposed, Wanted};

use crate::answer::Failure;
use crate::api::{Applied, Composed, Mistake};
use crate::state::State;

/// How long an answer waits for the workers to take a change over, and how
/// often it looks.
const SETTLING: Duration = Duration::from_secs(5);
/// How long a function that is to move waits for its process.
pub(crate) const ARRIVING: Duration = Duration::from_secs(15);
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Named {
    /// What mistakes call the file.
    file: String,
}

impl Default for Named {
    fn default() -> Named {
        Named { file: "configuration".to_owned() }
    }
}

pub(crate) async fn apply(
    Shared(state): Shared<State>,
    Query(named): Query<Named>,
    text: String,
) -> Result<Json<Applied>, Failure> {
    let kinds = state.kinds;
    let read = tokio::task::spawn_blocking(move || config::read(&text, &named.file, kinds));
    let blueprint = read.await.map_err(|_| Failure::stopped())?.map_err(|mistakes| {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Failure::new(status, "the configuration has mistakes").with_mistakes(listed(mistakes))
    })?;
    let warnings = listed(blueprint.warnings.clone());
    let changed = state
        .ask(move |agent| agent.apply(blueprint))
        .await?
        .map_err(|refused| Failure::new(StatusCode::CONFLICT, refused))?;
    answer(&state, changed, warnings).await
}

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
        Some(failure) => Err(Failure::new(StatusCode::CONFLICT, failure)),
        None => Ok(answer),
    }
}

fn refused(error: NotComposed) -> Failure {
    match error {
        NotComposed::Unknown(_) => Failure::unknown(error),
        _ => Failure::new(StatusCode::CONFLICT, error),
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
