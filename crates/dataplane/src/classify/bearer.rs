//! What the classifier knows of bearers: which packets they carry, and what becomes of them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_function::StepData;
use weft_wire::gtpu::Qfi;

/// What becomes of a bearer's packets (TS 29.244 §8.2.26).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// They take their way through the rules.
    #[default]
    Forward,
    /// They are dropped, in either direction.
    Drop,
    /// Those to the user wait, within bounds, until the action is another.
    Buffer,
    /// They wait, and the first of them is told (a *Downlink Data Report*).
    Notify,
}

/// The classifier leaves it in a packet that is not to be forwarded now.
impl StepData for Action {
    #[inline]
    fn to_bits(self) -> u32 {
        self as u32
    }

    #[inline]
    fn from_bits(bits: u32) -> Action {
        let all = [Action::Forward, Action::Drop, Action::Buffer, Action::Notify];
        all.into_iter().find(|action| action.to_bits() == bits).unwrap_or_default()
    }
}

/// Which of a user's packets a dedicated bearer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// Packets of this QoS flow: what the PDU session container of the tunnel
    /// they come in says (TS 38.415).
    Qfi(Qfi),
    /// Packets of flows.
    Filter(Filter),
}

/// A filter of service data flows: what is not given may be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Filter {
    /// IP protocol number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Address at the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub remote: Option<IpAddr>,
    /// Port at the other end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_port: Option<u16>,
    /// Port at the user's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_port: Option<u16>,
}
