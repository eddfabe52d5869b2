//! Answers that are made once and sent to many clients.

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use serde::Serialize;

/// A body with its media type and its entity tag (RFC 9110 §8.8.3). Clones share the body.
#[derive(Clone, Debug)]
pub struct Prepared {
    body: Bytes,
    kind: HeaderValue,
    mark: HeaderValue,
}

impl Prepared {
    /// A body of a media type.
    pub fn new(kind: &'static str, body: Bytes) -> Prepared {
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        // An entity tag of digits is a header value.
        let mark = HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish()));
        let mark = mark.unwrap_or(HeaderValue::from_static("\"\""));
        Prepared { body, kind: HeaderValue::from_static(kind), mark }
    }

    /// A value as JSON.
    pub fn json(value: &impl Serialize) -> Prepared {
        // JSON can represent all that is served, so this cannot fail.
        let body = serde_json::to_vec(value).unwrap_or_default();
        Prepared::new("application/json", body.into())
    }

    /// Answers a request: with the body, or that the client's copy is still right. Clients ask
    /// again each time.
    pub fn answer(&self, request: &HeaderMap) -> Response {
        let head = [
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (CONTENT_TYPE, self.kind.clone()),
            (ETAG, self.mark.clone()),
        ];
        match self.is_known(request) {
            true => (StatusCode::NOT_MODIFIED, head).into_response(),
            false => (head, Body::from(self.body.clone())).into_response(),
        }
    }

    /// Whether the client has this body (RFC 9110 §13.1.2, by weak comparison).
    fn is_known(&self, request: &HeaderMap) -> bool {
        let known = request.get_all(IF_NONE_MATCH).iter();
        let mut marks = known.flat_map(|known| known.as_bytes().split(|octet| *octet == b','));
        marks.any(|mark| {
            let mark = mark.trim_ascii();
            mark == b"*" || mark.strip_prefix(b"W/").unwrap_or(mark) == self.mark.as_bytes()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_still_right_is_not_sent_again() {
        let prepared = Prepared::json(&[1, 2]);
        let answer = prepared.answer(&HeaderMap::new());
        assert_eq!(answer.status(), StatusCode::OK);
        let mark = answer.headers()[ETAG].to_str().unwrap().to_owned();
        assert_ne!(mark, Prepared::json(&[1, 3]).mark.to_str().unwrap());
        let status = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(IF_NONE_MATCH, line.parse().unwrap());
            }
            prepared.answer(&headers).status().as_u16()
        };
        let [weak, listed] = [format!("W/{mark}"), format!("\"a\" , {mark}")];
        for lines in [&[&*mark][..], &["*"], &[&*weak], &[&*listed], &["\"a\"", &*mark]] {
            assert_eq!(status(lines), 304, "{lines:?}");
        }
        for lines in [&["\"a\""][..], &[""], &[","], &["W/"], &[mark.trim_matches('"')]] {
            assert_eq!(status(lines), 200, "{lines:?}");
        }
    }
}
