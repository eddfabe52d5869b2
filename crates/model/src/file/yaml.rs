//! The file as it is written. The comments here are the descriptions in the
//! published schema, so they address the author of a model.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, SeqAccess, Visitor, value};
use serde::{Deserialize, Deserializer};
use weft_yaml::values::Ipv4;

use crate::costs::Costs;
use crate::hardware::Hardware;
use crate::quantity::{BitRate, Bytes, Frequency, PacketRate, Share};
use crate::scenario::Composition;
use crate::version::ApiVersion;

/// What a chain can carry: a machine, costs, chains and their traffic.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Model")]
pub struct ModelFile {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    pub _api_version: ApiVersion,
    /// What the file describes.
    #[serde(rename = "kind")]
    pub _kind: FileKind,
    /// What the model is called.
    pub metadata: Metadata,
    /// The machine.
    pub hardware: Hardware,
    /// What the steps of a packet's way cost.
    #[serde(default)]
    pub costs: Costs,
    /// How functions are linked; with several, they are set side by side.
    #[serde(default = "call")]
    #[schemars(length(min = 1))]
    pub compositions: Vec<Composition>,
    /// Which cores do what.
    #[serde(default)]
    pub cores: CoresFile,
    /// Sizes of frames, in all chains that say nothing else.
    #[serde(default)]
    pub size: SizeFile,
    /// The chains.
    #[schemars(length(min = 1))]
    pub chains: Vec<ChainFile>,
    /// What is to be carried: the model says how many cores that takes.
    pub load: Option<LoadFile>,
    /// Which points a sweep has.
    #[serde(default)]
    pub sweep: SweepFile,
    /// What was measured of this, to set beside what is predicted.
    #[serde(default)]
    pub measured: Vec<MeasuredFile>,
    /// A demand and the nodes to split it over, for `weft model plan`.
    pub plan: Option<PlanFile>,
}

fn call() -> Vec<Composition> {
    vec![Composition::Call]
}

/// What a file describes.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum FileKind {
    /// A model.
    Model,
}

/// What the model is called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Its name.
    pub name: String,
}

/// Which cores do what.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "ModelCores")]
pub struct CoresFile {
    /// Cores that share the packets of the ports evenly.
    #[schemars(range(min = 1, max = 1024))]
    pub workers: u32,
    /// Cores that functions have to themselves, in `thread`, `classical`, `process`
    /// and `remote` composition; with 0 they share the workers'.
    #[schemars(range(max = 1024))]
    pub functions: u32,
}

impl Default for CoresFile {
    fn default() -> Self {
        CoresFile { workers: 1, functions: 0 }
    }
}

/// Sizes of frames in bytes, with their checksum: one, or several with shares.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeFile(pub Vec<SizeShare>);

/// One of several sizes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeShare {
    /// Bytes of a frame with its checksum.
    pub size: Bytes,
    /// Its share of the packets; shares need not add up to one.
    pub share: Share,
}

impl Default for SizeFile {
    fn default() -> Self {
        SizeFile::one(Bytes(64.0))
    }
}

impl SizeFile {
    fn one(size: Bytes) -> SizeFile {
        SizeFile(vec![SizeShare { size, share: Share(1.0) }])
    }
}

impl<'de> Deserialize<'de> for SizeFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = SizeFile;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of bytes, such as 64 B, or a list of `size` and `share`")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<SizeFile, E> {
                Ok(SizeFile::one(Bytes(bytes as f64)))
            }

            fn visit_f64<E: de::Error>(self, bytes: f64) -> Result<SizeFile, E> {
                Ok(SizeFile::one(Bytes(bytes)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SizeFile, E> {
                text.parse().map(SizeFile::one).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<SizeFile, A::Error> {
                Vec::deserialize(value::SeqAccessDeserializer::new(list)).map(SizeFile)
            }
        }

        deserializer.deserialize_any(Words)
    }
}

impl JsonSchema for SizeFile {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sizes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (one, row) =
            (generator.subschema_for::<Bytes>(), generator.subschema_for::<SizeShare>());
        json_schema!({"oneOf": [one, {"type": "array", "minItems": 1, "items": row}]})
    }
}

