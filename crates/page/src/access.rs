//! Which clients may send which requests to the page's server.
//!
//! Requests that only read are granted to all; the others need the token of the server in
//! `Authorization: Bearer`, which no browser adds by itself, so a page of others cannot make
//! one (CSRF). A `Host` that is neither an address nor a name of this machine is refused: a
//! page of others whose name leads here (DNS rebinding) reads nothing. Answers carry a
//! `Content-Security-Policy` that allows files of this server alone.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::extract::Request;
use axum::http::header::{
    AUTHORIZATION, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;
use weft_http::problem::Failure;
use weft_mobility_transport::Token;

/// Headers of every answer. Nothing but files of this server is loaded, no script stands in a
/// document, and no other page has this one in a frame.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// What a server grants.
#[derive(Debug)]
pub struct Access {
    /// What requests that change something, or show packets, must know; without one they are
    /// refused.
    token: Option<Token>,
    /// Names of this machine, besides its addresses.
    names: Vec<String>,
    /// Paths whose answers are ready: they cost the node nothing.
    ready: &'static [&'static str],
    /// Other requests a second.
    rate: f64,
    bucket: Mutex<Bucket>,
    /// Where requests that are no mere questions are carried out.
    runtime: Handle,
}

/// Requests that may still come.
#[derive(Debug)]
struct Bucket {
    left: f64,
    since: Instant,
}

