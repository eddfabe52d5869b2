//! NICs with virtual functions, as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::StartedBy;
use crate::blueprint::Polling;
use crate::values::{Entries, Mac};

/// A NIC with virtual functions (PCI Express SR-IOV), which `weft vf create` makes, or a
/// switch in software that stands in for one; ports and functions name one as `vf:NAME`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Nic")]
pub struct NicFile {
    /// Its network interface, such as `eth0`, or its PCI address.
    pub device: Option<String>,
    /// There is no NIC: a switch in a process of its own stands in for it (software VF).
    pub software: Option<SoftwareFile>,
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
    /// Its share of a switch in software: frames per second that it can send, and as many
    /// that it is sent.
    #[schemars(range(min = 1, max = 100000000))]
    pub rate: Option<u64>,
}

/// A switch in a process of its own that stands in for a NIC's.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SoftwareSwitch")]
pub struct SoftwareFile {
    /// Absolute path of the folder of its sockets, one for each virtual function.
    pub sockets: String,
    /// The processor core that it has; left to the kernel when absent.
    #[schemars(range(max = 1023))]
    pub core: Option<u32>,
    /// What it does while there is nothing to do: `busy` asks again at once, `adaptive`
    /// sleeps after a while.
    #[serde(default)]
    pub polling: Polling,
    /// Who starts it: the `node`, or another program `elsewhere`, by `weft vf switch`.
    #[serde(default = "node")]
    pub start: StartedBy,
}

fn node() -> StartedBy {
    StartedBy::Node
}

fn vfio() -> String {
    weft_vf::VFIO.to_owned()
}

fn yes() -> bool {
    true
}