/// A chain and its traffic.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ModelChain")]
pub struct ChainFile {
    /// Its name.
    pub name: String,
    /// Its share of all packets; shares need not add up to one.
    #[serde(default = "all")]
    pub share: Share,
    /// Its functions in order, by the names that their costs have; may be empty.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Functions in the chain, if not as many as are listed: the list is gone through
    /// again and again.
    #[schemars(range(min = 1, max = 1000))]
    pub length: Option<u32>,
    /// Sizes of its frames.
    pub size: Option<SizeFile>,
}

fn all() -> Share {
    Share(1.0)
}

/// A load.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ModelLoad")]
pub enum LoadFile {
    /// Packets per second.
    Packets(PacketRate),
    /// Bits of frames per second, without what the line adds.
    Bits(BitRate),
}

/// Which points a sweep has.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SweepFile {
    /// Lengths of the chain; 1 to 16 unless given.
    #[schemars(inner(range(min = 1, max = 1000)))]
    pub lengths: Vec<u32>,
    /// Sizes of frames.
    pub sizes: SizeSweepFile,
}

/// Sizes of frames in equal steps.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SizeSweepFile {
    /// The shortest frame.
    pub from: Bytes,
    /// The longest.
    pub to: Bytes,
    /// How much longer each is than the one before.
    pub step: Bytes,
}

impl Default for SizeSweepFile {
    fn default() -> Self {
        SizeSweepFile { from: Bytes(64.0), to: Bytes(1518.0), step: Bytes(1.0) }
    }
}

/// Something that was measured. What is left out is as the model has it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Measured")]
pub struct MeasuredFile {
    /// What it is called.
    pub name: Option<String>,
    /// How functions are linked; the first of the model's compositions unless given.
    pub composition: Option<Composition>,
    /// Functions in the chain.
    pub length: Option<u32>,
    /// Bytes of each frame.
    pub size: Option<Bytes>,
    /// f_CPU.
    pub frequency: Option<Frequency>,
    /// Which cores do what.
    pub cores: Option<CoresFile>,
    /// Packets per second that were carried.
    pub rate: Option<PacketRate>,
    /// Or cycles per packet at the core that spends most.
    pub cycles: Option<f64>,
    /// Where it is stated.
    #[serde(default)]
    pub source: String,
}

/// A demand and the nodes to split it over.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PlanRequest")]
pub struct PlanFile {
    /// The share of every component that is kept free.
    #[serde(default)]
    pub headroom: Share,
    /// Whether few nodes are filled or all are loaded alike.
    #[serde(default)]
    pub placement: PlacementFile,
    /// The nodes.
    #[schemars(length(min = 1))]
    pub nodes: Vec<NodeFile>,
    /// What is asked for.
    #[schemars(length(min = 1))]
    pub demand: Vec<DemandFile>,
}

/// How users are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum PlacementFile {
    /// On as few nodes as can be.
    #[default]
    Pack,
    /// On all nodes, loaded alike.
    Spread,
}

/// Nodes that are alike.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PlanNode")]
pub struct NodeFile {
    /// Their name, behind which stands a number if there are several.
    pub name: String,
    /// How many there are.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub count: u32,
    /// What their machine has other than the model's.
    #[serde(default)]
    pub hardware: Hardware,
}

fn one() -> u32 {
    1
}

/// Users that are alike.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Demand")]
pub struct DemandFile {
    /// What they are called.
    pub name: String,
    /// How many there are.
    #[schemars(range(min = 1))]
    pub users: u32,
    /// The address of the first; the others follow.
    pub first: Option<Ipv4>,
    /// Bits of frames per second of each, in both directions together.
    pub rate: BitRate,
    /// Their chain, one of the model's.
    pub chain: String,
    /// Sizes of their frames; the chain's unless given.
    pub size: Option<SizeFile>,
}
