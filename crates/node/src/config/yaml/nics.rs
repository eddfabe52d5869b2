//! NICs with virtual functions, as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::values::{Entries, Mac};

/// A NIC with virtual functions (PCI Express SR-IOV), which `weft vf create` makes; ports
/// and functions name one as `vf:NAME`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Nic")]
pub struct NicFile {
    /// Its network interface, such as `eth0`, or its PCI address.
    pub device: String,
    /// The driver that virtual functions are bound to.
    #[serde(default = "vfio")]
    pub driver: String,
    /// Its virtual functions by name, in the order of their numbers. No two of a node
    /// have one name.
    pub virtual_functions: Entries<VirtualFunctionFile>,
}

/// A virtual function.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "VirtualFunction")]
pub struct VirtualFunctionFile {
    /// Its MAC address: what the NIC switches to it.
    pub mac: Mac,
    /// Whether it may ask for what concerns others, all multicast packets, say.
    #[serde(default)]
    pub trust: bool,
    /// Whether the NIC drops what it sends from another MAC address.
    #[serde(default = "yes")]
    pub spoof_check: bool,
}

fn vfio() -> String {
    weft_vf::VFIO.to_owned()
}

fn yes() -> bool {
    true
}
