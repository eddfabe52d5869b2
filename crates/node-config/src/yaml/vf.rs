//! Functions at virtual functions of a NIC, as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::values::Mac;

/// How packets get to a process that has one or two virtual functions of a NIC, whose
/// switch takes frames from one to another by destination MAC.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AtVirtualFunction")]
pub struct VfFile {
    /// The node's port at the same NIC.
    pub port: String,
    /// Device of the process: `vf:NAME`, a PCI address, or any other DPDK device string.
    pub device: String,
    /// A second device, at which it sends; by default it sends where it receives.
    pub transmit: Option<String>,
    /// MAC address that frames to the process have; that of the virtual function by
    /// default.
    pub mac: Option<Mac>,
    /// Packets that each queue of the process holds.
    #[serde(default = "descriptors")]
    #[schemars(range(min = 32, max = 1024))]
    pub descriptors: u16,
    /// Milliseconds after which a packet that has not come back is lost.
    #[serde(default = "timeout")]
    #[schemars(range(min = 1, max = 60000))]
    pub timeout: u32,
}

fn descriptors() -> u16 {
    1024
}

fn timeout() -> u32 {
    200
}
