//! `POST /v1/function-moves`: what other nodes say about functions that this one serves.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::time::Duration;

use axum::body::Bytes;
use weft_http::problem::Failure;
use weft_mobility_protocol::Envelope;
use weft_mobility_protocol::function_move::{MoveKey, Output, Participant, Piece};

use super::pieces::{Reader, check, envelopes, write};
use super::{Context, Timers};
use crate::state::stopped;

/// Moves that other nodes decide.
pub(super) struct Serving {
    machine: Participant,
    sessions: HashMap<MoveKey, Session>,
    timers: Timers,
}

/// A move that is under way.
struct Session {
    kind: String,
    reader: Option<Reader>,
}

impl Serving {
    pub fn new(machine: Participant) -> Serving {
        Serving { machine, sessions: HashMap::new(), timers: Timers::default() }
    }
}

/// Takes messages of another node that moves a function, and answers them.
#[utoipa::path(
    post,
    path = "/v1/function-moves",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (
            status = 200,
            description = "The answers",
            body = Vec<u8>,
            content_type = "application/octet-stream",
        ),
        (status = 400, description = "The body is not made of messages"),
        (status = 413, description = "The body is too long"),
    ),
)]
pub(crate) async fn message(state: Context, octets: Bytes) -> Result<Vec<u8>, Failure> {
    let envelopes = envelopes(&octets).map_err(Failure::bad)?;
    let mut answers = Vec::new();
    for envelope in envelopes {
        // What has begun goes on when the other node has gone.
        let served = tokio::spawn(serve(state.clone(), envelope)).await;
        answers.extend(served.map_err(|_| stopped())?);
    }
    Ok(answers)
}

/// Gives the machine an input; what it asks for.
fn input(
    state: &Context,
    give: impl FnOnce(&mut Participant, &mut Vec<Output>),
) -> VecDeque<Output> {
    let mut out = Vec::new();
    give(&mut state.moves.serving().machine, &mut out);
    out.into()
}

async fn serve(state: Context, envelope: Envelope) -> Vec<u8> {
    let mut answers = Vec::new();
    let out = input(&state, |machine, out| machine.message(envelope, out));
    carry_out(&state, out, &mut answers).await;
    answers
}

/// Does what the machine asks for, and what it asks for then.
async fn carry_out(state: &Context, mut todo: VecDeque<Output>, answers: &mut Vec<u8>) {
    while let Some(output) = todo.pop_front() {
        let more = match output {
            Output::Send(_, envelope) => {
                if let Err(error) = envelope.emit(answers) {
                    tracing::warn!(%error, "an answer cannot be written");
                }
                continue;
            }
            Output::SetTimer(key, after) => {
                let number = state.moves.serving().timers.set(key.clone());
                tokio::spawn(fire(state.clone(), key, number, after));
                continue;
            }
            Output::CancelTimer(key) => {
                state.moves.serving().timers.cancel(&key);
                continue;
            }
            Output::Check(key, kind) => {
                let checked = check(state, &key.function, kind.clone()).await;
                if checked.is_ok() {
                    let session = Session { kind, reader: None };
                    state.moves.serving().sessions.insert(key.clone(), session);
                }
                input(state, |machine, out| machine.checked(&key, checked, out))
            }
            Output::Read(key, number) => {
                let piece = read(state, &key, number).await;
                input(state, |machine, out| machine.read(&key, piece, out))
            }
            Output::Write(key, piece) => {
                let what = (piece.number, piece.is_last);
                let kind = state.moves.serving().sessions.get(&key).map(|one| one.kind.clone());
                let written = write(state, &key.function, kind.unwrap_or_default(), piece, false);
                let written = written.await;
                input(state, |machine, out| machine.written(&key, what, written, out))
            }
            Output::Ended(key) => {
                state.moves.serving().sessions.remove(&key);
                continue;
            }
            _ => continue,
        };
        todo.extend(more);
    }
}

async fn read(state: &Context, key: &MoveKey, number: u32) -> Result<Piece, String> {
    let taken = state.moves.serving().sessions.get_mut(key).and_then(|one| one.reader.take());
    let mut reader = match taken {
        Some(reader) => reader,
        None => Reader::new(state, &key.function).await?,
    };
    let piece = reader.piece(state, number).await;
    if let Some(session) = state.moves.serving().sessions.get_mut(key) {
        session.reader = Some(reader);
    }
    piece
}

/// A timer; boxed, as what it leads to may set a timer again.
fn fire(
    state: Context,
    key: MoveKey,
    number: u64,
    after: Duration,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        tokio::time::sleep(after).await;
        let fires = state.moves.serving().timers.fires(&key, number);
        if fires {
            let out = input(&state, |machine, out| machine.timer(&key, out));
            carry_out(&state, out, &mut Vec::new()).await;
        }
    })
}
