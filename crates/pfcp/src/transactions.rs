//! Requests and responses: retransmission and repetition (§6.4).

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use weft_node::bearer::Numbered;

/// A request of a control plane: where it came from, and its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionId {
    pub from: SocketAddr,
    pub sequence: u32,
}

impl Hash for TransactionId {
    /// In one piece: field by field takes three times as long, and each message is looked up
    /// some times.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let address = match self.from.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let rest = u64::from(self.from.port()) << 32 | u64::from(self.sequence);
        let mut octets = [0; 24];
        octets[..16].copy_from_slice(&address.octets());
        octets[16..].copy_from_slice(&rest.to_le_bytes());
        state.write(&octets);
    }
}

/// Requests of control planes, and the responses to them, for when they are repeated.
pub(crate) struct Incoming {
    entries: Numbered<TransactionId, Entry>,
    /// When entries are forgotten, first the next.
    order: VecDeque<(u64, TransactionId, u64)>,
    /// Numbers entries, since a sequence number comes again.
    serial: u64,
    most: usize,
    /// How long a response is kept, ns.
    keep: u64,
    /// Those of a request are the same in the node's next life. Who finds two requests with one
    /// digest gains nothing: the second is taken for a repetition of its own first.
    digests: foldhash::quality::FixedState,
}

struct Entry {
    serial: u64,
    digest: u64,
    response: Option<Box<[u8]>>,
}

/// What is known of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen<'r> {
    /// It is new, and noted.
    New,
    /// It is being worked on.
    Pending,
    /// It was answered so.
    Answered(&'r [u8]),
    /// It is new, and there is no room to note it.
    NoRoom,
}

impl Incoming {
    /// At most so many, each for so many nanoseconds.
    pub fn new(most: usize, keep: u64) -> Incoming {
        Incoming {
            entries: Numbered::default(),
            order: VecDeque::new(),
            serial: 0,
            most,
            keep,
            digests: foldhash::quality::FixedState::default(),
        }
    }

    /// A request has come. One with the number of another one, but of another content, is new:
    /// its sender has started again.
    pub fn note(&mut self, id: TransactionId, content: impl Hash, now: u64) -> Seen<'_> {
        self.forget(now);
        let digest = self.digests.hash_one(content);
        let known = self.entries.get(&id).filter(|entry| entry.digest == digest);
        if let Some(entry) = known {
            if entry.response.is_none() {
                return Seen::Pending;
            }
            // Looked up again, since a reference that is returned lives on.
            return match self.entries.get(&id).and_then(|entry| entry.response.as_deref()) {
                Some(response) => Seen::Answered(response),
                None => Seen::Pending,
            };
        }
        if self.entries.len() >= self.most && !self.evict() {
            return Seen::NoRoom;
        }
        self.serial += 1;
        let entry = Entry { serial: self.serial, digest, response: None };
        self.entries.insert(id, entry);
        self.order.push_back((now.saturating_add(self.keep), id, self.serial));
        Seen::New
    }

    /// The response to a request; the digest of what the request said.
    pub fn answer(&mut self, id: TransactionId, response: &[u8]) -> Option<u64> {
        let entry = self.entries.get_mut(&id)?;
        entry.response = Some(response.into());
        Some(entry.digest)
    }

    /// A response of the node's last life. It is kept as if it had been given now.
    pub fn restore(&mut self, id: TransactionId, digest: u64, response: &[u8], now: u64) {
        if self.entries.len() < self.most || self.evict() {
            self.serial += 1;
            let entry = Entry { serial: self.serial, digest, response: Some(response.into()) };
            self.entries.insert(id, entry);
            self.order.push_back((now.saturating_add(self.keep), id, self.serial));
        }
    }

    /// All that are answered, the oldest first: the digest of what was asked, and the response.
    pub fn answered(&self) -> impl Iterator<Item = (TransactionId, u64, &[u8])> {
        self.order.iter().filter_map(|(_, id, serial)| {
            let entry = self.entries.get(id).filter(|entry| entry.serial == *serial)?;
            Some((*id, entry.digest, entry.response.as_deref()?))
        })
    }

    /// How many are noted.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn forget(&mut self, now: u64) {
        while self.order.front().is_some_and(|(until, ..)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, id, serial)) = self.order.pop_front()
            && self.entries.get(&id).is_some_and(|entry| entry.serial == serial)
        {
            self.entries.remove(&id);
        }
    }

    /// Makes room by forgetting the oldest response; false if the oldest request is still
    /// worked on.
    fn evict(&mut self) -> bool {
        while self.entries.len() >= self.most {
            let Some((_, id, serial)) = self.order.front() else { return false };
            let entry = self.entries.get(id).filter(|entry| entry.serial == *serial);
            if entry.is_some_and(|entry| entry.response.is_none()) {
                return false;
            }
            self.forget_first();
        }
        true
    }
}

