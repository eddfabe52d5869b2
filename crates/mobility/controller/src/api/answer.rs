//! How refusals of the engine are answered.

use axum::http::StatusCode;
use weft_http::problem::Failure;
use weft_mobility_protocol::controller::Refusal;

use crate::engine::{OrderError, Stopped};

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, stopped)
    }
}

impl From<OrderError> for Failure {
    fn from(error: OrderError) -> Failure {
        match error {
            OrderError::Refused(refusal) => refused(refusal),
            OrderError::Same | OrderError::Anchor => Failure::bad(error),
            OrderError::Cordoned => Failure::conflict(error),
            OrderError::Nowhere | OrderError::Few | OrderError::Unmeasured => {
                Failure::new(StatusCode::SERVICE_UNAVAILABLE, error)
            }
        }
    }
}

/// What the machine refuses.
pub fn refused(refusal: Refusal) -> Failure {
    let status = match refusal {
        Refusal::UnknownUser => StatusCode::NOT_FOUND,
        Refusal::UnknownNode => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::KnownUser | Refusal::AlreadyThere | Refusal::Busy => StatusCode::CONFLICT,
    };
    Failure::new(status, refusal)
}
