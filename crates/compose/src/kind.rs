//! The kinds of functions, from their types.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};
use weft_function::{ConfigError, Lower, UserPlaneFunction};

use crate::call::{Called, Lowering};
use crate::instance::{Kind, Make, Settings, Written};

impl Kind {
    /// The kind of `F`.
    pub const fn of<F: UserPlaneFunction>() -> Kind {
        Kind::made_by::<F>(|config, setup, shift| {
            let function = F::new(read::<F::Config>(config)?, setup)?;
            let kind = const { &Kind::of::<F>() };
            Ok(Box::new(Called::new(function, setup, shift, kind, None)))
        })
    }

    /// The kind of `F`, which can be fused with its neighbours.
    pub const fn lowered<F: Lower>() -> Kind {
        Kind::made_by::<F>(|config, setup, shift| {
            let function = F::new(read::<F::Config>(config)?, setup)?;
            let kind = const { &Kind::lowered::<F>() };
            Ok(Box::new(Called::new(function, setup, shift, kind, Some(Lowering::new()))))
        })
    }

    const fn made_by<F: UserPlaneFunction>(make: Make) -> Kind {
        Kind {
            name: F::NAME,
            summary: F::SUMMARY,
            reads: F::READS,
            writes: F::WRITES,
            drops: F::DROPS,
            rollback: F::ROLLBACK,
            checkpointed: F::CHECKPOINTED,
            context_version: F::CONTEXT_VERSION,
            oldest_version: F::OLDEST_VERSION,
            config_schema: || schemars::schema_for!(F::Config),
            settings_schema: || schemars::schema_for!(F::Settings),
            settings: |value| {
                let text = value.to_string();
                let typed = Arc::new(read_text::<F::Settings>(&text)?);
                Ok(Settings { typed, written: Written::Read(text.into()) })
            },
            settings_of_text: |text| {
                let typed = Arc::new(read_text::<F::Settings>(text)?);
                Ok(Settings { typed, written: Written::Read(text.into()) })
            },
            make,
        }
    }
}

/// Reads a value of a function's own type; nothing at all counts as an empty
/// mapping.
fn read<T: DeserializeOwned>(value: &Value) -> Result<T, ConfigError> {
    read_text(&value.to_string())
}

/// The same of JSON. Only from text, as the code that reads a type is made anew for each form
/// that it is read from. Where it is wrong is found by reading once more, since to keep the path
/// takes longer than to read.
fn read_text<T: DeserializeOwned>(text: &str) -> Result<T, ConfigError> {
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let text = if text.trim() == "null" { "{}" } else { text };
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| error_at(error.path(), error.inner()))?;
    reader.end().map_err(|error| ConfigError::at("", error.to_string()))?;
    Ok(value)
}

/// An error by its path; its line and column are those of a text that is not the user's.
fn error_at(path: &Path, error: &serde_json::Error) -> ConfigError {
    let segments = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } | Segment::Enum { variant: key } => Some(key.clone()),
        Segment::Unknown => None,
    });
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&position).unwrap_or(&message);
    ConfigError::at(segments.collect::<Vec<_>>().join("."), message)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::read_text;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Meter {
        #[serde(default)]
        rates: Vec<u16>,
    }

    #[test]
    fn a_wrong_value_is_named_by_its_path() {
        let wrong = [
            (r#"{"rates": [1, 70000]}"#, "rates.1", "invalid value: integer `70000`, expected u16"),
            (r#"{"rates": 1}"#, "rates", "invalid type: integer `1`, expected a sequence"),
            (r#"{"rats": []}"#, "rats", "unknown field `rats`, expected `rates`"),
        ];
        for (text, path, message) in wrong {
            let error = read_text::<Meter>(text).unwrap_err();
            assert_eq!((&*error.path, &*error.message), (path, message), "{text}");
        }
    }

    #[test]
    fn nothing_is_an_empty_mapping_and_more_than_a_value_is_refused() {
        assert_eq!(read_text::<Meter>("null"), Ok(Meter { rates: Vec::new() }));
        assert!(read_text::<Meter>("{} {}").is_err());
        assert!(read_text::<Meter>("").is_err());
    }
}
