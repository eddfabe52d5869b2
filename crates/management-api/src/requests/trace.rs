//! `POST /v1/trace`: the way of packets, as lines of JSON.

use std::collections::BTreeMap;

use axum::extract::State as Shared;
use axum::response::Response;
use weft_dataplane::trace::Sighting;
use weft_function::{PacketMetadata, TagValues};
use weft_http::extract::Json;
use weft_http::pieces::JSON_LINES;
use weft_http::problem::Failure;
use weft_node::Agent;

use crate::api::{End, Line, Question, Step};
use crate::state::State;
use crate::watch::{Record, follow, is_last};

/// Traces packets as they pass, until as many were seen as were asked for, or the client
/// goes.
#[utoipa::path(
    post,
    path = "/v1/trace",
    request_body = Question,
    responses(
        (
            status = 200,
            description = "Steps of packets, one a line, and behind the last how it ended",
            body = Line,
            content_type = "application/jsonl",
        ),
        (status = 400, description = "The question cannot be read"),
        (status = 413, description = "The body is too long"),
        (status = 415, description = "The body is not announced as JSON"),
        (status = 422, description = "The question is not one"),
        (status = 429, description = "Too many traces, captures and listeners"),
    ),
)]
pub(crate) async fn trace(
    Shared(state): Shared<State>,
    Json(question): Json<Question>,
) -> Result<Response, Failure> {
    follow(state, question, Lines, JSON_LINES).await
}

struct Lines;

impl Record for Lines {
    type Words = Step;

    fn words(agent: &Agent, sighting: &Sighting) -> Step {
        let user = sighting.metadata.user;
        Step {
            packet: sighting.packet,
            time: sighting.time,
            place: agent.point_text(sighting.point),
            last: is_last(sighting.point),
            user: (user != PacketMetadata::NONE).then(|| agent.user_name(user)),
            tags: tags(agent, &sighting.metadata),
            length: sighting.length,
            bytes: hex(&sighting.bytes),
        }
    }

    fn begin(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn write(&mut self, _: &Sighting, step: Step, piece: &mut Vec<u8>) {
        push(&Line::Step(step), piece);
    }

    fn end(&mut self, packets: u64, missed: u64) -> Vec<u8> {
        let mut line = Vec::new();
        push(&Line::End(End { packets, missed }), &mut line);
        line
    }
}

fn push(line: &Line, piece: &mut Vec<u8>) {
    // Texts and numbers: there is nothing that JSON could not say.
    if serde_json::to_writer(&mut *piece, line).is_ok() {
        piece.push(b'\n');
    }
}

/// The tags that say something: names that have a value, and numbers that are
/// not 0.
fn tags(agent: &Agent, metadata: &PacketMetadata) -> BTreeMap<String, String> {
    let tags = agent.blueprint().tags.iter().zip(metadata.tags);
    tags.filter_map(|((name, values), value)| {
        let text = match values {
            TagValues::Named(names) => names.get(value as usize)?.clone(),
            TagValues::Number if value == 0 => return None,
            TagValues::Number => value.to_string(),
        };
        Some((name.to_owned(), text))
    })
    .collect()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}
