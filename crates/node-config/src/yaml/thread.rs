//! Threads that functions stand on beside the workers.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

/// The thread that a function stands on beside the workers, or may stand on.
#[derive(Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub enum ThreadOf {
    /// The node chooses.
    Auto(Auto),
    /// The thread.
    Thread(ThreadFile),
}

/// What is written where the node chooses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Auto {
    /// By measured cycles.
    Auto,
}

impl ThreadOf {
    /// The thread, as far as it is given.
    pub fn file(&self) -> Option<&ThreadFile> {
        match self {
            ThreadOf::Auto(Auto::Auto) => None,
            ThreadOf::Thread(file) => Some(file),
        }
    }

    /// Whether the node chooses whether the function stands there.
    pub fn is_auto(&self) -> bool {
        self.file().is_none_or(|file| file.auto)
    }
}

impl<'de> Deserialize<'de> for ThreadOf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ThreadOf, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = ThreadOf;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto` or a mapping")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<ThreadOf, E> {
                match word {
                    "auto" => Ok(ThreadOf::Auto(Auto::Auto)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<ThreadOf, A::Error> {
                let map = de::value::MapAccessDeserializer::new(map);
                ThreadFile::deserialize(map).map(ThreadOf::Thread)
            }
        }

        deserializer.deserialize_any(Words)
    }
}

/// The thread that a function stands on beside the workers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Thread")]
pub struct ThreadFile {
    /// Name of the thread: functions that give the same stand on the same. Without it
    /// there is one thread for each core, and one for functions that give no core.
    pub stage: Option<String>,
    /// The processor core of the thread; left to the kernel when absent.
    #[schemars(range(min = 0, max = 1023))]
    pub core: Option<u32>,
    /// Whether the node chooses by measured cycles which of the functions that say so stand
    /// on the thread, and which are called.
    pub auto: bool,
}