/// Requests of the node that wait for their response. `W` says what they are about.
pub(crate) struct Outgoing<W> {
    entries: Numbered<u32, Pending<W>>,
    /// When requests are sent again, first the next. All wait equally long.
    order: VecDeque<(u64, u32, u8)>,
    next: u32,
    most: usize,
    t1: u64,
    n1: u8,
}

struct Pending<W> {
    to: SocketAddr,
    octets: Box<[u8]>,
    sent: u8,
    what: W,
}

/// What became of a request whose time was up.
pub(crate) enum Overdue<W> {
    /// It is sent again.
    Again(SocketAddr, Box<[u8]>),
    /// It was sent N1 times.
    Failed(W),
}

impl<W> Outgoing<W> {
    /// At most so many at once; T1 in nanoseconds, and N1.
    pub fn new(most: usize, t1: u64, n1: u8, first: u32) -> Outgoing<W> {
        let (entries, order) = (Numbered::default(), VecDeque::new());
        Outgoing { entries, order, next: first & 0x00ff_ffff, most, t1, n1 }
    }

    /// A sequence number that no request has; none if too many wait.
    pub fn sequence(&mut self) -> Option<u32> {
        if self.entries.len() >= self.most {
            return None;
        }
        loop {
            let sequence = self.next;
            self.next = (self.next + 1) & 0x00ff_ffff;
            if !self.entries.contains_key(&sequence) {
                return Some(sequence);
            }
        }
    }

    /// Notes a request that is sent now.
    pub fn note(&mut self, sequence: u32, to: SocketAddr, octets: &[u8], what: W, now: u64) {
        self.entries.insert(sequence, Pending { to, octets: octets.into(), sent: 1, what });
        self.order.push_back((now.saturating_add(self.t1), sequence, 1));
    }

    /// Whether no request that waits has this sequence number.
    pub fn is_free(&self, sequence: u32) -> bool {
        self.entries.len() < self.most && !self.entries.contains_key(&sequence)
    }

    /// Those that wait, the oldest first: octets, and what they are about.
    pub fn in_order(&self) -> Vec<(&[u8], &W)> {
        let mut all: Vec<_> = self.entries.iter().collect();
        all.sort_by_key(|(sequence, _)| sequence.wrapping_sub(self.next) & 0x00ff_ffff);
        all.into_iter().map(|(_, pending)| (&*pending.octets, &pending.what)).collect()
    }

    /// Whether one waits of which that is so.
    pub fn any(&self, is_so: impl Fn(&W) -> bool) -> bool {
        self.entries.values().any(|pending| is_so(&pending.what))
    }

    /// A response has come from an address. What the request was about, if there is one.
    pub fn answered(&mut self, from: SocketAddr, sequence: u32) -> Option<W> {
        let pending = self.entries.get(&sequence)?;
        if pending.to.ip() != from.ip() {
            return None;
        }
        self.entries.remove(&sequence).map(|pending| pending.what)
    }

