//! Clients that connect and say nothing, or not enough, keep the others from nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Builder;
use weft_http::connection::{Persistence, serve_local, serve_remote};

/// A good request is answered within this time, before the server gives silent ones up.
const SOON: Duration = Duration::from_secs(4);
const SILENT: usize = 1000;
/// How long a connection over TCP may last.
const LONGEST: Duration = Duration::from_secs(60);

/// Serves on a socket and over TCP, in a thread that ends with the process.
fn serve(socket: &Path) -> SocketAddr {
    // A thousand connections have two ends each.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let local = std::os::unix::net::UnixListener::bind(socket).unwrap();
    let remote = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = remote.local_addr().unwrap();
    local.set_nonblocking(true).unwrap();
    remote.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let app = Router::new().route("/", get(async || "here")).route("/slow", get(slow));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let remote = tokio::net::TcpListener::from_std(remote).unwrap();
            let terms = (Persistence::OneRequest, LONGEST);
            tokio::spawn(serve_remote(remote, None, app.clone(), terms));
            let local = tokio::net::UnixListener::from_std(local).unwrap();
            serve_local(local, app).await;
        });
    });
    address
}

async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_millis(1500)).await;
    "late"
}

/// Asks for `path`; the answer, and how long it took.
fn ask(mut stream: impl Read + Write, path: &str) -> (String, Duration) {
    let begin = Instant::now();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer, begin.elapsed())
}

/// What the nth of many clients says, which is no complete request.
fn beginning(nth: usize) -> &'static [u8] {
    [b"".as_slice(), b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX: "][nth % 3]
}

#[test]
fn a_thousand_silent_connections_over_tcp_hold_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let address = serve(&folder.path().join("socket"));
    let silent: Vec<_> = (0..SILENT)
        .map(|nth| {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may have been ended already.
            let _ = stream.write_all(beginning(nth));
            stream
        })
        .collect();
    let begin = Instant::now();
    let (answer, _) = ask(TcpStream::connect(address).unwrap(), "/");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    drop(silent);
}

#[test]
fn a_thousand_silent_connections_on_the_socket_hold_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    serve(&socket);
    let silent: Vec<_> = (0..SILENT)
        .map(|nth| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            let _ = stream.write_all(beginning(nth));
            stream
        })
        .collect();
    let begin = Instant::now();
    let (answer, _) = ask(UnixStream::connect(&socket).unwrap(), "/");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    drop(silent);
}

#[test]
fn a_request_that_is_being_answered_keeps_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let address = serve(&socket);
    let asked = [
        std::thread::spawn(move || ask(TcpStream::connect(address).unwrap(), "/slow").0),
        std::thread::spawn(move || ask(UnixStream::connect(&socket).unwrap(), "/slow").0),
    ];
    std::thread::sleep(Duration::from_millis(200));
    let silent: Vec<_> = (0..SILENT).map(|_| TcpStream::connect(address).unwrap()).collect();
    for answer in asked {
        let answer = answer.join().unwrap();
        assert!(answer.ends_with("late"), "{answer}");
    }
    drop(silent);
}

#[test]
fn one_source_cannot_take_all_places() {
    let folder = tempfile::tempdir().unwrap();
    let address = serve(&folder.path().join("socket"));
    // All of them are busy for a while.
    let busy: Vec<_> = (0..100)
        .filter_map(|_| {
            let mut stream = TcpStream::connect(address).ok()?;
            stream.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
            Some(stream)
        })
        .collect();
    let begin = Instant::now();
    let other = std::net::SocketAddr::from(([127, 0, 0, 2], 0));
    let (answer, _) = ask(connect_from(other, address), "/");
    assert!(answer.ends_with("here"), "{answer}");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    drop(busy);
}

/// Connects from an address of our own.
fn connect_from(own: SocketAddr, to: SocketAddr) -> TcpStream {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(own).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}
