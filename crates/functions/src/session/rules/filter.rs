//! Filters of service data flows (3GPP TS 29.244 §8.2.5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Name;
use crate::common::prefix::Prefix;

/// A filter: all that is given must be so. A reference to a filter of another rule
/// (bidirectional filters) is written as that filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SdfFilter {
    /// Addresses, protocol and ports: a flow description, `permit out PROTOCOL from REMOTE to
    /// USER`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// Type of service or traffic class, and which of its bits count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tos: Option<Masked>,
    /// Security parameter index of ESP or AH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spi: Option<u32>,
    /// Flow label of IPv6, 20 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 0xf_ffff))]
    pub flow_label: Option<u32>,
    /// Domain of the other end: `example.com` with all names below it, or `*.example.com` without
    /// the name itself. In small letters. Or what is asked for in plain HTTP: a URL such as
    /// `http://example.com/path`, with all that lies below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<Name>,
}

/// A value of which some bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Masked {
    /// The value.
    pub value: u8,
    /// The bits that count.
    pub mask: u8,
}

/// Flows between the user and others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Flow {
    /// IP protocol number; any without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// The other end: what a flow description names behind `from`. It is the destination of
    /// packets from the access side, and the source of others.
    pub remote: End,
    /// The user's end: what a flow description names behind `to`.
    pub user: End,
}

/// Addresses and ports of one end of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct End {
    /// The address lies in it; without one, any does (`any`, `assigned`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Prefix>,
    /// The port is one of these; without any, all are. Packets without ports match only then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortRange>,
}

/// Ports in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}
