//! `dscp-remark`: sets the differentiated services code point of every packet
//! (RFC 2474), and counts for each user how many packets it changed.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{
    ConfigError, ContextError, Emit, Fields, Headers, IpMut, Packet, Setup, UserPlaneFunction,
    Verdict,
};
use weft_wire::Dscp;
use weft_wire::checksum::Change;
use weft_wire::ip::traffic_class;

/// What an instance sets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Code point of all users who have none of their own, 0 to 63.
    pub dscp: u8,
}

/// What can be set for a user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Code point of the user's packets, 0 to 63.
    pub dscp: u8,
}

/// What is kept for each user.
#[derive(Debug, Default)]
pub struct Context {
    /// The user's own code point.
    dscp: Option<Dscp>,
    /// Packets that had another code point before.
    remarked: u64,
}

/// Sets the code point of every packet.
#[derive(Debug)]
pub struct DscpRemark {
    dscp: Dscp,
}

impl UserPlaneFunction for DscpRemark {
    const NAME: &'static str = "dscp-remark";
    const SUMMARY: &'static str = "Sets the differentiated services code point of every packet.";

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, _: &Setup<'_>) -> Result<DscpRemark, ConfigError> {
        Ok(DscpRemark { dscp: code_point(config.dscp)? })
    }

    #[inline]
    fn process(&mut self, packet: &mut Packet, context: &mut Context, _: &mut Emit<'_>) -> Verdict {
        let dscp = context.dscp.unwrap_or(self.dscp);
        if packet.dscp() != Some(dscp) && remark(packet, dscp) {
            context.remarked += 1;
        }
        Verdict::Forward
    }

    fn check(&self, settings: &Settings, _count: u32) -> Result<(), ConfigError> {
        code_point(settings.dscp).map(|_| ())
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, _nth: u32) {
        context.dscp = Dscp::new(settings.dscp);
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        out.push(context.dscp.map_or(NO_DSCP, Dscp::value));
        out.extend_from_slice(&context.remarked.to_le_bytes());
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let dscp = match fields.u8()? {
            NO_DSCP => None,
            value => Some(Dscp::new(value).ok_or(ContextError::Damaged)?),
        };
        let context = Context { dscp, remarked: fields.u64()? };
        fields.end()?;
        Ok(context)
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        vec![("remarked", context.remarked)]
    }
}

/// Stands in exported bytes for a user without a code point of its own.
const NO_DSCP: u8 = 0xff;

fn code_point(value: u8) -> Result<Dscp, ConfigError> {
    Dscp::new(value).ok_or_else(|| ConfigError::at("dscp", format!("{value} is more than 63")))
}

/// Sets the code point and repairs the IPv4 checksum; false for what is not IP.
fn remark(packet: &mut Packet, dscp: Dscp) -> bool {
    match packet.ip_mut() {
        Some(IpMut::V4(mut ip)) => {
            let (old, ecn) = (ip.dscp(), ip.ecn());
            ip.set_dscp(dscp);
            let [old, new] = [old, dscp].map(|dscp| traffic_class(dscp, ecn).into());
            ip.update_checksum(Change::NONE.field16(old, new));
            true
        }
        Some(IpMut::V6(mut ip)) => {
            ip.set_dscp(dscp);
            true
        }
        None => false,
    }
}

/// As an example it only shows its schema: `cargo run -p weft-functions
/// --example dscp_remark`.
#[allow(dead_code, reason = "a test has this file as a module")]
fn main() {
    let kind = weft_compose::Kind::of::<DscpRemark>();
    println!("{}: {}", kind.name, kind.summary);
    println!("{:#}", kind.config_schema().to_value());
}
