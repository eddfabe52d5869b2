//! The plain interpreter: one hop at a time, the first rule that matches wins.
//!
//! It is what the language means; the compiled program and the cached lookup are held equal to
//! it by tests.

use crate::field::Facts;
use crate::rule_set::RuleSet;
use crate::vocabulary::{FunctionIndex, Place, PortIndex};

/// Where a packet goes from a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hop {
    /// Value to give to the tag `chain` on the way, if the packet enters a chain.
    pub set_chain: Option<u32>,
    /// The next place.
    pub to: NextPlace,
}

/// The end of a hop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NextPlace {
    /// The packet is processed by this function.
    Function(FunctionIndex),
    /// The packet leaves at this port.
    Port(PortIndex),
    /// A rule drops the packet.
    Drop,
    /// No rule matches: the packet is dropped, with the reason `no_rule`.
    NoRule,
}

impl RuleSet {
    /// The hop that a packet takes from a place: that of the first rule that matches.
    pub fn next(&self, place: Place, facts: &impl Facts) -> Hop {
        self.rules_of(place)
            .iter()
            .find(|rule| rule.when.eval(facts))
            .map_or(Hop { set_chain: None, to: NextPlace::NoRule }, |rule| rule.hop)
    }
}
