//! `/v1/functions/NAME/contexts`: contexts of a function, to be carried to another node, and
//! `…/gate`, `…/release`: its packets wait meanwhile.
//!
//! Contexts are one JSON object on each line: first which function it is, then a context each,
//! and behind the last how many there were, so what was cut off is not taken for whole.

use std::io::Write;
use std::time::Duration;

use axum::extract::State as Shared;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use tokio::runtime;
use tokio::sync::mpsc::channel;
use weft_http::extract::{Json, Path, Text};
use weft_http::pieces::{JSON_LINES, Pieces};
use weft_http::problem::Failure;
use weft_node::Handle;
use weft_node::contexts::{Named, NotCarried, Whose};

use super::configuration::{ARRIVING, LOOK_EVERY, refused, settle};
use crate::api::{Carried, ContextLine, Gate, Release};
use crate::state::{State, stopped};
use crate::watch::{Out, Over, PIECES};

/// Contexts that are asked for at once.
const BATCH: usize = 256;

/// How long a gate may take to let nothing through any more.
const CLOSING: Duration = Duration::from_secs(10);

/// Lets the packets of a function wait, and answers when none of them is on its way.
#[utoipa::path(
    post,
    path = "/v1/functions/{name}/gate",
    params(("name" = String, Path, description = "The name of the function")),
    request_body = Gate,
    responses(
        (status = 200, description = "The packets wait", body = ()),
        (status = 400, description = "The body is not JSON"),
        (status = 404, description = "There is no such function"),
        (status = 409, description = "The packets of the function cannot wait now"),
        (status = 413, description = "The body is too long"),
        (status = 415, description = "The body is not announced as JSON"),
        (status = 422, description = "The body does not say whether the function goes"),
    ),
)]
pub(crate) async fn gate(
    Shared(state): Shared<State>,
    Path(function): Path<String>,
    Json(Gate { goes }): Json<Gate>,
) -> Result<Json<()>, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        let name = function.clone();
        match state.ask(move |agent| agent.gate_function(&name, goes)).await? {
            Err(error) if error.passes() && waited < ARRIVING => {
                tokio::time::sleep(LOOK_EVERY).await;
                waited += LOOK_EVERY;
            }
            done => break done.map_err(refused)?,
        }
    }
    let mut waited = Duration::ZERO;
    loop {
        let name = function.clone();
        match state.ask(move |agent| agent.is_gated(&name)).await? {
            Some(true) => return Ok(Json(())),
            Some(false) if waited < CLOSING => tokio::time::sleep(LOOK_EVERY).await,
            Some(false) => {
                let late = "its packets do not come back".to_owned();
                let stays = end(&state, function, Err(late)).await?;
                return Err(Failure::conflict(stays.unwrap_or_default()));
            }
            None => return Err(Failure::conflict("it moves no more")),
        }
        waited += LOOK_EVERY;
    }
}

/// Lets the packets of a function go on.
#[utoipa::path(
    post,
    path = "/v1/functions/{name}/release",
    params(("name" = String, Path, description = "The name of the function")),
    request_body = Release,
    responses(
        (status = 200, description = "The packets go on", body = ()),
        (status = 400, description = "The body is not JSON"),
        (status = 404, description = "There is no such function"),
        (status = 409, description = "The function stays where it was"),
        (status = 413, description = "The body is too long"),
        (status = 415, description = "The body is not announced as JSON"),
        (status = 422, description = "The body is not a release"),
    ),
)]
pub(crate) async fn release(
    Shared(state): Shared<State>,
    Path(function): Path<String>,
    Json(Release { refusal }): Json<Release>,
) -> Result<Json<()>, Failure> {
    let is_meant = refusal.is_some();
    match end(&state, function, refusal.map_or(Ok(()), Err)).await? {
        Some(stays) if !is_meant => Err(Failure::conflict(stays)),
        _ => Ok(Json(())),
    }
}

/// Ends a move and waits until the workers have; why the function stays where it was, if it
/// does.
async fn end(
    state: &State,
    function: String,
    word: Result<(), String>,
) -> Result<Option<String>, Failure> {
    let released = state.ask(move |agent| agent.release_function(&function, word)).await?;
    released.map_err(refused)?;
    settle(state).await?;
    state.ask(|agent| agent.move_failure().map(str::to_owned)).await
}

/// All contexts of a function, one JSON object on each line.
#[utoipa::path(
    get,
    path = "/v1/functions/{name}/contexts",
    params(("name" = String, Path, description = "The name of the function")),
    responses(
        (
            status = 200,
            description = "The function, its contexts, and behind the last how many there were",
            body = ContextLine,
            content_type = "application/jsonl",
        ),
        (status = 404, description = "There is no such function"),
        (status = 409, description = "The contexts of the function cannot be read"),
    ),
)]
pub(crate) async fn read(
    Shared(state): Shared<State>,
    Path(function): Path<String>,
) -> Result<Response, Failure> {
    let name = function.clone();
    let named = state.ask(move |agent| agent.contexts_named(&name)).await?;
    let (kind, names) = named.map_err(not_carried)?;
    let (sender, receiver) = channel(PIECES);
    let out = Out { sender, runtime: runtime::Handle::current() };
    let head = ContextLine::Function { kind: kind.to_owned(), known_only: false };
    tokio::task::spawn_blocking(move || -> Result<(), Over> {
        out.send(line(&head))?;
        let mut count = 0;
        for names in names.chunks(BATCH) {
            let contexts = match ask_for(&state.handle, &function, names.to_vec()) {
                Ok(contexts) => contexts,
                Err(reason) => return out.send(line(&ContextLine::Failed(reason))),
            };
            count += contexts.len() as u64;
            let write = |Named { whose, octets }: Named| {
                line(&ContextLine::Context { whose, octets: STANDARD.encode(octets) })
            };
            out.send(contexts.into_iter().flat_map(write).collect())?;
        }
        out.send(line(&ContextLine::End { count }))
    });
    Ok(Pieces(receiver).answer(JSON_LINES))
}

