//! What is known of a function before there is an instance of it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use serde_path_to_error::Segment;
use weft_function::{ConfigError, Lower, Reason, Setup, Tag, UserPlaneFunction};

use crate::call::{Called, Lowering};
use crate::instance::{Instance, REASONS};
use crate::slab::SlotShift;

/// Settings of one function for some users, checked by their own kind. Two are
/// equal when they were written alike.
#[derive(Clone)]
pub struct Settings {
    pub(crate) typed: Arc<dyn Any + Send + Sync>,
    written: Arc<Value>,
}

impl Settings {
    /// The settings as they were written.
    pub fn written(&self) -> &Arc<Value> {
        &self.written
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Settings) -> bool {
        self.written == other.written
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Settings").field(&self.written).finish()
    }
}

type Make = fn(&Value, &Setup<'_>, SlotShift) -> Result<Box<dyn Instance>, ConfigError>;

/// A function as the registry lists it.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Name in configurations.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Tags it reads.
    pub reads: &'static [Tag],
    /// Tags it writes.
    pub writes: &'static [Tag],
    /// Reasons for which it drops packets.
    pub drops: &'static [Reason],
    /// Whether contexts may be set back to a checkpoint.
    pub rollback: bool,
    config_schema: fn() -> schemars::Schema,
    settings_schema: fn() -> schemars::Schema,
    settings: fn(&Value) -> Result<Settings, ConfigError>,
    make: Make,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}

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
            config_schema: || schemars::schema_for!(F::Config),
            settings_schema: || schemars::schema_for!(F::Settings),
            settings: |value| {
                let typed = Arc::new(read::<F::Settings>(value)?);
                Ok(Settings { typed, written: Arc::new(value.clone()) })
            },
            make,
        }
    }

    /// All reasons for which packets are dropped at the function: its own, and
    /// behind them [`REASONS`].
    pub fn reasons(&self) -> impl Iterator<Item = &'static Reason> + use<> {
        self.drops.iter().chain(&REASONS)
    }

    /// JSON schema of the configuration of an instance.
    pub fn config_schema(&self) -> schemars::Schema {
        (self.config_schema)()
    }

    /// JSON schema of the settings for a bearer, user or group.
    pub fn settings_schema(&self) -> schemars::Schema {
        (self.settings_schema)()
    }

    /// Reads settings.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of what is wrong.
    pub fn settings(&self, value: &Value) -> Result<Settings, ConfigError> {
        (self.settings)(value)
    }

    /// Makes an instance that is called in its worker's thread.
    ///
    /// # Errors
    /// [`ConfigError`] with the path of what is wrong.
    pub fn make(
        &self,
        config: &Value,
        setup: &Setup<'_>,
        shift: SlotShift,
    ) -> Result<Box<dyn Instance>, ConfigError> {
        (self.make)(config, setup, shift)
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
