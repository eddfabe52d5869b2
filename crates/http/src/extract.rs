//! What handlers take out of a request. Each does what its namesake in axum does, and
//! refuses a request that does not fit with a [problem](crate::problem).

use axum::extract::{self, FromRequest, FromRequestParts, Request, rejection};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::Failure;

/// A body in JSON, of a request or of an answer.
#[derive(Debug)]
pub struct Json<T>(pub T);

/// A body of text.
#[derive(Debug)]
pub struct Text(pub String);

/// The query of a request.
#[derive(Debug)]
pub struct Query<T>(pub T);

/// The variable parts of a path.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Json<T>, Failure> {
        let read = axum::Json::from_request(request, state).await;
        let refused =
            |error: rejection::JsonRejection| Failure::new(error.status(), error.body_text());
        read.map(|axum::Json(value)| Json(value)).map_err(refused)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Text, Failure> {
        let read = String::from_request(request, state).await;
        let refused =
            |error: rejection::StringRejection| Failure::new(error.status(), error.body_text());
        read.map(Text).map_err(refused)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, Failure> {
        let read = extract::Query::from_request_parts(parts, state).await;
        let refused =
            |error: rejection::QueryRejection| Failure::new(error.status(), error.body_text());
        read.map(|extract::Query(value)| Query(value)).map_err(refused)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Failure> {
        let read = extract::Path::from_request_parts(parts, state).await;
        let refused =
            |error: rejection::PathRejection| Failure::new(error.status(), error.body_text());
        read.map(|extract::Path(value)| Path(value)).map_err(refused)
    }
}
