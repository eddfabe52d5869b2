//! What a compressor is told, and what it keeps for a user.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{ContextError, Fields};

use crate::iphc::flows::Holding;

/// Nanoseconds in which a generation is not used again, and for which a compressor
/// waits at first: MIN_WRAP (RFC 2507 §3.3 and §14).
pub(super) const MIN_WRAP: u64 = 3_000_000_000;

/// What an instance keeps to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// TCP flows of one user that are compressed at a time, at most 256; 16
    /// unless said otherwise.
    #[serde(default)]
    pub tcp_flows: Option<u32>,
    /// Other flows of one user that are compressed at a time, at most 65536; 16
    /// unless said otherwise. Identifiers of more than 256 take an octet more.
    #[serde(default)]
    pub non_tcp_flows: Option<u32>,
    /// Flows of all users that there is room for, 256 bytes each; one for each
    /// user that the node has room for, and at least 4096, unless said otherwise.
    #[serde(default)]
    pub flows: Option<u32>,
    /// Compressed packets of a flow other than TCP between two full headers, at
    /// most (F_MAX_PERIOD); 256 unless said otherwise.
    #[serde(default)]
    pub max_period: Option<u16>,
    /// Seconds between two full headers of a flow other than TCP, at most
    /// (F_MAX_TIME), 1 to 255; 5 unless said otherwise.
    #[serde(default)]
    pub max_time: Option<u16>,
    /// Octets of headers that are compressed at most (MAX_HEADER), 60 to 168; 168
    /// unless said otherwise.
    #[serde(default)]
    pub max_header: Option<u16>,
    /// Whether segments of TCP are numbered (RFC 2507 §11.2), as at the other end:
    /// two octets more for each, and no loss goes unnoticed.
    #[serde(default)]
    pub packet_numbers: bool,
    /// Whether the other end knows no contexts from before a user's first packet
    /// here. Otherwise flows other than TCP go as they are for the first 3 seconds
    /// (MIN_WRAP, RFC 2507 §3.3).
    #[serde(default)]
    pub fresh_link: bool,
    /// Octets that the link carries in one Ethernet frame; 1500 unless said
    /// otherwise. A packet whose full header would not fit goes as it is.
    #[serde(default)]
    pub mtu: Option<u16>,
    /// PPPoE session of users who have none of their own; 1 unless said
    /// otherwise.
    #[serde(default)]
    pub session: Option<u16>,
}

/// What can be set for a user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// PPPoE session of the user's packets on the link; the next users have the
    /// next ones.
    pub session: u16,
}

/// What is kept for a user. Up to `after` lies what every packet needs, in one
/// cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Context {
    pub(super) flows: Holding,
    /// The user's own session.
    pub(super) session: Option<u16>,
    /// What the clock of the flows is ahead of that of the node, nanoseconds.
    pub(super) offset: u64,
    /// Packets that became shorter.
    pub(super) compressed: u64,
    /// Octets of headers that came, but for packets that went as they were.
    pub(super) before: u64,
    /// Octets of headers that went instead, those of PPPoE included.
    pub(super) after: u64,
    /// Packets with full headers.
    pub(super) full: u64,
    /// Packets that went as they were.
    pub(super) regular: u64,
    /// Requests of the other end.
    pub(super) requests: u64,
    /// When the first packet came that could have begun a flow other than TCP, on
    /// the clock of the flows.
    pub(super) began: Option<u64>,
}

const _: () = assert!(std::mem::offset_of!(Context, full) == 64);

impl Context {
    /// Whether the other end can have no generation of before (RFC 2507 §3.3).
    pub(super) fn has_waited(&mut self, now: u64) -> bool {
        now.wrapping_sub(*self.began.get_or_insert(now)) >= MIN_WRAP
    }

    pub(super) fn export(&self, out: &mut Vec<u8>) {
        let began = self.began.map_or(0, |began| began.wrapping_sub(self.offset));
        out.push(self.began.is_some().into());
        out.extend(began.to_le_bytes());
        out.push(self.session.is_some().into());
        out.extend(self.session.unwrap_or_default().to_le_bytes());
        for (_, count) in &self.show()[1..] {
            out.extend(count.to_le_bytes());
        }
    }

    pub(super) fn import(fields: &mut Fields<'_>) -> Result<Context, ContextError> {
        let began = match (fields.u8()?, fields.u64()?) {
            (0, 0) => None,
            (1, began) => Some(began),
            _ => return Err(ContextError::Damaged),
        };
        let own = fields.u8()?;
        let session = fields.u16()?;
        let session = match (own, session) {
            (0, 0) => None,
            (1, session) => Some(session),
            _ => return Err(ContextError::Damaged),
        };
        Ok(Context {
            session,
            began,
            compressed: fields.u64()?,
            full: fields.u64()?,
            regular: fields.u64()?,
            requests: fields.u64()?,
            before: fields.u64()?,
            after: fields.u64()?,
            ..Context::default()
        })
    }

    pub(super) fn show(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("flows", self.flows.count()),
            ("compressed", self.compressed),
            ("full", self.full),
            ("regular", self.regular),
            ("requests", self.requests),
            ("headerOctetsBefore", self.before),
            ("headerOctetsAfter", self.after),
        ]
    }
}