    /// The next request whose time is up by now.
    pub fn overdue(&mut self, now: u64) -> Option<Overdue<W>> {
        while self.order.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, sequence, sent) = self.order.pop_front()?;
            let Some(pending) = self.entries.get_mut(&sequence) else { continue };
            if pending.sent != sent {
                continue;
            }
            if sent >= self.n1 {
                return self.entries.remove(&sequence).map(|pending| Overdue::Failed(pending.what));
            }
            pending.sent += 1;
            self.order.push_back((now.saturating_add(self.t1), sequence, sent + 1));
            return Some(Overdue::Again(pending.to, pending.octets.clone()));
        }
        None
    }

    /// When the next request is due.
    pub fn next_time(&self) -> Option<u64> {
        self.order.front().map(|(at, ..)| *at)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u32) -> TransactionId {
        TransactionId { from: "10.0.0.1:8805".parse().unwrap(), sequence }
    }

    #[test]
    fn fault_49_repeated_requests_are_answered_alike() {
        let mut incoming = Incoming::new(8, 100);
        assert_eq!(incoming.note(id(1), b"one", 0), Seen::New);
        assert_eq!(incoming.note(id(1), b"one", 1), Seen::Pending);
        incoming.answer(id(1), b"answer");
        assert_eq!(incoming.note(id(1), b"one", 2), Seen::Answered(b"answer"));
        // Another content under the number: the sender has started again.
        assert_eq!(incoming.note(id(1), b"other", 3), Seen::New);
        // The first entry's time is up, and the second's is not.
        assert_eq!(incoming.note(id(1), b"other", 101), Seen::Pending);
        assert_eq!(incoming.note(id(1), b"other", 104), Seen::New);
    }

    #[test]
    fn fault_48_the_table_of_requests_is_bounded() {
        let mut incoming = Incoming::new(3, 1000);
        for sequence in 0..3 {
            assert_eq!(incoming.note(id(sequence), b"x", 0), Seen::New);
        }
        // All are worked on: a fourth finds no room, and those that are known go on.
        assert_eq!(incoming.note(id(3), b"x", 1), Seen::NoRoom);
        assert_eq!(incoming.note(id(0), b"x", 1), Seen::Pending);
        incoming.answer(id(0), b"done");
        assert_eq!(incoming.note(id(3), b"x", 2), Seen::New);
        assert_eq!(incoming.len(), 3);
        for sequence in 4..10_000 {
            incoming.answer(id(sequence - 1), b"done");
            incoming.answer(id(1), b"done");
            incoming.answer(id(2), b"done");
            incoming.note(id(sequence), b"x", 3);
            assert!(incoming.len() <= 3 && incoming.order.len() <= 4);
        }
    }

    #[test]
    fn requests_are_sent_n1_times() {
        let peer: SocketAddr = "10.0.0.1:8805".parse().unwrap();
        let mut outgoing = Outgoing::new(2, 10, 3, 0xff_ffff);
        let sequence = outgoing.sequence().unwrap();
        assert_eq!(sequence, 0xff_ffff);
        outgoing.note(sequence, peer, b"x", "first", 0);
        assert!(outgoing.overdue(9).is_none());
        assert!(matches!(outgoing.overdue(10), Some(Overdue::Again(to, _)) if to == peer));
        assert!(outgoing.overdue(10).is_none());
        assert!(matches!(outgoing.overdue(20), Some(Overdue::Again(..))));
        assert!(matches!(outgoing.overdue(30), Some(Overdue::Failed("first"))));
        assert_eq!(outgoing.len(), 0);
        // Sequence numbers begin anew, and an answer from elsewhere is none.
        let sequence = outgoing.sequence().unwrap();
        assert_eq!(sequence, 0);
        outgoing.note(sequence, peer, b"x", "second", 40);
        assert_eq!(outgoing.answered("10.0.0.2:8805".parse().unwrap(), 0), None);
        assert_eq!(outgoing.answered(peer, 0), Some("second"));
        assert_eq!(outgoing.answered(peer, 0), None);
        assert!(outgoing.overdue(100).is_none());
    }
}
