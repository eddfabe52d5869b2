//! `rewrite-address`: replaces source and destination IP addresses, uplink, and
//! puts them back downlink.
//!
//! *Source* and *destination* mean those of uplink packets. Downlink the way
//! back is taken: what was done to the source is undone at the destination, and
//! the other way round.

mod lowered;
mod substitute;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::tag::DIRECTION;
use weft_function::tunnel::inside_tunnel;
use weft_function::{
    ConfigError, ContextError, Direction, Emit, Fields, Headers, IpMut, Metadata, Packet, Setup,
    Tag, TagSlot, UserPlaneFunction, Verdict,
};
use weft_wire::checksum::Change;
use weft_wire::{Protocol, icmpv6, ipv4, ipv6, options, tcp, udp};

use crate::common::prefix::{Address, Masked, Prefix};

use substitute::Substitute;
pub use substitute::{Context, Settings};

const MAX_TRANSLATIONS: usize = 256;

/// What becomes of the addresses of all users for whom nothing else is set.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Translations of the source address of uplink packets, at most 256; the
    /// first whose `from` contains it applies. An address in none stays.
    #[serde(default)]
    pub source: Vec<Translation>,
    /// Translations of the destination address of uplink packets, in the same
    /// way.
    #[serde(default)]
    pub destination: Vec<Translation>,
    /// Whether downlink packets are translated back. Otherwise they pass
    /// untouched.
    #[serde(default = "yes")]
    pub reverse: bool,
}

fn yes() -> bool {
    true
}

/// Two prefixes of the same family and length: the first bits of an address are
/// replaced, the others stay.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Translation {
    /// Prefix of the addresses that are replaced, such as `10.0.0.0/16`.
    pub from: Prefix,
    /// Prefix that they get, such as `100.64.0.0/16`. No two translations of a
    /// list may lead to the same addresses.
    pub to: Prefix,
}

/// Replaces IP addresses.
#[derive(Debug)]
pub struct RewriteAddress {
    source: Table,
    destination: Table,
    reverse: bool,
}

impl UserPlaneFunction for RewriteAddress {
    const NAME: &'static str = "rewrite-address";
    const SUMMARY: &'static str =
        "Replaces source and destination IP addresses and repairs the checksums.";
    const READS: &'static [Tag] = &[DIRECTION];

    /// A context is its settings and nothing else.
    const CHECKPOINTED: bool = false;

    type Config = Config;
    type Settings = Settings;
    type Context = Context;

    fn new(config: Config, _: &Setup<'_>) -> Result<RewriteAddress, ConfigError> {
        Ok(RewriteAddress {
            source: Table::new("source", &config.source)?,
            destination: Table::new("destination", &config.destination)?,
            reverse: config.reverse,
        })
    }

    #[inline]
    fn process(&mut self, packet: &mut Packet, context: &mut Context, _: &mut Emit<'_>) -> Verdict {
        let uplink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32;
        if uplink || self.reverse {
            inside_tunnel(packet, |packet| self.rewrite_packet(packet, context, uplink));
        }
        Verdict::Forward
    }

    fn check(&self, settings: &Settings, count: u32) -> Result<(), ConfigError> {
        settings.check(count)
    }

    fn configure(&mut self, context: &mut Context, settings: &Settings, nth: u32) {
        *context = settings.nth(nth);
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        context.export(out);
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let context = Context::import(&mut fields)?;
        fields.end()?;
        Ok(context)
    }
}

impl RewriteAddress {
    #[inline]
    fn rewrite_packet(&self, packet: &mut Packet, context: &Context, uplink: bool) {
        let change = match packet.ip_mut() {
            Some(IpMut::V4(ip)) => self.rewrite_v4(ip, context, uplink),
            Some(IpMut::V6(ip)) => self.rewrite_v6(ip, context, uplink),
            None => None,
        };
        if let Some(change) = change {
            repair_transport(packet, change);
        }
    }

    /// Returns what changed of the pseudo-header, if anything did.
    #[inline]
    fn rewrite_v4(
        &self,
        mut ip: ipv4::Packet<&mut [u8]>,
        context: &Context,
        uplink: bool,
    ) -> Option<Change> {
        let before = (ip.source().to_bits(), ip.destination().to_bits());
        let source = Side { own: context.source_v4(), table: &self.source.v4 };
        let destination = Side { own: context.destination_v4(), table: &self.destination.v4 };
        let mut after = replaced(before, &source, &destination, uplink);
        if after.1 != before.1 && has_stops_left_v4(&ip) {
            after.1 = before.1;
        }
        if after == before {
            return None;
        }
        ip.set_source(after.0.into());
        ip.set_destination(after.1.into());
        let change = Change::NONE.field32(before.0, after.0).field32(before.1, after.1);
        ip.update_checksum(change);
        Some(change)
    }

