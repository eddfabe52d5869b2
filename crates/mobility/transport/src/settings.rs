//! Times and bounds as configurations write them. The comments of the fields are
//! descriptions in published schemas, so they speak to the author of one.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::options::Timing;

/// Longest of all times, in milliseconds.
const LONGEST: u64 = 600_000;

/// Connections between nodes and their controller: times in milliseconds, and bounds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Transport")]
pub struct TransportSettings {
    /// How long the making of a connection may take, and its greeting.
    #[schemars(range(min = 1, max = 600_000))]
    pub greeting: u64,
    /// Pause after the first attempt at a connection that came to nothing; each further
    /// pause is twice as long.
    #[schemars(range(min = 1, max = 600_000))]
    pub pause: u64,
    /// The longest pause.
    #[schemars(range(min = 1, max = 600_000))]
    pub longest_pause: u64,
    /// After so long without anything to say an octet is sent. Less than `silence` here
    /// and at the other ends.
    #[schemars(range(min = 1, max = 600_000))]
    pub alive: u64,
    /// Who has said nothing for so long, or read nothing, is given up.
    #[schemars(range(min = 2, max = 600_000))]
    pub silence: u64,
    /// Messages that wait for one peer; further ones are dropped, and said again.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub queue: u64,
    /// Octets of messages that wait for one peer; for all together eight times as many.
    #[schemars(range(min = 65_536))]
    pub queue_bytes: u64,
}

impl Default for TransportSettings {
    fn default() -> TransportSettings {
        let timing = Timing::default();
        let milliseconds = |time: Duration| time.as_millis() as u64;
        TransportSettings {
            greeting: milliseconds(timing.greeting),
            pause: milliseconds(timing.pause),
            longest_pause: milliseconds(timing.pause_most),
            alive: milliseconds(timing.alive),
            silence: milliseconds(timing.silence),
            queue: timing.queue as u64,
            queue_bytes: timing.queue_octets as u64,
        }
    }
}

impl TransportSettings {
    /// The times and bounds.
    pub fn timing(&self) -> Timing {
        Timing {
            greeting: Duration::from_millis(self.greeting),
            pause: Duration::from_millis(self.pause),
            pause_most: Duration::from_millis(self.longest_pause),
            alive: Duration::from_millis(self.alive),
            silence: Duration::from_millis(self.silence),
            queue: self.queue as usize,
            queue_octets: self.queue_bytes as usize,
        }
    }

    /// What is wrong: the key, and why.
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut mistakes = Vec::new();
        let all = [
            ("greeting", self.greeting, 1, LONGEST),
            ("pause", self.pause, 1, LONGEST),
            ("longestPause", self.longest_pause, 1, LONGEST),
            ("alive", self.alive, 1, LONGEST),
            ("silence", self.silence, 2, LONGEST),
            ("queue", self.queue, 1, 1 << 20),
            ("queueBytes", self.queue_bytes, 1 << 16, 1 << 40),
        ];
        for (key, value, low, high) in all {
            if !(low..=high).contains(&value) {
                mistakes.push((key, format!("{value} is not within {low}..{high}")));
            }
        }
        if self.longest_pause < self.pause {
            let why = format!("the longest pause is shorter than the first, {} ms", self.pause);
            mistakes.push(("longestPause", why));
        }
        if self.silence <= self.alive {
            let why = format!("no peer would be heard: `alive` is {} ms", self.alive);
            mistakes.push(("silence", why));
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_transport_and_right() {
        let settings = TransportSettings::default();
        assert_eq!(settings.timing(), Timing::default());
        assert_eq!(settings.mistakes(), []);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let wrong =
            TransportSettings { pause: 9000, silence: 2000, queue: 0, ..Default::default() };
        let keys: Vec<_> = wrong.mistakes().iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["queue", "longestPause", "silence"]);
    }
}
