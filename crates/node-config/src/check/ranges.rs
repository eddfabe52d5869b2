//! Ranges of numbers, as the schema of the file states them.

use schemars::{JsonSchema, Schema, schema_for};

use super::within;
use crate::locate::Source;

/// The ranges of the keys of one mapping.
pub(super) struct Ranges(Schema);

impl Ranges {
    /// Of the mapping that is read as a `T`.
    pub(super) fn of<T: JsonSchema>() -> Ranges {
        Ranges(schema_for!(T))
    }

    /// Notes a mistake where `value`, written for `key` of the mapping at `path`, is not within
    /// the range of that key.
    pub(super) fn check(&self, source: &mut Source<'_>, path: &str, key: &str, value: u64) {
        let bound = |name: &str| self.0.pointer(&format!("/properties/{key}/{name}"))?.as_u64();
        if let (Some(low), Some(high)) = (bound("minimum"), bound("maximum")) {
            within(source, &format!("{path}.{key}"), value, low, high);
        }
    }
}
