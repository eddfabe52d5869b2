//! `POST /v1/capture`: packets as a pcapng file, with an interface for each
//! place at which they were seen.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State as Shared;
use axum::response::Response;
use weft_dataplane::trace::Sighting;
use weft_http::extract::Json;
use weft_http::problem::Failure;
use weft_node::Agent;

use crate::api::Question;
use crate::pcapng::Pcapng;
use crate::state::State;
use crate::watch::{Record, follow};

/// The media type of pcapng, which has none that is registered.
const PCAPNG: &str = "application/x-pcapng";

/// Captures packets as they pass, until as many were seen as were asked for, or the client
/// goes.
#[utoipa::path(
    post,
    path = "/v1/capture",
    request_body = Question,
    responses(
        (
            status = 200,
            description = "A pcapng file, with an interface for each place",
            body = Vec<u8>,
            content_type = "application/x-pcapng",
        ),
        (status = 400, description = "The question cannot be read"),
        (status = 413, description = "The body is too long"),
        (status = 415, description = "The body is not announced as JSON"),
        (status = 422, description = "The question is not one"),
        (status = 429, description = "Too many traces, captures and listeners"),
    ),
)]
pub(crate) async fn capture(
    Shared(state): Shared<State>,
    Json(question): Json<Question>,
) -> Result<Response, Failure> {
    let uptime = state.ask(|agent| agent.snapshot().uptime).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = (now.as_nanos() as u64).saturating_sub(uptime);
    // Writing to memory cannot fail.
    let file = Pcapng::new(Vec::new()).map_err(Failure::bad)?;
    follow(state, question, Capture { start, file }, PCAPNG).await
}

struct Capture {
    /// When the node started, in nanoseconds since the beginning of 1970.
    start: u64,
    file: Pcapng<Vec<u8>>,
}

impl Record for Capture {
    type Words = String;

    fn words(agent: &Agent, sighting: &Sighting) -> String {
        agent.point_text(sighting.point)
    }

    fn begin(&mut self) -> Vec<u8> {
        std::mem::take(self.file.output())
    }

    fn write(&mut self, sighting: &Sighting, place: String, piece: &mut Vec<u8>) {
        let time = self.start + sighting.time;
        // Writing to memory cannot fail.
        let _ = self.file.packet(&place, time, sighting.length, &sighting.bytes);
        piece.append(self.file.output());
    }

    fn end(&mut self, packets: u64, missed: u64) -> Vec<u8> {
        if missed > 0 {
            tracing::warn!(packets, missed, "a capture was read too slowly");
        }
        Vec::new()
    }
}
