//! The plain interpreter: one hop at a time, the first rule that matches wins.
//!
//! It is what the language means; the compiled program and the cached lookup are held equal to
//! it by tests.

use crate::language::field::Facts;
use crate::language::vocabulary::Place;
use crate::rule_set::{Hop, NextPlace, RuleSet};

impl RuleSet {
    /// The hop that a packet takes from a place: that of the first rule that matches.
    pub fn next(&self, place: Place, facts: &impl Facts) -> Hop {
        self.rules_of(place)
            .iter()
            .find(|rule| rule.when.eval(facts))
            .map_or(Hop { set_chain: None, to: NextPlace::NoRule }, |rule| rule.hop)
    }
}
