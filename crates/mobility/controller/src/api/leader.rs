//! Who leads: requests that only the leader can answer are sent there. An orchestrator learns
//! without a token whether there is one (Kubernetes, liveness and readiness probes).

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use weft_http::problem::Failure;

use super::state::Shared;
use crate::standing::Standing;

/// What each replica answers itself, beside probes.
const OWN: [&str; 3] = ["/v1/controller", "/v1/openapi.json", "/metrics"];

/// Paths of probes.
pub const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// Sends a request to the leader (307, RFC 9110 section 15.4.8), unless that is this replica.
pub async fn follow(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let own = OWN.contains(&path) || PROBES.contains(&path);
    let leader = match shared.site.standing() {
        Standing::Follows(leader) if !own => leader,
        _ => return next.run(request).await,
    };
    let Some(leader) = leader else {
        let reason = "no controller leads at the moment; ask again";
        let mut answer = Failure::new(StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        return answer;
    };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let location = HeaderValue::from_str(&format!("{}{path}", leader.address)).ok();
    match location.filter(|_| !leader.address.is_empty()) {
        Some(location) => {
            let reason = format!("{} leads, at {}", leader.name, leader.address);
            let refused = Failure::new(StatusCode::TEMPORARY_REDIRECT, reason);
            let mut answer = refused.into_response();
            answer.headers_mut().insert(LOCATION, location);
            answer
        }
        None => {
            let reason = format!("{} leads; ask there", leader.name);
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
        }
    }
}

/// What is answered where nothing is wrong.
const WELL: &str = "ok\n";

/// Whether the controller answers. It does not ask etcd, as a controller that is started again
/// would not find etcd either.
#[utoipa::path(
    get,
    path = "/healthz",
    responses((status = 200, description = "The controller answers", body = String)),
)]
pub async fn healthz() -> &'static str {
    WELL
}

/// Whether a request would find a leader: this replica, or another one that it knows.
#[utoipa::path(
    get,
    path = "/readyz",
    responses(
        (status = 200, description = "A replica leads, and this one knows it", body = String),
        (status = 503, description = "None leads that is known here"),
    ),
)]
pub async fn readyz(State(shared): State<Shared>) -> Result<&'static str, Failure> {
    match shared.site.standing() {
        Standing::Alone | Standing::Leads(..) | Standing::Follows(Some(_)) => Ok(WELL),
        Standing::Follows(None) => {
            let reason = "no controller leads that is known here";
            Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, reason))
        }
    }
}
