//! Requests that wait for their answers: sequence numbers and repetition (TS 29.244 §6.4).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use foldhash::fast::RandomState;

use crate::Kind;

/// Sequence numbers have 24 bits.
const NUMBERS: u32 = 1 << 24;

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Pending {
    /// What it is.
    pub kind: Kind,
    /// Which session it is about.
    pub session: u32,
    /// When it was sent first, since the start.
    pub sent: Duration,
    /// Whether it is of the load, not of what comes before or behind it.
    pub is_load: bool,
    /// How often it was sent.
    attempts: u32,
    /// Its octets.
    octets: Box<[u8]>,
}

/// What a request is.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its kind.
    pub kind: Kind,
    /// Which session it is about.
    pub session: u32,
    /// Whether it is of the load.
    pub is_load: bool,
}

/// All that wait, in the order in which they are sent again.
#[derive(Debug)]
pub struct Transactions {
    t1: Duration,
    n1: u32,
    next: u32,
    pending: HashMap<u32, Pending, RandomState>,
    /// When, which, and at which attempt.
    due: VecDeque<(Duration, u32, u32)>,
    /// Numbers that were answered or given up, so that late answers are told from wrong ones.
    past: VecDeque<u32>,
}

/// What becomes of a request that got no answer in time.
pub enum Overdue<'a> {
    /// It is sent again: its kind, whether it is of the load, and its octets.
    Again(Kind, bool, &'a [u8]),
    /// It was sent often enough.
    Lost(Pending),
}

/// Answered requests that are remembered.
const PAST: usize = 4096;

impl Transactions {
    /// None yet; a request is sent again `n1` times, each after `t1`.
    pub fn new(t1: Duration, n1: u32) -> Transactions {
        let (pending, due, past) = (HashMap::default(), VecDeque::new(), VecDeque::new());
        Transactions { t1, n1, next: 0, pending, due, past }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// The sequence number of the next request: none that waits has it.
    pub fn number(&mut self) -> u32 {
        loop {
            self.next = (self.next + 1) % NUMBERS;
            if !self.pending.contains_key(&self.next) {
                return self.next;
            }
        }
    }

    /// Remembers a request that is sent `now`.
    pub fn add(&mut self, number: u32, request: Request, octets: &[u8], now: Duration) {
        let Request { kind, session, is_load } = request;
        let octets = octets.into();
        let pending = Pending { kind, session, sent: now, is_load, attempts: 1, octets };
        self.pending.insert(number, pending);
        self.due.push_back((now + self.t1, number, 1));
    }

    /// The request that an answer is for.
    pub fn take(&mut self, number: u32) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        self.remember(number);
        Some(pending)
    }

    /// Whether an answer is one more to a request that is over.
    pub fn is_past(&self, number: u32) -> bool {
        self.past.contains(&number)
    }

    fn remember(&mut self, number: u32) {
        if self.past.len() == PAST {
            self.past.pop_front();
        }
        self.past.push_back(number);
    }

    /// The next request whose answer is overdue, if there is one.
    pub fn overdue(&mut self, now: Duration) -> Option<Overdue<'_>> {
        loop {
            let (deadline, number, attempt) = *self.due.front()?;
            let waits = self.pending.get(&number).map(|pending| pending.attempts);
            if waits != Some(attempt) {
                self.due.pop_front();
                continue;
            }
            if deadline > now {
                return None;
            }
            self.due.pop_front();
            if attempt > self.n1 {
                self.remember(number);
                return self.pending.remove(&number).map(Overdue::Lost);
            }
            self.due.push_back((now + self.t1, number, attempt + 1));
            let pending = self.pending.get_mut(&number)?;
            pending.attempts += 1;
            return Some(Overdue::Again(pending.kind, pending.is_load, &pending.octets));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(kind: Kind, session: u32) -> Request {
        Request { kind, session, is_load: false }
    }

    const T1: Duration = Duration::from_secs(3);

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn a_request_is_sent_again_n1_times_and_then_lost() {
        let mut all = Transactions::new(T1, 2);
        let number = all.number();
        all.add(number, about(Kind::Establish, 7), b"request", seconds(0));
        assert!(all.overdue(seconds(2)).is_none());
        for second in [3, 6] {
            assert!(matches!(
                all.overdue(seconds(second)),
                Some(Overdue::Again(Kind::Establish, false, b"request"))
            ));
            assert!(all.overdue(seconds(second)).is_none());
        }
        let Some(Overdue::Lost(lost)) = all.overdue(seconds(9)) else { panic!("it still waits") };
        assert_eq!((lost.kind, lost.session, lost.sent), (Kind::Establish, 7, seconds(0)));
        assert!(all.take(number).is_none() && all.is_past(number));
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn an_answered_request_is_not_sent_again() {
        let mut all = Transactions::new(T1, 2);
        let (first, second) = (all.number(), all.number());
        assert_ne!(first, second);
        all.add(first, about(Kind::Query, 0), b"first", seconds(0));
        all.add(second, about(Kind::Query, 1), b"second", seconds(1));
        assert!(all.take(first).is_some() && all.take(first).is_none());
        assert!(all.is_past(first) && !all.is_past(second));
        assert!(matches!(
            all.overdue(seconds(4)),
            Some(Overdue::Again(Kind::Query, false, b"second"))
        ));
    }

    #[test]
    fn numbers_wrap_and_leave_out_what_waits() {
        let mut all = Transactions::new(T1, 2);
        all.add(1, about(Kind::Query, 0), b"", seconds(0));
        all.next = NUMBERS - 2;
        assert_eq!([all.number(), all.number(), all.number()], [NUMBERS - 1, 0, 2]);
    }
}
