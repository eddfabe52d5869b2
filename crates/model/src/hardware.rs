//! The machine: what each of its components can carry, and the machines of the
//! papers.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_yaml::mistake::Mistakes;
use weft_yaml::shape;

use crate::quantity::{BitRate, Bytes, Frequency, PacketRate};

/// A machine. What is left out limits nothing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Hardware {
    /// A machine that is known to the model (`weft model profiles` lists them). What
    /// stands beside this key takes the place of what the profile says.
    pub profile: Option<String>,
    /// The processor.
    pub cpu: Cpu,
    /// The network interface card.
    pub nic: Nic,
    /// The bus between the NIC and memory.
    pub pcie: Pcie,
    /// Memory.
    pub memory: Memory,
    /// Links in software, veth pairs for instance.
    pub software_link: SoftwareLink,
}

/// The processor.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cpu {
    /// f_CPU of each core.
    pub frequency: Option<Frequency>,
    /// Cores that can be had for packets.
    #[schemars(range(min = 1, max = 1024))]
    pub cores: Option<u32>,
}

/// The network interface card.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Nic {
    /// lr_NIC in each direction.
    pub line_rate: Option<BitRate>,
    /// What a frame needs on the line beside its own bytes; 20 B for Ethernet's
    /// preamble, start of frame and gap (IEEE 802.3).
    pub line_overhead: Option<Bytes>,
    /// f_NIC, the cycles per second that costs under `costs.nic` are spent of.
    pub frequency: Option<Frequency>,
    /// Packets per second that the NIC takes from the line and from its switch.
    pub packet_rate: Option<PacketRate>,
}

/// The bus between the NIC and memory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Pcie {
    /// bw_PCIe in each direction, behind its line code.
    pub bandwidth: Option<BitRate>,
    /// Bytes of the DMA descriptor that goes with each packet; 16 B unless given.
    pub descriptor: Option<Bytes>,
    /// Packets are moved in whole lines of so many bytes; 64 B unless given.
    pub cache_line: Option<Bytes>,
    /// Most bytes in one transaction; 512 B unless given.
    pub transaction: Option<Bytes>,
    /// Header and acknowledgment of each transaction; 0 B unless given.
    pub transaction_overhead: Option<Bytes>,
}

/// Memory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Memory {
    /// What can be read and written together.
    pub bandwidth: Option<BitRate>,
}

/// Links in software.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SoftwareLink {
    /// Packets per second that one link can carry, whatever the CPU could.
    pub packet_rate: Option<PacketRate>,
}

/// A machine that is known, and where it is described.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    _api_version: crate::version::ApiVersion,
    /// What the file describes.
    #[serde(rename = "kind")]
    _kind: ProfileKind,
    /// What it is called.
    pub metadata: ProfileMetadata,
    /// The machine.
    pub hardware: Hardware,
}

/// What a profile describes.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[schemars(inline)]
enum ProfileKind {
    /// A machine.
    Hardware,
}

/// What a machine is called.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileMetadata {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub summary: String,
    /// Where it is described.
    pub source: String,
}

const PROFILES: &[(&str, &str)] = &[
    ("xeon-e5-2640v2-x520", include_str!("../profiles/xeon-e5-2640v2-x520.yaml")),
    ("xeon-e31230-x540", include_str!("../profiles/xeon-e31230-x540.yaml")),
    ("xeon-e5-1650-x540", include_str!("../profiles/xeon-e5-1650-x540.yaml")),
    ("xeon-e5-2620v2-i350", include_str!("../profiles/xeon-e5-2620v2-i350.yaml")),
];

impl Profile {
    /// The names of all profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PROFILES.iter().map(|(name, _)| *name)
    }

    /// The profile of that name; none if it is not known.
    ///
    /// # Errors
    /// [`Mistakes`] in a profile that was built in wrong.
    pub fn named(name: &str) -> Option<Result<Profile, Mistakes>> {
        let (name, text) = PROFILES.iter().find(|(known, _)| *known == name)?;
        Some(Profile::read(text, &format!("{name}.yaml")))
    }

    fn read(text: &str, file: &str) -> Result<Profile, Mistakes> {
        let mut source = weft_yaml::parse(text, file, "Hardware")?;
        shape::read(&mut source).ok_or_else(|| Mistakes::of(file, source.mistakes))
    }
}

