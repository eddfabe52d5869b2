//! A connection behind its greeting: messages in, messages out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;
use weft_mobility_protocol::{Envelope, NodeId, ParseError};

use crate::channel::Channel;
use crate::hub::{Event, Hub, Peer, count};
use crate::note::{self, Note};
use crate::stream::Ended;

/// Octets that are read at once, and written under one time limit.
const CHUNK: usize = 64 << 10;
/// Messages that are written at once.
const BATCH: usize = 64;
/// What is sent when there is nothing to say. No message begins so.
const ALIVE: u8 = 0;

/// Reads messages of `node` until the connection ends.
pub(crate) async fn read(
    hub: &Arc<Hub>,
    node: NodeId,
    peer: &Peer,
    mut stream: ReadHalf<Channel>,
) -> Ended {
    let mut buffer = Vec::new();
    loop {
        buffer.reserve(CHUNK);
        match timeout(hub.silence(node), stream.read_buf(&mut buffer)).await {
            Err(_) => return Ended::Silence,
            Ok(Ok(0)) => return Ended::Closed,
            Ok(Err(error)) => return error.into(),
            Ok(Ok(_)) => peer.hear(),
        }
        match take_messages(hub, node, &buffer) {
            Ok(taken) => _ = buffer.drain(..taken),
            Err(ended) => return ended,
        }
    }
}

/// Passes on the whole messages that the buffer begins with; returns their octets.
fn take_messages(hub: &Arc<Hub>, node: NodeId, buffer: &[u8]) -> Result<usize, Ended> {
    let mut taken = 0;
    while let Some(&first) = buffer.get(taken) {
        if first == ALIVE {
            taken += 1;
            continue;
        }
        if first == note::TAG {
            let Some((note, length)) = Note::parse(&buffer[taken..])? else { break };
            hub.noted(node, note)?;
            taken += length;
            continue;
        }
        let (envelope, length) = match Envelope::parse(&buffer[taken..]) {
            Err(ParseError::Truncated) => break,
            parsed => parsed?,
        };
        let (from, to) = (envelope.from, envelope.to);
        if from != node || to != hub.options.node {
            return Err(Ended::Foreign { from, to });
        }
        taken += length;
        count(&hub.counters.received);
        hub.tell(Event::Message(envelope));
    }
    Ok(taken)
}

/// Writes what waits for the peer, `first` before all, until the connection ends.
pub(crate) async fn write(
    hub: &Hub,
    peer: &Peer,
    first: Option<Vec<u8>>,
    messages: &mut Receiver<Vec<u8>>,
    mut stream: WriteHalf<Channel>,
) -> Ended {
    let timing = &hub.options.timing;
    let mut batch: Vec<_> = first.into_iter().collect();
    loop {
        if batch.is_empty() {
            match timeout(hub.alive(), messages.recv_many(&mut batch, BATCH)).await {
                Ok(0) => return Ended::Closed,
                Ok(_) => take(hub, peer, &batch),
                Err(_) => batch.push(vec![ALIVE]),
            }
        }
        let octets = batch.concat();
        if let Err(ended) = write_all(&mut stream, &octets, timing.silence).await {
            return ended;
        }
        let said = batch.iter().filter(|message| message.first() != Some(&ALIVE)).count();
        hub.counters.sent.fetch_add(said as u64, Ordering::Relaxed);
        batch.clear();
    }
}

/// Messages do not wait any more.
pub(crate) fn take(hub: &Hub, peer: &Peer, messages: &[Vec<u8>]) {
    hub.no_longer_waits(peer, messages.iter().map(Vec::len).sum());
}

async fn write_all(
    stream: &mut WriteHalf<Channel>,
    octets: &[u8],
    patience: Duration,
) -> Result<(), Ended> {
    for chunk in octets.chunks(CHUNK) {
        timeout(patience, stream.write_all(chunk)).await.map_err(|_| Ended::Unread)??;
    }
    timeout(patience, stream.flush()).await.map_err(|_| Ended::Unread)??;
    Ok(())
}
