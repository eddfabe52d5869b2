//! Commands as they are written, one JSON object or YAML document each.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::bearer::{Action, BearerId, DefaultBearer, Filter};

/// A command as it is written.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum WrittenCommand {
    /// A bearer comes.
    Add(Box<WrittenBearer>),
    /// A bearer changes.
    Change(WrittenChange),
    /// A bearer goes.
    Remove(BearerId),
}

/// A bearer that comes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenBearer {
    /// Its number.
    pub id: BearerId,
    /// For the default bearer of a user: the name of a plan to be like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// Which of the plan's users it is like in its settings, from 0.
    #[serde(default)]
    pub nth: u32,
    /// For the default bearer of a user that moves: the number that it moves by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u64>,
    /// For a dedicated bearer: the user's default bearer, or the name of a user of the
    /// configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<DefaultBearer>,
    /// What its packets are known by.
    pub r#match: WrittenMatch,
    /// What becomes of them.
    #[serde(default)]
    pub action: Action,
    /// Settings, by function instance.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, Value>,
}

/// A bearer that changes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenChange {
    /// Its number.
    pub id: BearerId,
    /// What becomes of its packets from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Settings that change, by function instance.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, Value>,
    /// Whether an End Marker is sent into each tunnel that the settings replace.
    #[serde(default)]
    pub end_marker: bool,
}

/// What packets are known by.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WrittenMatch {
    /// Network instance of the addresses; `default` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The user's IPv4 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub ipv4: Option<Ipv4Addr>,
    /// The user's /64 prefix or IPv6 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    /// The TEID of the user's tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teid: Option<u32>,
    /// Network instance of the TEID; `network` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teid_network: Option<String>,
    /// The SPI of the user's IPsec tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spi: Option<u32>,
    /// Network instance of the SPI; that of the addresses by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spi_network: Option<String>,
    /// Of a dedicated bearer: the QoS flow identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qfi: Option<u8>,
    /// Of a dedicated bearer: a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<Filter>,
}

impl WrittenCommand {
    /// The bearer that it is about.
    pub fn id(&self) -> BearerId {
        match self {
            WrittenCommand::Add(bearer) => bearer.id,
            WrittenCommand::Change(change) => change.id,
            WrittenCommand::Remove(id) => *id,
        }
    }
}