impl Hardware {
    /// This machine, with what it does not say taken from another.
    pub fn over(self, base: Hardware) -> Hardware {
        Hardware {
            profile: self.profile.or(base.profile),
            cpu: Cpu {
                frequency: self.cpu.frequency.or(base.cpu.frequency),
                cores: self.cpu.cores.or(base.cpu.cores),
            },
            nic: Nic {
                line_rate: self.nic.line_rate.or(base.nic.line_rate),
                line_overhead: self.nic.line_overhead.or(base.nic.line_overhead),
                frequency: self.nic.frequency.or(base.nic.frequency),
                packet_rate: self.nic.packet_rate.or(base.nic.packet_rate),
            },
            pcie: Pcie {
                bandwidth: self.pcie.bandwidth.or(base.pcie.bandwidth),
                descriptor: self.pcie.descriptor.or(base.pcie.descriptor),
                cache_line: self.pcie.cache_line.or(base.pcie.cache_line),
                transaction: self.pcie.transaction.or(base.pcie.transaction),
                transaction_overhead: self
                    .pcie
                    .transaction_overhead
                    .or(base.pcie.transaction_overhead),
            },
            memory: Memory { bandwidth: self.memory.bandwidth.or(base.memory.bandwidth) },
            software_link: SoftwareLink {
                packet_rate: self.software_link.packet_rate.or(base.software_link.packet_rate),
            },
        }
    }

    /// Cores that can be had for packets.
    pub fn cores(&self) -> usize {
        self.cpu.cores.map_or(1, |cores| cores as usize)
    }

    /// Bits that a frame of so many bytes needs on the line.
    pub fn line_bits(&self, size: f64) -> f64 {
        (size + self.nic.line_overhead.map_or(20.0, |overhead| overhead.0)) * 8.0
    }

    /// Bits that a frame of so many bytes moves over the bus in one direction, with
    /// all overhead: s + δ_PCIe.
    pub fn bus_bits(&self, size: f64) -> f64 {
        let Pcie { descriptor, cache_line, transaction, transaction_overhead, .. } = &self.pcie;
        let or = |given: &Option<Bytes>, usual: f64| given.map_or(usual, |bytes| bytes.0);
        let line = or(cache_line, 64.0).max(1.0);
        let moved = (size / line).ceil() * line;
        let transactions = (moved / or(transaction, 512.0).max(1.0)).ceil();
        let overhead = or(descriptor, 16.0) + transactions * or(transaction_overhead, 0.0);
        (moved + overhead) * 8.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_profiles_are_right_and_named_as_their_files() {
        for name in Profile::names() {
            let profile = Profile::named(name).unwrap();
            assert!(profile.is_ok(), "{}", profile.err().unwrap());
            let Profile { metadata, hardware, .. } = profile.unwrap();
            assert_eq!(metadata.name, name);
            assert!(hardware.cpu.frequency.is_some() && hardware.nic.line_rate.is_some());
        }
        assert!(Profile::named("abacus").is_none());
    }

    #[test]
    fn the_bus_moves_whole_lines_descriptors_and_transactions() {
        let mut hardware = Hardware::default();
        assert_eq!(hardware.bus_bits(64.0), 80.0 * 8.0);
        assert_eq!(hardware.bus_bits(65.0), 144.0 * 8.0);
        assert_eq!(hardware.bus_bits(1518.0), (1536.0 + 16.0) * 8.0);
        hardware.pcie.transaction_overhead = Some(Bytes(24.0));
        assert_eq!(hardware.bus_bits(512.0), (512.0 + 16.0 + 24.0) * 8.0);
        assert_eq!(hardware.bus_bits(513.0), (576.0 + 16.0 + 48.0) * 8.0);
    }

    #[test]
    fn what_a_machine_says_itself_counts() {
        let base = Profile::named("xeon-e5-2640v2-x520").unwrap().unwrap().hardware;
        let mut own = Hardware::default();
        own.cpu.frequency = Some(Frequency(1.2e9));
        let both = own.over(base);
        assert_eq!(both.cpu.frequency, Some(Frequency(1.2e9)));
        assert_eq!(both.nic.line_rate, Some(BitRate(1e10)));
    }
}
