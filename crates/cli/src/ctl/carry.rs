//! Contexts of a function go from one node to another, while its packets wait at the node that
//! asks the other for it.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use weft_management_api::api::{Carried, ContextLine, Gate, Release};
use weft_management_api::client::{Client, ClientError};

use super::escaped;
use crate::failure::Failure;
use crate::number::counted;

/// Octets of contexts that are sent at once; a request may be four times as long.
const PIECE: usize = 1 << 20;

/// Lines that wait to be sent.
const LINES: usize = 1024;

/// What was carried.
pub struct Report {
    contexts: u64,
    waited: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contexts = counted(self.contexts, "context");
        let waited = self.waited.as_secs_f64() * 1e3;
        write!(f, ": {contexts} carried, its packets waited {waited:.1} ms")
    }
}

/// One of the two nodes.
pub struct Node {
    client: Client,
    /// The one that has the function for the other.
    is_peer: bool,
}

impl Node {
    /// The node that asks the other for the function.
    pub fn own(client: Client) -> Node {
        Node { client, is_peer: false }
    }

    /// The other one.
    pub fn peer(client: Client) -> Node {
        Node { client, is_peer: true }
    }

    fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        let body = serde_json::to_string(body).map_err(Failure::broken)?;
        self.client.post(path, body).map_err(|error| self.said(error))
    }

    fn write(&self, path: &str, lines: &[ContextLine]) -> Result<Carried, Failure> {
        let mut text = String::new();
        for line in lines {
            text += &serde_json::to_string(line).map_err(Failure::broken)?;
            text.push('\n');
        }
        self.client.post(path, text).map_err(|error| self.said(error))
    }

    fn listen(&self, path: &str, take: impl FnMut(&[u8]) -> bool) -> Result<(), Failure> {
        self.client.listen(path, take).map_err(|error| self.said(error))
    }

    fn said(&self, error: ClientError) -> Failure {
        let failure = Failure::from(error);
        match self.is_peer {
            true => Failure::input(format!("the other node: {}", failure.reason())),
            false => failure,
        }
    }
}

/// Takes a function to another node.
///
/// # Errors
/// Why it stays where it is.
pub fn there(near: &Node, peer: &Node, name: &str) -> Result<Report, Failure> {
    let path = format!("/v1/functions/{}", escaped(name));
    // Before anything waits: is it there, and the same?
    let head = head_of(near, &path)?;
    peer.write(&format!("{path}/contexts"), &[head])?;
    gated(near, &path, true, || copy(near, peer, &path, false))
}

/// Takes a function back, without contexts if there is no other node.
///
/// # Errors
/// Why it stays where it is.
pub fn back(near: &Node, peer: Option<&Node>, name: &str) -> Result<Report, Failure> {
    let path = format!("/v1/functions/{}", escaped(name));
    if let Some(peer) = peer {
        head_of(peer, &path)?;
    }
    gated(near, &path, false, || match peer {
        Some(peer) => copy(peer, near, &path, true),
        None => Ok(0),
    })
}

/// Lets the packets of a function wait for as long as `carry` takes.
fn gated(
    near: &Node,
    path: &str,
    goes: bool,
    carry: impl FnOnce() -> Result<u64, Failure>,
) -> Result<Report, Failure> {
    let begin = Instant::now();
    near.post::<()>(&format!("{path}/gate"), &Gate { goes })?;
    let carried = carry();
    let refusal = carried.as_ref().err().map(|failure| failure.reason().to_owned());
    let released = near.post::<()>(&format!("{path}/release"), &Release { refusal });
    let contexts = carried?;
    released?;
    Ok(Report { contexts, waited: begin.elapsed() })
}

/// The line that says what function it is.
fn head_of(node: &Node, path: &str) -> Result<ContextLine, Failure> {
    let mut text = Vec::new();
    node.listen(&format!("{path}/contexts"), |piece| {
        text.extend(piece);
        !text.contains(&b'\n')
    })?;
    let line = text.split(|octet| *octet == b'\n').next().unwrap_or_default();
    serde_json::from_slice(line).map_err(Failure::broken)
}

/// Copies all contexts; how many. Those whom `to` does not know are left out with `known_only`.
fn copy(from: &Node, to: &Node, path: &str, known_only: bool) -> Result<u64, Failure> {
    let path = &format!("{path}/contexts");
    let (send, read) = sync_channel(LINES);
    thread::scope(|scope| {
        let reader = scope.spawn(move || read_lines(from, path, &send));
        let written = write_lines(to, path, &read, known_only);
        // The receiver has gone: the reader ends.
        drop(read);
        let ended = reader.join().map_err(|_| Failure::broken("the reader has panicked"))?;
        // What the one has said explains what the other lacks.
        ended.and(written)
    })
}

/// Reads lines until there are no more, or the receiver has gone.
fn read_lines(from: &Node, path: &str, send: &SyncSender<ContextLine>) -> Result<(), Failure> {
    let (mut rest, mut wrong) = (Vec::new(), Ok(()));
    from.listen(path, |piece| {
        rest.extend(piece);
        while let Some(end) = rest.iter().position(|octet| *octet == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let line = serde_json::from_slice(&line).map_err(Failure::broken);
            match line.map(|line| send.send(line)) {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return false,
                Err(error) => {
                    wrong = Err(error);
                    return false;
                }
            }
        }
        true
    })?;
    wrong
}

fn write_lines(
    to: &Node,
    path: &str,
    read: &Receiver<ContextLine>,
    known_only: bool,
) -> Result<u64, Failure> {
    let cut = || Failure::broken("the contexts were cut off");
    let Ok(ContextLine::Function { kind, .. }) = read.recv() else { return Err(cut()) };
    let head = ContextLine::Function { kind, known_only };
    let (mut piece, mut octets, mut count) = (vec![head.clone()], 0, 0);
    loop {
        let line = read.recv().map_err(|_| cut())?;
        let is_end = match &line {
            ContextLine::Context { octets: context, .. } => {
                (octets, count) = (octets + context.len(), count + 1);
                piece.push(line);
                false
            }
            ContextLine::End { count: all } if *all == count => true,
            ContextLine::Failed(reason) => return Err(Failure::broken(reason)),
            _ => return Err(cut()),
        };
        if is_end || octets >= PIECE || piece.len() > LINES {
            to.write(path, &std::mem::replace(&mut piece, vec![head.clone()]))?;
            octets = 0;
        }
        if is_end {
            return Ok(count);
        }
    }
}
