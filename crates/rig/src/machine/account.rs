//! What became of trials: which the machine spoilt, which were made again, which gave no
//! value. A reader of results has to know all of that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::disturbance::{ATTEMPTS, BEARABLE, Spoilt};

/// Counts of trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Account {
    /// Trials whose values are in the results.
    pub trials: u32,
    /// Attempts that the machine spoilt, which were made again.
    pub repeated: u32,
    /// Trials that count and were spoilt in each attempt: the least disturbed one was taken.
    pub disturbed: u32,
    /// Trials that gave no value: they failed, and were given up.
    pub missing: u32,
    /// Searches for a highest rate.
    pub searches: u32,
    /// Trials of searches.
    pub search_trials: u32,
    /// Attempts at them that the machine spoilt, which were made again.
    pub search_repeated: u32,
    /// Trials of searches that were spoilt in each attempt.
    pub search_disturbed: u32,
    /// Trials of searches with loss that a repetition without loss cleared.
    pub search_cleared: u32,
    /// Searches that were given up before their bounds were found.
    pub searches_given_up: u32,
}

impl Account {
    /// What was counted since.
    #[must_use]
    pub fn since(self, before: Account) -> Account {
        self.with(before, u32::saturating_sub)
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Account) -> Account {
        self.with(other, u32::saturating_add)
    }

    fn with(self, other: Account, of: fn(u32, u32) -> u32) -> Account {
        Account {
            trials: of(self.trials, other.trials),
            repeated: of(self.repeated, other.repeated),
            disturbed: of(self.disturbed, other.disturbed),
            missing: of(self.missing, other.missing),
            searches: of(self.searches, other.searches),
            search_trials: of(self.search_trials, other.search_trials),
            search_repeated: of(self.search_repeated, other.search_repeated),
            search_disturbed: of(self.search_disturbed, other.search_disturbed),
            search_cleared: of(self.search_cleared, other.search_cleared),
            searches_given_up: of(self.searches_given_up, other.searches_given_up),
        }
    }

    /// Adds trials of an experiment.
    pub(crate) fn add(&mut self, spoilt: Spoilt) {
        self.trials += spoilt.trials;
        self.repeated += spoilt.repeated;
        self.disturbed += spoilt.kept;
    }

    /// Adds trials of a search.
    pub(crate) fn add_of_search(&mut self, spoilt: Spoilt) {
        self.search_trials += spoilt.trials;
        self.search_repeated += spoilt.repeated;
        self.search_disturbed += spoilt.kept;
    }

    /// Whether anything was made at all.
    pub fn is_empty(&self) -> bool {
        *self == Account::default()
    }

    /// In one line.
    pub fn line(&self) -> String {
        let mut line = format!(
            "{} count, {} attempts repeated, {} disturbed, {} missing",
            trials(self.trials),
            self.repeated,
            self.disturbed,
            self.missing
        );
        if self.searches > 0 || self.search_trials > 0 {
            line += &format!(
                "; {} searches of {}: {} attempts repeated, {} disturbed, {} with loss cleared by \
                 a repetition, {} searches given up",
                self.searches,
                trials(self.search_trials),
                self.search_repeated,
                self.search_disturbed,
                self.search_cleared,
                self.searches_given_up
            );
        }
        line
    }

    /// What a reader of the results should know; nothing where each trial counted at once.
    pub fn note(&self) -> Option<String> {
        let told = self.repeated
            + self.missing
            + self.search_repeated
            + self.search_cleared
            + self.searches_given_up;
        let percent = BEARABLE * 100.0;
        (told > 0).then(|| {
            format!(
                "Trials: {}. An attempt is repeated, {ATTEMPTS} times at most, where the machine \
                 took the core away for more than {percent} % of it or ran it slower than it can; \
                 of one that stays disturbed the least disturbed attempt counts; what is missing \
                 failed and has no value.",
                self.line()
            )
        })
    }
}

fn trials(count: u32) -> String {
    if count == 1 { "1 trial".to_owned() } else { format!("{count} trials") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_retry_is_told() {
        let mut account = Account::default();
        assert!(account.is_empty());
        account.add(Spoilt { trials: 1, repeated: 0, kept: 0 });
        assert_eq!(account.note(), None);
        let before = account;
        account.add(Spoilt { trials: 2, repeated: 4, kept: 1 });
        account.add_of_search(Spoilt { trials: 9, repeated: 1, kept: 0 });
        account.missing += 1;
        let line = account.since(before).line();
        assert!(line.starts_with("2 trials count, 4 attempts repeated, 1 disturbed, 1 missing; "));
        assert!(line.contains("9 trials: 1 attempts repeated"), "{line}");
        assert!(account.note().unwrap().contains("3 trials count"));
        assert_eq!(account.since(before).and(before), account);
    }
}
