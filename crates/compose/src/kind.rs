//! The kinds of functions, from their types.

use std::sync::Arc;

use serde_json::Value;
use serde_path_to_error::Segment;
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
                let typed = Arc::new(read::<F::Settings>(value)?);
                Ok(Settings { typed, written: Written::Read(value.to_string().into()) })
            },
            settings_of_text: |text| {
                let typed = match serde_json::from_str::<F::Settings>(text) {
                    Ok(typed) => typed,
                    // Nothing at all, or what is wrong with a path.
                    Err(_) => {
                        let value = serde_json::from_str::<Value>(text);
                        let value =
                            value.map_err(|error| ConfigError::at("", error.to_string()))?;
                        read::<F::Settings>(&value)?
                    }
                };
                Ok(Settings { typed: Arc::new(typed), written: Written::Read(text.into()) })
            },
            make,
        }
    }
}

/// Reads a value of a function's own type; nothing at all counts as an empty
/// mapping.
fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, ConfigError> {
    let empty = Value::Object(serde_json::Map::new());
    let value = if value.is_null() { &empty } else { value };
    serde_path_to_error::deserialize(value).map_err(|error| {
        let segments = error.path().iter().filter_map(|segment| match segment {
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Map { key } | Segment::Enum { variant: key } => Some(key.clone()),
            Segment::Unknown => None,
        });
        let path = segments.collect::<Vec<_>>().join(".");
        ConfigError::at(path, error.into_inner().to_string())
    })
}