impl Access {
    /// Grants writes to those with the token, and answers under these names. Requests at the
    /// paths of `ready` have no rate; others have that beside it, of all clients together, and
    /// twice as many may come at once. Whatever is no mere question is carried out in
    /// `runtime`, whose thread has no low priority.
    pub fn new(
        token: Option<Token>,
        names: Vec<String>,
        (ready, rate): (&'static [&'static str], f64),
        runtime: Handle,
    ) -> Access {
        let bucket = Mutex::new(Bucket { left: 2.0 * rate, since: Instant::now() });
        Access { token, names, ready, rate, bucket, runtime }
    }

    /// Answers a request, or says why not.
    pub async fn admit(&self, request: Request, next: Next) -> Response {
        let mut response = match self.refusal(&request) {
            Some(refusal) => refusal.into_response(),
            None if is_question(request.method()) => next.run(request).await,
            // It goes on when the client has gone.
            None => match self.runtime.spawn(next.run(request)).await {
                Ok(response) => response,
                Err(_) => Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping")
                    .into_response(),
            },
        };
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    fn refusal(&self, request: &Request) -> Option<Failure> {
        let headers = request.headers();
        if !self.is_here(headers) {
            let detail = "this server has no such name: use its address, or give the name with \
                          --http-name";
            return Some(Failure::new(StatusCode::MISDIRECTED_REQUEST, detail));
        }
        if !is_question(request.method())
            && let Some(refusal) = self.refuse_write(headers)
        {
            return Some(refusal);
        }
        let path = request.uri().path();
        let asks = path.starts_with("/v1/") && !self.ready.contains(&path);
        (asks && !self.take()).then(|| {
            Failure::new(StatusCode::TOO_MANY_REQUESTS, "too many requests at once: wait a second")
        })
    }

    fn refuse_write(&self, headers: &HeaderMap) -> Option<Failure> {
        let from_elsewhere = headers.get(ORIGIN).is_some_and(|origin| {
            let origin = origin.as_bytes();
            let place = origin.strip_prefix(b"https://").or(origin.strip_prefix(b"http://"));
            place != headers.get(HOST).map(HeaderValue::as_bytes)
        });
        if from_elsewhere {
            let detail = "the request comes from another page";
            return Some(Failure::new(StatusCode::FORBIDDEN, detail));
        }
        let Some(token) = &self.token else {
            let detail = "this page is read-only: it was started without --http-token-file";
            return Some(Failure::new(StatusCode::FORBIDDEN, detail));
        };
        let said = headers.get(AUTHORIZATION).and_then(|said| {
            let (scheme, said) = said.as_bytes().split_at_checked("Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then_some(said)
        });
        let refusal = || Failure::new(StatusCode::UNAUTHORIZED, "the token is missing or wrong");
        (!said.is_some_and(|said| token.is(said))).then(refusal)
    }

    /// Whether the host that the client names is this machine.
    fn is_here(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = host.to_str() else { return false };
        let name = without_port(host);
        let is_address =
            name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
        let is_local = name.eq_ignore_ascii_case("localhost");
        is_address || is_local || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Takes a request from the bucket.
    fn take(&self) -> bool {
        let now = Instant::now();
        // No code panics while it has the lock.
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.saturating_duration_since(bucket.since).as_secs_f64();
        bucket.left = (bucket.left + since * self.rate).min(2.0 * self.rate);
        bucket.since = now;
        let has = bucket.left >= 1.0;
        if has {
            bucket.left -= 1.0;
        }
        has
    }
}

/// Whether a request only reads (RFC 9110 §9.2.1).
fn is_question(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// `HOST` of `HOST:PORT`, with the brackets of an IPv6 address.
fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::{get, post};
    use tokio::runtime::Builder;
    use tower_service::Service;

    use super::*;

    const SECRET: &str = "0123456789abcdef";

    /// The status of one request after another to a server with or without a token.
    fn answers(token: bool, requests: Vec<Request>) -> Vec<Response> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let token = token.then(|| Token::new(SECRET).unwrap());
            let names = vec!["edge.example".to_owned()];
            let access =
                Arc::new(Access::new(token, names, (&["/v1/ready"], 50.0), Handle::current()));
            let mut app: Router = Router::new()
                .route("/v1/asked", get(async || "asked"))
                .route("/v1/ready", get(async || "ready"))
                .route("/v1/write", post(async || "written"))
                .layer(from_fn(move |request, next| {
                    let access = access.clone();
                    async move { access.admit(request, next).await }
                }));
            let mut all = Vec::new();
            for request in requests {
                all.push(app.call(request).await.unwrap());
            }
            all
        })
    }

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn status(token: bool, request: Request) -> u16 {
        answers(token, vec![request])[0].status().as_u16()
    }

    #[test]
    fn only_addresses_and_known_names_are_answered() {
        let known = [
            "127.0.0.1:8080",
            "127.0.0.1",
            "[::1]:8080",
            "[2001:db8::1]",
            "localhost:1",
            "Edge.example:8080",
        ];
        for host in known {
            assert_eq!(
                status(false, request("GET", "/v1/ready", &[("host", host)])),
                200,
                "{host}"
            );
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "", "[::1].x:1", "a:b:c"] {
            assert_eq!(
                status(false, request("GET", "/v1/ready", &[("host", host)])),
                421,
                "{host}"
            );
        }
        assert_eq!(status(false, request("GET", "/v1/ready", &[])), 421);
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(status(false, request("GET", "/v1/ready", &two)), 421);
    }

    #[test]
    fn a_write_needs_the_token_and_comes_from_this_page() {
        let here = ("host", "127.0.0.1:80");
        let right = format!("Bearer {SECRET}");
        let (right, wrong) = (("authorization", &*right), ("authorization", "Bearer wrong"));
        let write = |headers: &[(&str, &str)]| request("POST", "/v1/write", headers);
        assert_eq!(status(false, write(&[here, right])), 403);
        assert_eq!(status(true, write(&[here])), 401);
        assert_eq!(status(true, write(&[here, wrong])), 401);
        assert_eq!(status(true, write(&[here, right])), 200);
        let origin = |origin| status(true, write(&[here, right, ("origin", origin)]));
        assert_eq!(origin("http://127.0.0.1:80"), 200);
        assert_eq!(origin("https://127.0.0.1:80"), 200);
        for elsewhere in ["http://evil.example", "null", "http://127.0.0.1:81", ""] {
            assert_eq!(origin(elsewhere), 403, "{elsewhere}");
        }
    }

    #[test]
    fn what_is_not_ready_has_a_rate_and_every_answer_has_its_policy() {
        let here = [("host", "127.0.0.1")];
        let asked = (0..200).map(|_| request("GET", "/v1/asked", &here)).collect();
        let asked = answers(false, asked);
        let refused: Vec<_> = asked
            .iter()
            .filter(|answer| answer.status() == StatusCode::TOO_MANY_REQUESTS)
            .collect();
        assert!((20..=100).contains(&refused.len()), "{}", refused.len());
        assert!(refused.iter().all(|answer| answer.headers().contains_key(RETRY_AFTER)));
        let ready = (0..200).map(|_| request("GET", "/v1/ready", &here)).collect();
        for answer in answers(false, ready) {
            assert_eq!(answer.status(), StatusCode::OK);
            let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"));
        }
    }
}