    /// In the same way; IPv6 has no checksum of its own.
    #[inline]
    fn rewrite_v6(
        &self,
        mut ip: ipv6::Packet<&mut [u8]>,
        context: &Context,
        uplink: bool,
    ) -> Option<Change> {
        let before = (ip.source().to_bits(), ip.destination().to_bits());
        let source = Side { own: context.source_v6(), table: &self.source.v6 };
        let destination = Side { own: context.destination_v6(), table: &self.destination.v6 };
        let mut after = replaced(before, &source, &destination, uplink);
        if after.1 != before.1 && has_stops_left_v6(&ip) {
            after.1 = before.1;
        }
        if after == before {
            return None;
        }
        ip.set_source(after.0.into());
        ip.set_destination(after.1.into());
        let change = Change::NONE
            .bytes(&before.0.to_be_bytes(), &after.0.to_be_bytes())
            .bytes(&before.1.to_be_bytes(), &after.1.to_be_bytes());
        Some(change)
    }
}

/// Repairs the checksum of a transport header that covers the addresses. Only a
/// first fragment has one (RFC 791 §3.2, RFC 8200 §4.5).
#[inline]
fn repair_transport(packet: &mut Packet, change: Change) {
    let protocol = packet.protocol();
    let Some(transport) = packet.transport_mut() else { return };
    match protocol {
        Some(Protocol::UDP) => {
            if let Ok(mut datagram) = udp::Datagram::new_checked_fragment(transport) {
                datagram.update_checksum(change);
            }
        }
        Some(Protocol::TCP) => {
            if let Ok(mut segment) = tcp::Segment::new_checked(transport) {
                segment.update_checksum(change);
            }
        }
        Some(Protocol::ICMPV6) => {
            if let Ok(mut message) = icmpv6::Message::new_checked(transport) {
                message.update_checksum(change);
            }
        }
        _ => {}
    }
}

/// Whether the destination address is only the next stop of a source route (RFC
/// 791 §3.1). No checksum covers it then, and it is not translated.
#[inline]
fn has_stops_left_v4(ip: &ipv4::Packet<&mut [u8]>) -> bool {
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    // The pointer counts from the option's first octet, from 1.
    options::walk(ip.options()).flatten().any(|option| {
        matches!(option.kind, LOOSE | STRICT)
            && option.data.first().is_some_and(|at| usize::from(*at) <= option.data.len() + 2)
    })
}

/// The same in IPv6 (RFC 8200 §4.4).
fn has_stops_left_v6(ip: &ipv6::Packet<&mut [u8]>) -> bool {
    let (mut next, mut rest) = (ip.next_header(), ip.payload());
    loop {
        let Some(&[after, length, _, segments_left, ..]) = rest.first_chunk::<8>() else {
            return false;
        };
        match next {
            Protocol::ROUTING => return segments_left > 0,
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS => {}
            _ => return false,
        }
        next = Protocol(after);
        rest = rest.get((usize::from(length) + 1) * 8..).unwrap_or_default();
    }
}

/// The translations of one side, by family.
#[derive(Debug)]
struct Table {
    v4: Vec<(Masked<u32>, Masked<u32>)>,
    v6: Vec<(Masked<u128>, Masked<u128>)>,
}

impl Table {
    fn new(key: &str, translations: &[Translation]) -> Result<Table, ConfigError> {
        if translations.len() > MAX_TRANSLATIONS {
            let message = format!("{} are more than {MAX_TRANSLATIONS}", translations.len());
            return Err(ConfigError::at(key, message));
        }
        for (index, Translation { from, to }) in translations.iter().enumerate() {
            let error = |message: &str| Err(ConfigError::at(format!("{key}.{index}.to"), message));
            if (from.is_ipv4(), from.length()) != (to.is_ipv4(), to.length()) {
                return error("must be of the same family and length as from");
            }
            if translations[..index].iter().any(|earlier| earlier.to.overlaps(*to)) {
                return error("an earlier translation leads there already: it could not be undone");
            }
        }
        let v4 = translations.iter().filter_map(|pair| pair.from.v4().zip(pair.to.v4())).collect();
        let v6 = translations.iter().filter_map(|pair| pair.from.v6().zip(pair.to.v6())).collect();
        Ok(Table { v4, v6 })
    }
}

/// All that is known of the source, or the destination, of uplink packets.
struct Side<'a, B> {
    own: Option<Substitute<B>>,
    table: &'a [(Masked<B>, Masked<B>)],
}

impl<B: Address> Side<'_, B> {
    /// What stands there uplink in place of `address`.
    #[inline]
    fn forth(&self, address: B) -> B {
        if let Some(own) = &self.own {
            return own.address;
        }
        let found = self.table.iter().find(|(from, _)| from.contains(address));
        found.map_or(address, |(_, to)| to.put_before(address))
    }

    /// What `address` stands for downlink.
    #[inline]
    fn back(&self, address: B) -> B {
        if let Some(own) = &self.own {
            let original = own.original.filter(|_| address == own.address);
            return original.unwrap_or(address);
        }
        let found = self.table.iter().find(|(_, to)| to.contains(address));
        found.map_or(address, |(from, _)| from.put_before(address))
    }
}

/// Source and destination address of a packet, replaced.
#[inline]
fn replaced<B: Address>(
    (source, destination): (B, B),
    of_source: &Side<'_, B>,
    of_destination: &Side<'_, B>,
    uplink: bool,
) -> (B, B) {
    match uplink {
        true => (of_source.forth(source), of_destination.forth(destination)),
        false => (of_destination.back(source), of_source.back(destination)),
    }
}

#[cfg(test)]
mod tests;
