//! One peer: who dials it, and what is done with a connection.
//!
//! Between a node and its controller there is one connection, which the node
//! dials and both speak on. Two nodes may both have something to say: each dials
//! the other and speaks on its own connection, so that it never matters who was
//! first. A newer connection of the same kind takes the place of the one before,
//! which its end may have given up without a word.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::Instant;
use weft_mobility_protocol::NodeId;

use crate::channel::Channel;
use crate::dial::dial;
use crate::hub::{Event, Hub, NewPeer, Peer, count};
use crate::link;
use crate::stream::Ended;

/// Longest pause of who looks for the one of several controllers that leads: two of them are
/// part of a failover.
const SEARCH: Duration = Duration::from_millis(100);

/// Reasons that the log tells why there is no connection, each once.
const MOST_COMPLAINTS: usize = 16;

/// Starts the task that sees to a peer for as long as the transport lives.
pub(crate) fn attend(runtime: &Handle, new: NewPeer) {
    let hub = new.hub.clone();
    let serving = runtime.spawn(serve(new));
    runtime.spawn(async move {
        if serving.await.is_err_and(|error| error.is_panic()) {
            hub.broken.notify_one();
        }
    });
}

async fn serve(NewPeer { hub, node, peer, messages, streams }: NewPeer) {
    let pause = hub.options.timing.pause;
    let attendance = |messages, streams, speaks| Attendance {
        hub: hub.clone(),
        node,
        peer: peer.clone(),
        messages,
        streams,
        speaks,
        first: None,
        pause,
        brief: false,
        complaints: BTreeSet::new(),
    };
    if [hub.options.node, node].contains(&NodeId::CONTROLLER) {
        return attendance(messages, streams, true).run().await;
    }
    // Neither channel ever has anything.
    let (_silent, no_messages) = mpsc::channel(1);
    let (_unused, no_streams) = mpsc::channel(1);
    let outgoing = attendance(messages, no_streams, true);
    let incoming = attendance(no_messages, streams, false);
    tokio::join!(outgoing.run(), incoming.run());
}

struct Attendance {
    hub: Arc<Hub>,
    node: NodeId,
    peer: Arc<Peer>,
    messages: Receiver<Vec<u8>>,
    /// Connections that the peer has made.
    streams: Receiver<Channel>,
    /// Messages go this way.
    speaks: bool,
    /// Was taken from the messages, and waits for a connection.
    first: Option<Vec<u8>>,
    pause: Duration,
    /// The last connection did not last.
    brief: bool,
    /// What was said in the log about dialling since there was a connection.
    complaints: BTreeSet<String>,
}

impl Attendance {
    async fn run(mut self) {
        while let Some(stream) = self.connection().await {
            self.attend(stream).await;
        }
    }

    /// Waits for a connection, or makes one; `None` when the transport has ended.
    async fn connection(&mut self) -> Option<Channel> {
        loop {
            if std::mem::take(&mut self.brief)
                && let Some(stream) = self.rest().await
            {
                return Some(stream);
            }
            // The controller is never to be without us.
            if self.node != NodeId::CONTROLLER && self.first.is_none() {
                tokio::select! {
                    stream = self.streams.recv() => return stream,
                    message = self.messages.recv() => {
                        let message = message?;
                        link::take(&self.hub, &self.peer, std::slice::from_ref(&message));
                        self.first = Some(message);
                    }
                }
            }
            let Some(place) = self.peer.place() else {
                // It was connected a moment ago; what is said now is said again.
                self.first = None;
                continue;
            };
            match dial(&self.hub, &place).await {
                Ok(stream) => return Some(stream),
                Err(ended) => self.complain(&place.address, &ended),
            }
            self.brief = true;
            if self.node == NodeId::CONTROLLER {
                self.hub.next_controller(&self.peer, &place.address);
            }
        }
    }

    /// Says once in the log why there is no connection.
    fn complain(&mut self, address: &str, ended: &Ended) {
        let complaint = ended.to_string();
        if !self.complaints.contains(&complaint) && self.complaints.len() < MOST_COMPLAINTS {
            tracing::warn!(node = self.node.0, address, "no connection: {complaint}");
            self.complaints.insert(complaint);
        }
    }

    /// Pauses, longer each time, unless the peer dials us.
    async fn rest(&mut self) -> Option<Channel> {
        let (pause, options) = (self.pause, &self.hub.options);
        let most = match self.node == NodeId::CONTROLLER && options.controllers.len() > 1 {
            true => options.timing.pause_most.min(SEARCH),
            false => options.timing.pause_most,
        };
        self.pause = (pause * 2).min(most);
        tokio::select! {
            stream = self.streams.recv() => stream,
            () = tokio::time::sleep(pause) => None,
        }
    }

    /// Uses a connection, and those that come in its place, until there is none.
    async fn attend(&mut self, stream: Channel) {
        let since = Instant::now();
        self.complaints.clear();
        self.note(true);
        let mut newest = Some(stream);
        while let Some(stream) = newest {
            newest = self.converse(stream).await;
        }
        self.note(false);
        let timing = &self.hub.options.timing;
        self.brief = self.peer.place().is_some() && since.elapsed() < timing.pause_most;
        if !self.brief {
            self.pause = timing.pause;
        }
    }

    fn note(&self, connected: bool) {
        if self.speaks {
            self.peer.connected.store(connected, Ordering::Relaxed);
            let event = if connected { Event::Connected } else { Event::Lost };
            self.hub.tell(event(self.node));
        }
    }

    /// Uses a connection until it ends, or there is a newer one.
    async fn converse(&mut self, stream: Channel) -> Option<Channel> {
        stream.send_at_once();
        let from = stream.peer().map_or(String::new(), |address| address.to_string());
        let (reader, writer) = tokio::io::split(stream);
        let first = self.first.take();
        let ended = tokio::select! {
            ended = link::read(&self.hub, self.node, &self.peer, reader) => ended,
            ended = link::write(&self.hub, &self.peer, first, &mut self.messages, writer) => ended,
            newer = self.streams.recv() => return newer,
            () = self.hub.renewed.notified() => Ended::Renewed,
        };
        let node = self.node.0;
        if ended.is_violation() {
            count(&self.hub.counters.violations);
            tracing::warn!(node, from, "a connection was ended: {ended}");
        } else {
            tracing::info!(node, from, "a connection has ended: {ended}");
        }
        None
    }
}