fn ask_for(handle: &Handle, function: &str, names: Vec<Whose>) -> Result<Vec<Named>, String> {
    let function = function.to_owned();
    let reading = handle.ask(move |agent| agent.read_contexts(&function, &names));
    let reading = reading.map_err(|error| error.to_string())?;
    reading.and_then(|reading| reading.wait()).map_err(|error| error.to_string())
}

/// Gives a function contexts, one JSON object on each line: first the function, then a
/// context each.
#[utoipa::path(
    post,
    path = "/v1/functions/{name}/contexts",
    params(("name" = String, Path, description = "The name of the function")),
    request_body(content = ContextLine, content_type = "application/jsonl"),
    responses(
        (status = 200, description = "The function has them", body = Carried),
        (status = 400, description = "A line cannot be read"),
        (status = 404, description = "There is no such function"),
        (status = 409, description = "The function does not take these contexts"),
        (status = 413, description = "The body is too long"),
    ),
)]
pub(crate) async fn write(
    Shared(state): Shared<State>,
    Path(function): Path<String>,
    Text(text): Text,
) -> Result<Json<Carried>, Failure> {
    let read = tokio::task::spawn_blocking(move || parse(&text)).await;
    let (kind, known_only, contexts) = read.map_err(|_| stopped())?.map_err(Failure::bad)?;
    let contexts_written = contexts.len();
    let writing =
        state.ask(move |agent| agent.write_contexts(&function, &kind, contexts, known_only));
    let writing = writing.await?.map_err(not_carried)?;
    let written = tokio::task::spawn_blocking(move || writing.wait()).await;
    written.map_err(|_| stopped())?.map_err(not_carried)?;
    Ok(Json(Carried { contexts: contexts_written as u64 }))
}

/// The kind of the function, whether contexts of unknown owners are left out, and the
/// contexts.
type Parsed = (String, bool, Vec<Named>);

fn parse(text: &str) -> Result<Parsed, String> {
    let (mut head, mut contexts) = (None, Vec::new());
    for (at, line) in text.lines().enumerate() {
        let wrong = |reason: String| format!("line {}: {reason}", at + 1);
        let line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        match (line, &head) {
            (ContextLine::Function { kind, known_only }, None) => head = Some((kind, known_only)),
            (ContextLine::Context { whose, octets }, Some(_)) => {
                let octets = STANDARD.decode(octets).map_err(|error| wrong(error.to_string()))?;
                contexts.push(Named { whose, octets });
            }
            _ => return Err(wrong("first the function, then its contexts".to_owned())),
        }
    }
    let (kind, known_only) = head.ok_or("there is no line that says which function it is")?;
    Ok((kind, known_only, contexts))
}

fn line(line: &impl Serialize) -> Vec<u8> {
    let mut octets = Vec::new();
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut octets, line);
    let _ = octets.write_all(b"\n");
    octets
}

fn not_carried(error: NotCarried) -> Failure {
    match error {
        NotCarried::Unknown(_) => Failure::unknown(error),
        _ => Failure::conflict(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_they_were_written() {
        let whose = Whose::Dedicated { user: "ue-1".into(), bearer: "video".into() };
        let mut text = line(&ContextLine::Function { kind: "counter".into(), known_only: true });
        let octets = STANDARD.encode([0, 255, 7]);
        text.extend(line(&ContextLine::Context { whose: whose.clone(), octets }));
        let (kind, known_only, contexts) = parse(&String::from_utf8(text).unwrap()).unwrap();
        assert_eq!((&*kind, known_only), ("counter", true));
        assert_eq!(contexts, [Named { whose, octets: vec![0, 255, 7] }]);
    }

    #[test]
    fn what_is_no_context_is_refused_by_its_line() {
        let head = r#"{"function":{"kind":"counter"}}"#;
        let cases = [
            ("", "there is no line that says which function it is"),
            (r#"{"context":{"whose":{"user":"a"},"octets":""}}"#, "line 1: first the function"),
            (&format!("{head}\n{head}"), "line 2: first the function"),
            (&format!("{head}\n{{\"end\":{{\"count\":0}}}}"), "line 2: first the function"),
            (
                &format!(
                    "{head}\n{{\"context\":{{\"whose\":{{\"user\":\"a\"}},\"octets\":\"*\"}}}}"
                ),
                "line 2: Invalid symbol",
            ),
        ];
        for (text, said) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
