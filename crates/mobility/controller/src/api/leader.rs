//! Who leads: requests that only the leader can answer are sent there.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, LOCATION, RETRY_AFTER};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use weft_http::problem::Failure;

use super::state::Shared;
use crate::standing::Standing;

/// What each replica answers itself.
const OWN: [&str; 3] = ["/v1/controller", "/v1/openapi.json", "/metrics"];

/// Sends a request to the leader (307, RFC 9110 section 15.4.8), unless that is this replica.
pub async fn follow(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let own = OWN.contains(&request.uri().path());
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
