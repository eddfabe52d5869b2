//! What an owner sends to its standby: a copy of all records, then changes.
//!
//! Messages may be lost, so what was sent is kept until it has been reached, and is sent again
//! when nothing has been reached for a while. No more is under way than [`WINDOW`].

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use weft_mobility_protocol::Incarnation;
use weft_mobility_protocol::standby::Position;
use weft_state::{Feed, Piece};

/// Octets that are under way; changes that belong together may be more.
const WINDOW: usize = 4 << 20;
/// After so long without progress what is under way is sent again, in nanoseconds.
const STALLED: u64 = 500_000_000;

/// A message of records: where they belong, whether it is the last of what belongs together.
pub(crate) type Out = (Position, Piece);

/// What goes to the standby.
#[derive(Debug, Default)]
pub(crate) enum Sending {
    /// It has not said how far it is.
    #[default]
    Nothing,
    /// A copy was asked for.
    Asked,
    /// A copy.
    Copy(Copy),
    /// Changes.
    Changes(Changes),
}

#[derive(Debug)]
pub(crate) struct Copy {
    base: u64,
    source: Receiver<Piece>,
    /// Pieces that were not reached, and the number of the first.
    window: VecDeque<Piece>,
    first: u64,
    /// How many of the window were sent.
    sent: usize,
    octets: usize,
    progress: u64,
}

#[derive(Debug)]
pub(crate) struct Changes {
    base: u64,
    reached: u64,
    /// The next to be sent.
    next: u64,
    octets: usize,
    sizes: VecDeque<usize>,
    /// The last one that was sent ends what belongs together.
    is_whole: bool,
    progress: u64,
}

impl Sending {
    /// A copy comes from `source`; it is of what was there behind change `base`.
    pub fn copy(base: u64, source: Receiver<Piece>, now: u64) -> Sending {
        let window = VecDeque::new();
        Sending::Copy(Copy { base, source, window, first: 0, sent: 0, octets: 0, progress: now })
    }

    /// Changes behind a position.
    pub fn changes(at: Position, now: u64) -> Sending {
        Sending::Changes(Changes {
            base: at.base,
            reached: at.number,
            next: at.number + 1,
            octets: 0,
            sizes: VecDeque::new(),
            is_whole: true,
            progress: now,
        })
    }

    /// Puts into `out` what may be sent now. False where it cannot go on: the feed does not
    /// reach back as far as the standby is, or the copy has broken off.
    pub fn pump(&mut self, stream: Incarnation, feed: &Feed, now: u64, out: &mut Vec<Out>) -> bool {
        match self {
            Sending::Nothing | Sending::Asked => true,
            Sending::Copy(copy) => copy.pump(stream, now, out),
            Sending::Changes(changes) => changes.pump(stream, feed, now, out),
        }
    }
}

impl Copy {
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The standby has the pieces before `number`. False when it has fewer than it had.
    pub fn reached(&mut self, number: u64, now: u64) -> bool {
        while self.first < number
            && self.sent > 0
            && let Some(piece) = self.window.pop_front()
        {
            self.octets -= piece.octets.len();
            (self.first, self.sent) = (self.first + 1, self.sent - 1);
            self.progress = now;
        }
        number >= self.first
    }

    fn pump(&mut self, stream: Incarnation, now: u64, out: &mut Vec<Out>) -> bool {
        if self.sent > 0 && now - self.progress > STALLED {
            (self.sent, self.progress) = (0, now);
        }
        let mut has_ended = self.window.back().is_some_and(|piece| piece.is_last);
        while self.octets < WINDOW && !has_ended {
            use std::sync::mpsc::TryRecvError;
            match self.source.try_recv() {
                Ok(piece) => {
                    has_ended = piece.is_last;
                    self.octets += piece.octets.len();
                    self.window.push_back(piece);
                }
                Err(TryRecvError::Empty) => break,
                // It ended without its last piece.
                Err(TryRecvError::Disconnected) => return !self.window.is_empty(),
            }
        }
        if self.sent == 0 {
            self.progress = now;
        }
        for (at, piece) in self.window.iter().enumerate().skip(self.sent) {
            let number = self.first + at as u64;
            out.push((Position { stream, whole: false, base: self.base, number }, piece.clone()));
        }
        self.sent = self.window.len();
        true
    }
}

impl Changes {
    /// The standby has the changes up to `number`.
    pub fn reached(&mut self, number: u64, now: u64) {
        while self.reached < number
            && let Some(size) = self.sizes.pop_front()
        {
            self.octets -= size;
            (self.reached, self.progress) = (self.reached + 1, now);
        }
    }

    fn pump(&mut self, stream: Incarnation, feed: &Feed, now: u64, out: &mut Vec<Out>) -> bool {
        if !self.sizes.is_empty() && now - self.progress > STALLED {
            (self.next, self.octets, self.progress) = (self.reached + 1, 0, now);
            (self.is_whole, self.sizes) = (true, VecDeque::new());
        }
        while self.octets < WINDOW || !self.is_whole {
            let Some(piece) = feed.piece(self.next) else {
                return feed.reaches_back_to(self.next - 1);
            };
            if self.sizes.is_empty() {
                self.progress = now;
            }
            self.octets += piece.octets.len();
            self.sizes.push_back(piece.octets.len());
            self.is_whole = piece.is_last;
            let at = Position { stream, whole: true, base: self.base, number: self.next };
            out.push((at, piece));
            self.next += 1;
        }
        true
    }
}
