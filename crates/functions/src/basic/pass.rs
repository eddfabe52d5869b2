//! `pass`: nothing, so that the cost of composing can be measured alone.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::lower::{Builder, Program};
use weft_function::{
    ConfigError, ContextError, Emit, Lower, NoSettings, Packet, Setup, UserPlaneFunction, Verdict,
};

use crate::common::export::nothing;

/// There is nothing to configure.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {}

/// Lets every packet pass untouched.
#[derive(Debug)]
pub struct Pass;

impl UserPlaneFunction for Pass {
    const NAME: &'static str = "pass";
    const SUMMARY: &'static str =
        "Does nothing, so that the cost of composing can be measured alone.";

    type Config = Config;
    type Settings = NoSettings;
    type Context = ();

    fn new(_: Config, _: &Setup<'_>) -> Result<Pass, ConfigError> {
        Ok(Pass)
    }

    #[inline(always)]
    fn process(&mut self, _: &mut Packet, (): &mut (), _: &mut Emit<'_>) -> Verdict {
        Verdict::Forward
    }

    fn export(&self, (): &(), _: &mut Vec<u8>) {}

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<(), ContextError> {
        nothing(version, bytes)
    }
}

impl Lower for Pass {
    fn lower(&self, program: Builder) -> Option<Program> {
        Some(program.finish())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::kind;
    use crate::testing::{Rig, Spec, metadata};

    #[test]
    fn every_packet_passes_as_it_is() {
        let mut rig = Rig::new(kind("pass").unwrap(), Value::Null).unwrap();
        let spec = Spec::udp(b"payload");
        let seen = rig.send(&spec);
        assert_eq!(seen.bytes, spec.frame());
        assert_eq!(seen.metadata, metadata(&spec.frame()));
        assert_eq!(seen.dropped, None);
    }

    #[test]
    fn there_is_nothing_to_configure() {
        let error = Rig::new(kind("pass").unwrap(), json!({ "speed": 1 })).err().unwrap();
        assert!(error.message.contains("speed"), "{error}");
    }
}
