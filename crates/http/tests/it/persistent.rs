//! Connections that carry one request after another, and clients that misuse them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use tokio::runtime::Builder;
use weft_http::connection::{Persistence, serve_remote};

/// Requests of one connection, as docs/security.md has it.
const MOST_REQUESTS: usize = 1000;
/// Connections of one address.
const OF_SOURCE: usize = 32;
/// Octets of an answer that no buffer of the kernel holds.
const LARGE: usize = 32 << 20;
/// A test that waits so long has failed.
const FOREVER: Duration = Duration::from_secs(120);

static ANSWERED: AtomicUsize = AtomicUsize::new(0);

/// Serves over TCP at loopback, in a thread that ends with the process.
fn serve(address: &str) -> Option<SocketAddr> {
    let listener = std::net::TcpListener::bind(address).ok()?;
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let counted = async || {
            ANSWERED.fetch_add(1, Ordering::SeqCst);
            "counted"
        };
        let app = Router::new()
            .route("/", get(async || "here"))
            .route("/counted", get(counted))
            .route("/large", get(async || vec![b'x'; LARGE]))
            .route("/body", post(async |body: String| body));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            serve_remote(listener, None, app, (Persistence::ManyRequests, FOREVER)).await;
        });
    });
    Some(address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(FOREVER)).unwrap();
    stream
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
}

/// An answer with its length in its head: head and body. None where the connection ends.
fn answer(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut head, mut octet) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut octet) {
            Ok(0) => return None,
            Ok(_) => head.push(octet[0]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    Some((head, body))
}

/// Whether the server ends the connection without another answer.
fn is_ended(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => rest.is_empty(),
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_connection_carries_many_requests_and_then_ends_by_both_ip_versions() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        // A machine may be without IPv6.
        let Some(address) = serve(address) else { continue };
        let mut stream = connect(address);
        for nth in 1..=MOST_REQUESTS {
            stream.write_all(request("/").as_bytes()).unwrap();
            let (head, body) = answer(&mut stream).unwrap();
            assert_eq!(body, b"here");
            assert_eq!(head.contains("connection: close"), nth == MOST_REQUESTS, "{nth}: {head}");
        }
        assert!(is_ended(&mut stream));
    }
}

#[test]
fn a_client_of_http_1_0_may_ask_for_more_and_is_told_of_the_last_answer() {
    let mut stream = connect(serve("127.0.0.1:0").unwrap());
    for nth in 1..=MOST_REQUESTS {
        stream.write_all(b"GET / HTTP/1.0\r\nHost: x\r\nConnection: Keep-Alive\r\n\r\n").unwrap();
        let (head, body) = answer(&mut stream).unwrap();
        assert_eq!(body, b"here");
        assert_eq!(head.contains("keep-alive"), nth < MOST_REQUESTS, "{nth}: {head}");
        assert_eq!(head.contains("close"), nth == MOST_REQUESTS, "{nth}: {head}");
    }
    assert!(is_ended(&mut stream));
}

#[test]
fn a_client_that_says_so_gets_one_answer() {
    let address = serve("127.0.0.1:0").unwrap();
    for head in ["HTTP/1.1\r\nHost: x\r\nConnection: close", "HTTP/1.0\r\nHost: x"] {
        let mut stream = connect(address);
        write!(stream, "GET / {head}\r\n\r\n").unwrap();
        assert_eq!(answer(&mut stream).unwrap().1, b"here");
        assert!(is_ended(&mut stream));
    }
}

#[test]
fn requests_that_do_not_wait_for_answers_are_answered_in_order_and_no_more_than_allowed() {
    let address = serve("127.0.0.1:0").unwrap();
    let mut stream = connect(address);
    let mut sender = stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        for _ in 0..2 * MOST_REQUESTS {
            let both = request("/counted")
                + "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody";
            // The server ends the connection on the way.
            if sender.write_all(both.as_bytes()).is_err() {
                return;
            }
        }
    });
    let mut answers = 0;
    while let Some((_, body)) = answer(&mut stream) {
        assert_eq!(body, [b"counted".as_slice(), b"body"][answers % 2]);
        answers += 1;
    }
    sending.join().unwrap();
    // The last may be lost with the octets behind it: the connection is reset (RFC 9112 §9.6).
    assert!((1..=MOST_REQUESTS).contains(&answers), "{answers}");
    assert!(ANSWERED.load(Ordering::SeqCst) <= MOST_REQUESTS / 2);
}

#[test]
fn a_connection_that_is_idle_is_ended() {
    let address = serve("127.0.0.1:0").unwrap();
    let mut idle = connect(address);
    idle.write_all(request("/").as_bytes()).unwrap();
    answer(&mut idle).unwrap();
    // An incomplete head behind an answer has no more time.
    let mut slow = connect(address);
    slow.write_all((request("/") + "GET / HTTP/1.1\r\nX: ").as_bytes()).unwrap();
    answer(&mut slow).unwrap();
    assert!(is_ended(&mut idle));
    assert!(is_ended(&mut slow));
}

#[test]
fn idle_connections_make_room() {
    let address = serve("127.0.0.1:0").unwrap();
    let mut streams: Vec<_> = (0..4 * OF_SOURCE)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(request("/").as_bytes()).unwrap();
            assert_eq!(answer(&mut stream).unwrap().1, b"here");
            stream
        })
        .collect();
    let mut open = 0;
    for stream in &mut streams[..3 * OF_SOURCE] {
        stream.set_nonblocking(true).unwrap();
        let waits = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        open += usize::from(stream.read(&mut [0]).is_err_and(waits));
    }
    assert_eq!(open, 0);
}

#[test]
fn a_client_that_does_not_read_loses_its_place_and_one_that_is_slow_does_not() {
    let address = serve("127.0.0.1:0").unwrap();
    let deaf: Vec<_> = (0..OF_SOURCE - 1)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(request("/large").as_bytes()).unwrap();
            stream
        })
        .collect();
    // It reads some, with pauses, while others come for whom an idle one would be ended.
    let mut slow = connect(address);
    slow.write_all(request("/large").as_bytes()).unwrap();
    let mut others = Vec::new();
    let (mut read, mut buffer) = (0, vec![0; 2 << 20]);
    while read < LARGE {
        if others.len() < 12 {
            std::thread::sleep(Duration::from_secs(1));
            others.push(connect(address));
        }
        read += slow.read(&mut buffer).unwrap();
    }
    // By now the deaf have no places.
    let mut stream = connect(address);
    stream.write_all(request("/").as_bytes()).unwrap();
    assert_eq!(answer(&mut stream).unwrap().1, b"here");
    drop(deaf);
}

#[test]
fn a_client_that_only_listens_on_costs_nothing_more() {
    let address = serve("127.0.0.1:0").unwrap();
    for text in [request("/"), String::new(), "GET / HT".to_owned()] {
        let mut stream = connect(address);
        stream.write_all(text.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // An answer or none; the end in any case.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
}
