//! The API of a node: an input says which request is made, and its body. Above all
//! `POST /v1/function-moves`, where other nodes' messages come.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tempfile::TempDir;
use weft_functions::KINDS;
use weft_management_api::{Listening, Options, Serving};
use weft_mobility_protocol::function_move::{FunctionStep, Side};
use weft_mobility_protocol::{Envelope, Epoch, Incarnation, Message, NodeId};
use weft_node::{Node, Running};
use weft_node_config as config;

use crate::support::eal;

const NODE: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: asked}
memory: {packets: 8191}
ports:
  access: {device: 'ring:asked-access', direction: uplink}
  core: {device: 'ring:asked-core', direction: downlink}
workers: {polling: adaptive}
functions:
  count: {function: counter}
users:
  - {name: ue, count: 4, match: {ipv4: 10.0.0.1}}
rules: |
  from access -> count
  from count -> core
  from core -> access
";

/// Requests that are answered at once.
const REQUESTS: [&str; 10] = [
    "POST /v1/function-moves",
    "PUT /v1/configuration",
    "PATCH /v1/bearers",
    "POST /v1/bearers",
    "PUT /v1/functions/count/composition",
    "GET /v1/functions/count/move",
    "POST /v1/radio",
    "GET /v1/users?first=1&count=2",
    "GET /metrics",
    "POST /v1/nothing",
];

struct Asked {
    stream: BufReader<UnixStream>,
    socket: std::path::PathBuf,
    _running: (Running, Serving, TempDir),
}

thread_local! {
    /// Threads of the node live as long as the process.
    static ASKED: &'static RefCell<Asked> = Box::leak(Box::new(RefCell::new(Asked::new())));
}

impl Asked {
    fn new() -> Asked {
        let eal = eal();
        let blueprint =
            config::read(NODE, "asked.yaml", KINDS).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let node = Node::build(eal, blueprint).expect("the node builds");
        let folder = TempDir::new().expect("a folder");
        let socket = folder.path().join("asked.sock");
        let options = Options {
            node: "asked".to_owned(),
            socket: socket.clone(),
            metrics: None,
            page: None,
            kinds: KINDS,
            calibration: None,
        };
        let listening = Listening::claim(&options).expect("a socket");
        let serving = listening.serve(node.handle()).expect("a thread");
        let running = node.start(eal).expect("threads");
        Asked { stream: connect(&socket), socket, _running: (running, serving, folder) }
    }

    /// Makes a request; the status of the answer.
    fn ask(&mut self, request: &str, kind: &str, body: &[u8]) -> u16 {
        let head = format!(
            "{request} HTTP/1.1\r\nHost: node\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let sent = self.stream.get_mut().write_all(&[head.as_bytes(), body].concat());
        sent.expect("the node takes a request");
        let (mut status, mut length, mut closes) = (0, 0, false);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("the node answers");
            assert!(!line.is_empty(), "the node hung up: {request}");
            let line = line.trim_end().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().expect("a status");
            }
            if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.parse().expect("a length");
            }
            closes |= line == "connection: close";
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).expect("a whole answer");
        if closes {
            self.stream = connect(&self.socket);
        }
        status
    }
}

fn connect(socket: &std::path::Path) -> BufReader<UnixStream> {
    let stream = UnixStream::connect(socket).expect("the node listens");
    stream.set_read_timeout(Some(Duration::from_secs(50))).expect("a time limit");
    BufReader::new(stream)
}

/// A message of a coordinator, with these octets of contexts.
fn message(what: u8, octets: &[u8]) -> Vec<u8> {
    let piece = || weft_mobility_protocol::function_move::Piece {
        number: u32::from(what >> 6),
        is_last: what & 0x20 != 0,
        count: 1,
        octets: octets.to_vec(),
    };
    let step = match what & 7 {
        0 | 1 => FunctionStep::Prepare { side: Side::Target, kind: "counter".to_owned() },
        2 => FunctionStep::Prepare { side: Side::Source, kind: "counter".to_owned() },
        3 | 4 => FunctionStep::Contexts(piece()),
        5 => FunctionStep::Fetch(u32::from(what >> 6)),
        6 => FunctionStep::Release,
        _ => FunctionStep::Abort,
    };
    // As the node makes its number of its name (FNV-1a).
    let node = |hash: u32, octet: u8| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193);
    let envelope = Envelope {
        from: NodeId(5),
        from_incarnation: Incarnation(1),
        to: NodeId("asked".bytes().fold(0x811c_9dc5, node)),
        to_incarnation: Incarnation(0),
        message: Message::FunctionMove {
            function: "count".to_owned(),
            epoch: Epoch(1 + u64::from(what >> 3 & 3)),
            step,
        },
    };
    let mut out = Vec::new();
    envelope.emit(&mut out).expect("a piece that is short");
    out
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let [which, rest @ ..] = bytes else { return };
    ASKED.with(|asked| {
        let mut asked = asked.borrow_mut();
        let octets = "application/octet-stream";
        if which & 0x80 != 0 {
            // A move in order, with contexts that are anything.
            let mut body = message(which & 0x18, &[]);
            let mut rest = rest;
            while let Some((what, octets)) = crate::support::record(&mut rest) {
                body.extend(message(what & !0x18 | which & 0x18, octets));
            }
            assert_eq!(asked.ask(REQUESTS[0], octets, &body), 200);
            return;
        }
        let request = REQUESTS[usize::from(which % 16) % REQUESTS.len()];
        let kind = if which & 0x10 != 0 { octets } else { "application/json" };
        let status = asked.ask(request, kind, rest);
        assert!((200..500).contains(&status), "{request}: {status}");
    });
}
