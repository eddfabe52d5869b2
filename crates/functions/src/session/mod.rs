//! The rules of PFCP sessions (3GPP TS 29.244), carried out on packets by two functions with
//! the same settings: one detects packets and one forwards them. What stands between the two
//! is the chain of a session.

pub mod check;
pub mod rules;
mod tags;
pub mod usage;

use std::borrow::Cow;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use self::rules::Session;

functions! {
    session_detection::SessionDetection,
    session_forwarding::SessionForwarding,
}

/// The settings of both functions: the rules of a session, which they share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(pub Arc<Session>);

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Session::deserialize(deserializer).map(|rules| Rules(Arc::new(rules)))
    }
}

impl JsonSchema for Rules {
    fn schema_name() -> Cow<'static, str> {
        Session::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Session::json_schema(generator)
    }
}
