//! `POST /v1/trace` and `/v1/capture`: packets as they pass, until as many were
//! seen as were asked for, or the client goes.
//!
//! A worker gives what it sees to a bounded channel and never waits. Here a
//! thread takes it from there, lets the agent put it into words, and hands it to
//! the connection; a client that reads too slowly misses packets, and is told
//! how many.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use axum::response::Response;
use hyper::body::Bytes;
use tokio::runtime;
use tokio::sync::mpsc::{Sender, channel};
use weft_dataplane::trace::{Point, Sighting, Watch};
use weft_http::pieces::Pieces;
use weft_http::problem::Failure;
use weft_node::{Agent, Handle, Watching};

use crate::api::Question;
use crate::question::watch;
use crate::state::State;

/// Sightings that are put into words at once.
const BATCH: usize = 64;
/// Pieces of the answer that wait for the connection.
pub(crate) const PIECES: usize = 64;
/// How often it is looked whether the client is still there; also how long
/// packets have to come to the end of their way when no more are wanted.
pub(crate) const QUIET: Duration = Duration::from_millis(200);
/// How long a client may take to read a piece.
const PATIENCE: Duration = Duration::from_secs(10);

/// How sightings are written down.
pub(crate) trait Record: Send + 'static {
    /// What the agent says about a sighting.
    type Words: Send + 'static;

    /// Asks the agent.
    fn words(agent: &Agent, sighting: &Sighting) -> Self::Words;

    /// What comes before the first sighting.
    fn begin(&mut self) -> Vec<u8>;

    /// Adds one sighting to `piece`.
    fn write(&mut self, sighting: &Sighting, words: Self::Words, piece: &mut Vec<u8>);

    /// What comes behind the last: packets seen, and sightings missed.
    fn end(&mut self, packets: u64, missed: u64) -> Vec<u8>;
}

/// Watches what `question` asks for, and answers with records of that media type.
pub(crate) async fn follow<R: Record>(
    state: State,
    question: Question,
    record: R,
    kind: &'static str,
) -> Result<Response, Failure> {
    let place = state.watcher()?;
    let count = question.count;
    let start = move |agent: &mut Agent| {
        let watch = watch(&question, agent)?;
        Ok::<_, String>((agent.watch(&watch), watch))
    };
    let (watching, watch) = state.ask(start).await?.map_err(Failure::bad)?;
    let (sender, receiver) = channel(PIECES);
    let out = Out { sender, runtime: runtime::Handle::current() };
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let number = watching.number;
        let handle = state.handle;
        // A client that has gone, or a node: both mean that it is over.
        let _ = Follow { handle: handle.clone(), watching, out, record }.run(&watch, count);
        let _ = handle.ask(move |agent| agent.unwatch(number));
    });
    Ok(Pieces(receiver).answer(kind))
}

/// It is over: the client has gone, or the node has stopped.
pub(crate) struct Over;

struct Follow<R> {
    handle: Handle,
    watching: Watching,
    out: Out,
    record: R,
}

