//! `forward`: swaps or sets the MAC addresses, the least that a function can do
//! to a packet and still be of use.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::lower::{Base, Builder, Program};
use weft_function::{
    ConfigError, ContextError, Emit, Lower, NoSettings, Packet, Setup, UserPlaneFunction, Verdict,
};
use weft_wire::MacAddress;

use crate::common::export::nothing;
use crate::common::text;

/// What becomes of the MAC addresses. Without anything they are swapped.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// What is done where no address is given.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Source MAC address that every packet gets. Without it the source stays.
    #[serde(default, deserialize_with = "text::optional")]
    #[schemars(with = "Option<String>", extend("examples" = ["02:00:00:00:00:01"]))]
    pub source: Option<MacAddress>,
    /// Destination MAC address that every packet gets. Without it the
    /// destination stays.
    #[serde(default, deserialize_with = "text::optional")]
    #[schemars(with = "Option<String>", extend("examples" = ["02:00:00:00:00:02"]))]
    pub destination: Option<MacAddress>,
}

/// What is done with MAC addresses that the configuration does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Source and destination change places.
    Swap,
}

/// Swaps or sets the MAC addresses of every packet.
#[derive(Debug)]
pub struct Forward(Change);

#[derive(Clone, Copy, Debug)]
enum Change {
    Swap,
    Set { source: Option<MacAddress>, destination: Option<MacAddress> },
}

impl UserPlaneFunction for Forward {
    const NAME: &'static str = "forward";
    const SUMMARY: &'static str = "Swaps or sets the MAC addresses.";

    type Config = Config;
    type Settings = NoSettings;
    type Context = ();

    fn new(config: Config, _: &Setup<'_>) -> Result<Forward, ConfigError> {
        let Config { mode, source, destination } = config;
        match (mode, source.or(destination)) {
            (_, None) => Ok(Forward(Change::Swap)),
            (None, Some(_)) => Ok(Forward(Change::Set { source, destination })),
            (Some(Mode::Swap), Some(_)) => Err(ConfigError::at(
                "mode",
                "addresses are either swapped or set: leave out mode, or source and destination",
            )),
        }
    }

    #[inline(always)]
    fn process(&mut self, packet: &mut Packet, (): &mut (), _: &mut Emit<'_>) -> Verdict {
        // Destination, then source (IEEE 802.3 §3.2).
        if let Some(addresses) = packet.data_mut().first_chunk_mut::<12>() {
            match &self.0 {
                Change::Swap => *addresses = swapped(*addresses),
                Change::Set { source, destination } => {
                    if let Some(MacAddress(octets)) = destination {
                        addresses[..6].copy_from_slice(octets);
                    }
                    if let Some(MacAddress(octets)) = source {
                        addresses[6..].copy_from_slice(octets);
                    }
                }
            }
        }
        Verdict::Forward
    }

    fn export(&self, (): &(), _: &mut Vec<u8>) {}

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<(), ContextError> {
        nothing(version, bytes)
    }
}

impl Lower for Forward {
    fn lower(&self, mut program: Builder) -> Option<Program> {
        let short = program.label();
        program.require(Base::Frame, 12, short);
        match self.0 {
            Change::Swap => {
                let parts = [(0, 6, 4), (4, 10, 2), (6, 0, 4), (10, 4, 2)];
                let loaded = parts.map(|(from, to, octets)| {
                    (to, octets, program.load(Base::Frame, from, octets))
                });
                for (to, octets, value) in loaded {
                    program.store(Base::Frame, to, octets, value);
                }
            }
            Change::Set { source, destination } => {
                for (address, offset) in [(destination, 0), (source, 6)] {
                    let Some(MacAddress([a, b, c, d, e, f])) = address else { continue };
                    let high = program.constant(u32::from_be_bytes([a, b, c, d]).into());
                    let low = program.constant(u16::from_be_bytes([e, f]).into());
                    program.store(Base::Frame, offset, 4, high);
                    program.store(Base::Frame, offset + 4, 2, low);
                }
            }
        }
        program.place(short);
        Some(program.finish())
    }
}

/// Two addresses, in the other order.
#[inline(always)]
fn swapped([a, b, c, d, e, f, g, h, i, j, k, l]: [u8; 12]) -> [u8; 12] {
    [g, h, i, j, k, l, a, b, c, d, e, f]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weft_function::PacketMetadata;

    use crate::kind;
    use crate::testing::{Rig, Spec};

    const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 2];
    const DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0xab, 0xcd];

    /// Destination and source address of a packet that was forwarded.
    fn addresses(config: Value) -> [[u8; 6]; 2] {
        let mut rig = Rig::new(kind("forward").unwrap(), config).unwrap();
        let spec = Spec::udp(b"payload");
        let seen = rig.send(&spec);
        assert_eq!(seen.bytes[12..], spec.frame()[12..], "the rest stays");
        [seen.bytes[..6].try_into().unwrap(), seen.bytes[6..12].try_into().unwrap()]
    }

    #[test]
    fn addresses_are_swapped_or_set() {
        assert_eq!(addresses(Value::Null), [SOURCE, DESTINATION]);
        assert_eq!(addresses(json!({ "mode": "swap" })), [SOURCE, DESTINATION]);
        let address = "02-00-00-00-AB-CD";
        assert_eq!(addresses(json!({ "source": address })), [DESTINATION, OTHER]);
        assert_eq!(addresses(json!({ "destination": address })), [OTHER, SOURCE]);
        let both = json!({ "source": address, "destination": address });
        assert_eq!(addresses(both), [OTHER, OTHER]);
    }

    #[test]
    fn a_frame_without_addresses_passes() {
        let mut rig = Rig::new(kind("forward").unwrap(), Value::Null).unwrap();
        let seen = rig.send_bytes(&[1; 11], PacketMetadata { user: 0, ..Default::default() });
        assert_eq!((seen.bytes, seen.dropped), (vec![1; 11], None));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |config| Rig::new(kind("forward").unwrap(), config).err().unwrap();
        let both = error(json!({ "mode": "swap", "source": "02:00:00:00:00:01" }));
        assert_eq!(both.path, "mode");
        assert_eq!(error(json!({ "source": "02:00:00:00:01" })).path, "source");
        assert_eq!(error(json!({ "mode": "set" })).path, "mode");
    }
}
