//! Small functions to configure.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_compose::Kind;
use weft_function::tag::COLOUR;
use weft_function::{
    ByteSize, ConfigError, ContextError, Emit, NoSettings, Packet, Rate, Scope, Setup, Tag,
    UserPlaneFunction, Values, Verdict,
};

/// The functions of the tests.
pub(super) const ALL: &[Kind] = &[Kind::of::<Counter>(), Kind::of::<Marker>(), Kind::of::<Many>()];

/// What no test function does with packets.
macro_rules! passes {
    () => {
        fn process(&mut self, _: &mut Packet, (): &mut (), _: &mut Emit<'_>) -> Verdict {
            Verdict::Forward
        }

        fn export(&self, (): &(), _: &mut Vec<u8>) {}

        fn import(&mut self, _: u16, _: &[u8]) -> Result<(), ContextError> {
            Ok(())
        }
    };
}

/// Has neither configuration nor settings.
struct Counter;

impl UserPlaneFunction for Counter {
    const NAME: &'static str = "counter";
    const SUMMARY: &'static str = "Counts.";
    type Config = NoSettings;
    type Settings = NoSettings;
    type Context = ();

    fn new(_: NoSettings, _: &Setup<'_>) -> Result<Self, ConfigError> {
        Ok(Counter)
    }

    passes!();
}

/// Has both, and a tag.
struct Marker(Scope);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MarkerConfig {
    #[serde(default)]
    scope: Scope,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default, rename = "most")]
    _most: ByteSize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Step {
    burst: ByteSize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MarkerSettings {
    rate: Rate,
    /// So many users may have these settings.
    users: Option<u32>,
}

impl UserPlaneFunction for Marker {
    const NAME: &'static str = "marker";
    const SUMMARY: &'static str = "Marks.";
    const WRITES: &'static [Tag] = &[COLOUR];
    type Config = MarkerConfig;
    type Settings = MarkerSettings;
    type Context = ();

    fn new(config: MarkerConfig, setup: &Setup<'_>) -> Result<Self, ConfigError> {
        setup.tag(&COLOUR)?;
        match config.steps.iter().position(|step| step.burst.0 == 0) {
            Some(at) => Err(ConfigError::at(format!("steps.{at}.burst"), "a burst has bytes")),
            None => Ok(Marker(config.scope)),
        }
    }

    fn scope(&self) -> Scope {
        self.0
    }

    fn check(&self, settings: &MarkerSettings, count: u32) -> Result<(), ConfigError> {
        let message = |most| format!("{count} users are more than {most}");
        match settings.users.filter(|most| *most < count) {
            Some(most) => Err(ConfigError::at("users", message(most))),
            None if settings.rate.0 == 0 => Err(ConfigError::at("rate", "a rate is not 0")),
            None => Ok(()),
        }
    }

    passes!();
}

/// Declares so many tags that few are left.
struct Many;

impl UserPlaneFunction for Many {
    const NAME: &'static str = "many";
    const SUMMARY: &'static str = "Declares tags.";
    const READS: &'static [Tag] = &[
        Tag { name: "one", values: Values::Number },
        Tag { name: "two", values: Values::Number },
        Tag { name: "three", values: Values::Named(&["a", "b"]) },
    ];
    type Config = NoSettings;
    type Settings = NoSettings;
    type Context = ();

    fn new(_: NoSettings, _: &Setup<'_>) -> Result<Self, ConfigError> {
        Ok(Many)
    }

    passes!();
}
