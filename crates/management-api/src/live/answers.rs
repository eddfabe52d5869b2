//! Answers that are the same until the next look: made when the first client asks, and sent to
//! all others as they are.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_http::prepared::Prepared;

/// Places whose past is kept as an answer: each takes some 30 kB.
const PASTS: usize = 16;

/// The answers of one look.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub snapshot: Option<Prepared>,
    pub model: Option<Prepared>,
    pub events: Option<Prepared>,
    /// By port or function.
    pasts: BTreeMap<Option<String>, Prepared>,
}

impl Answers {
    /// The past of a place, which is taken with `past` if it is not known; none where there is
    /// no such place.
    pub fn past<T: Serialize>(
        &mut self,
        of: Option<&str>,
        past: impl FnOnce() -> Option<T>,
    ) -> Option<Prepared> {
        let of = of.map(str::to_owned);
        if let Some(known) = self.pasts.get(&of) {
            return Some(known.clone());
        }
        let answer = Prepared::json(&past()?);
        if self.pasts.len() >= PASTS {
            self.pasts.pop_first();
        }
        self.pasts.insert(of, answer.clone());
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_is_taken_once_and_only_so_many_are_kept() {
        let mut answers = Answers::default();
        assert!(answers.past(Some("none"), || None::<u8>).is_none());
        assert!(answers.pasts.is_empty());
        for _ in 0..2 {
            let mut taken = 0;
            for _ in 0..2 {
                answers.past(None, || {
                    taken += 1;
                    Some(taken)
                });
            }
            assert!(taken <= 1, "{taken}");
        }
        for place in 0..100 {
            answers.past(Some(&format!("place {place}")), || Some(place)).unwrap();
            assert!(answers.pasts.len() <= PASTS);
        }
    }
}
