//! What a decompressor is told, and what it keeps for a user.

use arrayvec::ArrayVec;
use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{ContextError, Fields};

use crate::iphc::flows::Holding;

/// What an instance keeps to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// TCP flows of one user that the other end compresses at a time, at most
    /// 256; 16 unless said otherwise.
    #[serde(default)]
    pub tcp_flows: Option<u32>,
    /// Other flows of one user that the other end compresses at a time, at most
    /// 65536; 16 unless said otherwise.
    #[serde(default)]
    pub non_tcp_flows: Option<u32>,
    /// Flows of all users that there is room for, 256 bytes each; one for each
    /// user that the node has room for, and at least 4096, unless said otherwise.
    #[serde(default)]
    pub flows: Option<u32>,
    /// Whether a segment whose checksum is wrong is tried once more with its
    /// differences applied twice (RFC 2507 §10.1), as if one like it was lost.
    #[serde(default)]
    pub twice: bool,
    /// Octets of headers that the other end compresses at most (MAX_HEADER), 60 to
    /// 168; 168 unless said otherwise.
    #[serde(default)]
    pub max_header: Option<u16>,
    /// Whether segments of TCP are numbered (RFC 2507 §11.2), as at the other end.
    /// One that does not follow the one before it is not rebuilt.
    #[serde(default)]
    pub packet_numbers: bool,
}

/// A set of context identifiers of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost([u64; 4]);

impl Lost {
    pub fn add(&mut self, id: u8) {
        self.0[usize::from(id / 64)] |= 1 << (id % 64);
    }

    pub fn remove(&mut self, id: u8) {
        self.0[usize::from(id / 64)] &= !(1 << (id % 64));
    }

    /// The identifiers, as many as one request has room for.
    pub fn ids(&self) -> ArrayVec<u8, 255> {
        let has = |id: &u8| self.0[usize::from(id / 64)] >> (id % 64) & 1 != 0;
        (0..=u8::MAX).filter(has).take(255).collect()
    }
}

/// What is kept for a user.
#[derive(Debug, Default)]
pub struct Context {
    pub(super) flows: Holding,
    /// What the clock of the flows is ahead of that of the node, nanoseconds.
    pub(super) offset: u64,
    /// When contexts were last asked for, on the clock of the flows.
    pub(super) asked: Option<u64>,
    /// TCP contexts that are to be asked for.
    pub(super) lost: Lost,
    /// Packets whose headers were rebuilt.
    pub(super) rebuilt: u64,
    /// Packets that came with their own headers.
    pub(super) regular: u64,
    /// Requests sent to the other end.
    pub(super) requests: u64,
}

impl Context {
    pub(super) fn export(&self, out: &mut Vec<u8>) {
        out.push(self.asked.is_some().into());
        let asked = self.asked.map_or(0, |asked| asked.wrapping_sub(self.offset));
        for value in [asked, self.rebuilt, self.regular, self.requests] {
            out.extend(value.to_le_bytes());
        }
        self.lost.0.iter().for_each(|word| out.extend(word.to_le_bytes()));
    }

    pub(super) fn import(fields: &mut Fields<'_>) -> Result<Context, ContextError> {
        let asked = match (fields.u8()?, fields.u64()?) {
            (0, 0) => None,
            (1, asked) => Some(asked),
            _ => return Err(ContextError::Damaged),
        };
        Ok(Context {
            asked,
            rebuilt: fields.u64()?,
            regular: fields.u64()?,
            requests: fields.u64()?,
            lost: Lost([fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?]),
            ..Context::default()
        })
    }

    pub(super) fn show(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("flows", self.flows.count()),
            ("rebuilt", self.rebuilt),
            ("regular", self.regular),
            ("requests", self.requests),
        ]
    }
}
