//! Guaranteed bit rates are given out up to a limit (GBR, §8.2.9): a session that asks for more is
//! refused, so that those that there are keep what they were promised.

use weft_functions::session::rules::Session;

/// A rate uplink and downlink, in kbit/s.
type Rates = [u64; 2];

/// Guaranteed bit rates that sessions have.
#[derive(Debug)]
pub(super) struct Admission {
    given: Rates,
    most: [Option<u64>; 2],
}

impl Admission {
    /// None given out yet; `most` is the limit of each direction, if there is one.
    pub fn new(most: [Option<u64>; 2]) -> Admission {
        Admission { given: [0; 2], most }
    }

    /// Gives rules what they guarantee in place of what `before` does; of a change that takes
    /// away, what was there stays given until [`end`](Self::end). False, and nothing is given, if
    /// there is not so much.
    pub fn begin(&mut self, before: &Session, rules: &Session) -> bool {
        let more = beyond(rules, before);
        let wanted = sum(self.given, more);
        let fits =
            |way: usize| more[way] == 0 || self.most[way].is_none_or(|most| wanted[way] <= most);
        if !fits(0) || !fits(1) {
            return false;
        }
        self.given = wanted;
        true
    }

    /// The change is done, or not: the session has `rules`, and does not have `other`.
    pub fn end(&mut self, rules: &Session, other: &Session) {
        let less = beyond(other, rules);
        self.given = [0, 1].map(|way| self.given[way].saturating_sub(less[way]));
    }

    /// A session with these rules is there, whatever the limit.
    pub fn note(&mut self, rules: &Session) {
        self.given = sum(self.given, guaranteed(rules));
    }
}

fn sum(one: Rates, other: Rates) -> Rates {
    [0, 1].map(|way| one[way].saturating_add(other[way]))
}

/// What the first guarantees beyond the second.
fn beyond(one: &Session, other: &Session) -> Rates {
    let (one, other) = (guaranteed(one), guaranteed(other));
    [0, 1].map(|way| one[way].saturating_sub(other[way]))
}

/// What the rules of a session guarantee.
fn guaranteed(rules: &Session) -> Rates {
    rules.qers.iter().fold([0; 2], |all, qer| {
        sum(all, [qer.guaranteed.uplink, qer.guaranteed.downlink].map(Option::unwrap_or_default))
    })
}