impl<R: Record> Follow<R> {
    fn run(mut self, watch: &Watch, count: Option<u64>) -> Result<(), Over> {
        self.out.send(self.record.begin())?;
        let mut wanted =
            Wanted { count, point: watch.point, ways: HashMap::new(), open: 0, seen: 0 };
        while !wanted.is_complete() {
            match self.watching.sightings.recv_timeout(QUIET) {
                Ok(first) => {
                    let more = self.watching.sightings.try_iter().take(BATCH - 1);
                    let batch = std::iter::once(first).chain(more).collect();
                    self.write(wanted.among(batch))?;
                }
                Err(RecvTimeoutError::Timeout) if wanted.has_begun_all() => break,
                Err(RecvTimeoutError::Timeout) => self.out.check()?,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Sightings missed behind the last wanted packet are of no interest.
        let missed = match wanted.is_complete() {
            true => 0,
            false => self.watching.missed.load(Ordering::Relaxed),
        };
        self.out.send(self.record.end(wanted.seen, missed))
    }

    fn write(&mut self, batch: Vec<Sighting>) -> Result<(), Over> {
        let asked = self.handle.ask(move |agent| {
            let words: Vec<_> = batch.iter().map(|one| R::words(agent, one)).collect();
            (batch, words)
        });
        let (batch, words) = asked.map_err(|_| Over)?;
        let mut piece = Vec::new();
        for (sighting, words) in batch.iter().zip(words) {
            self.record.write(sighting, words, &mut piece);
        }
        if piece.is_empty() { Ok(()) } else { self.out.send(piece) }
    }
}

/// Which packets are still wanted. Every worker has a tap that watches as many
/// as are wanted from all together.
struct Wanted {
    count: Option<u64>,
    point: Option<Point>,
    /// Whether the way of each packet has come to its end; only kept where a
    /// number of packets is wanted.
    ways: HashMap<u64, bool>,
    /// How many of them have not.
    open: usize,
    seen: u64,
}

impl Wanted {
    /// The sightings of wanted packets.
    fn among(&mut self, mut batch: Vec<Sighting>) -> Vec<Sighting> {
        batch.retain(|sighting| self.wants(sighting));
        batch
    }

    fn wants(&mut self, sighting: &Sighting) -> bool {
        let Some(count) = self.count else {
            self.seen += u64::from(self.begins(sighting.point));
            return true;
        };
        let known = self.ways.len() as u64;
        let ends = self.point.is_some() || is_last(sighting.point);
        match self.ways.get_mut(&sighting.packet) {
            Some(ended) => {
                self.open -= usize::from(ends && !*ended);
                *ended |= ends;
            }
            None if known == count => return false,
            None => {
                self.ways.insert(sighting.packet, ends);
                self.open += usize::from(!ends);
                self.seen += 1;
            }
        }
        true
    }

    /// Whether a packet is seen for the first time at `point`.
    fn begins(&self, point: Point) -> bool {
        self.point.is_some() || matches!(point, Point::Received(_))
    }

    fn has_begun_all(&self) -> bool {
        self.count.is_some_and(|count| self.ways.len() as u64 >= count)
    }

    fn is_complete(&self) -> bool {
        self.has_begun_all() && self.open == 0
    }
}

/// Whether a packet's way ends at `point`.
pub(crate) fn is_last(point: Point) -> bool {
    matches!(point, Point::Leaving(_) | Point::Dropped(_) | Point::DroppedBy(_))
}

/// The way to the connection.
pub(crate) struct Out {
    pub sender: Sender<Bytes>,
    pub runtime: runtime::Handle,
}

impl Out {
    pub fn send(&self, piece: Vec<u8>) -> Result<(), Over> {
        let sent = self.sender.send_timeout(piece.into(), PATIENCE);
        self.runtime.block_on(sent).map_err(|_| Over)
    }

    pub fn check(&self) -> Result<(), Over> {
        if self.sender.is_closed() { Err(Over) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_function::PacketMetadata;

    fn sighting(packet: u64, point: Point) -> Sighting {
        let (metadata, bytes) = (PacketMetadata::default(), Vec::new());
        Sighting { packet, point, time: 0, metadata, length: 0, bytes }
    }

    fn wanted(count: Option<u64>, point: Option<Point>) -> Wanted {
        Wanted { count, point, ways: HashMap::new(), open: 0, seen: 0 }
    }

    #[test]
    fn a_trace_is_complete_when_all_its_packets_have_come_to_their_end() {
        let mut wanted = wanted(Some(2), None);
        for packet in [1, 2] {
            assert!(!wanted.has_begun_all());
            assert!(wanted.wants(&sighting(packet, Point::Received(0))));
        }
        assert!(wanted.has_begun_all() && !wanted.is_complete());
        // That of another worker's tap, which does not know of ours.
        assert!(!wanted.wants(&sighting(1 << 48, Point::Received(0))));
        assert!(wanted.wants(&sighting(2, Point::Leaving(1))));
        assert!(wanted.wants(&sighting(1, Point::Before(0))));
        assert!(!wanted.is_complete());
        assert!(wanted.wants(&sighting(1, Point::DroppedBy(0))));
        assert!(wanted.is_complete());
        assert_eq!(wanted.seen, 2);
    }

    #[test]
    fn at_one_place_each_packet_is_seen_once() {
        let place = Point::Before(3);
        let mut wanted = wanted(Some(2), Some(place));
        assert!(wanted.wants(&sighting(7, place)) && !wanted.is_complete());
        assert!(wanted.wants(&sighting(9, place)) && wanted.is_complete());
    }

    #[test]
    fn without_a_number_there_is_no_end_and_nothing_is_remembered() {
        let mut wanted = wanted(None, None);
        for packet in 0..10 {
            assert!(wanted.wants(&sighting(packet, Point::Received(0))));
            assert!(wanted.wants(&sighting(packet, Point::Leaving(0))));
        }
        assert!(!wanted.is_complete() && wanted.ways.is_empty());
        assert_eq!(wanted.seen, 10);
    }
}
