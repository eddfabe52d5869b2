//! `counter`: packets and bytes of each user, and, if wanted, the packet count
//! written into each packet (Pinczel et al. §IV.A a).

use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{
    ConfigError, ContextError, Emit, Fields, Headers, NoSettings, Packet, Setup, UserPlaneFunction,
    Verdict,
};
use weft_wire::checksum::{self, Change};
use weft_wire::{Protocol, tcp, udp};

/// What the counter does beside counting.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Where the packet count is written into each packet. Without it packets
    /// pass unchanged.
    #[serde(default)]
    pub payload: Option<Payload>,
}

/// A place in the data that UDP or TCP carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Payload {
    /// Bytes between the end of the UDP or TCP header and the count.
    pub offset: u16,
    /// Bytes that the count takes: 4 (it then begins again at 0 behind 2³² − 1)
    /// or 8. It is written big endian.
    #[schemars(extend("enum" = [4, 8]))]
    pub width: u8,
}

/// What was counted for one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Packets.
    pub packets: u64,
    /// Bytes of the IP packets, headers included.
    pub bytes: u64,
    /// Packets that had no room for the count: too short, neither UDP nor TCP,
    /// or a fragment other than the first.
    pub unwritten: u64,
}

/// Counts the packets and bytes of each user.
#[derive(Debug)]
pub struct Counter {
    payload: Option<Payload>,
}

impl UserPlaneFunction for Counter {
    const NAME: &'static str = "counter";
    const SUMMARY: &'static str =
        "Counts each user's packets and bytes; may write the count into the payload.";

    type Config = Config;
    type Settings = NoSettings;
    type Context = Context;

    fn new(config: Config, _: &Setup<'_>) -> Result<Counter, ConfigError> {
        match config.payload {
            Some(Payload { width, .. }) if width != 4 && width != 8 => {
                Err(ConfigError::at("payload.width", format!("{width} is neither 4 nor 8 bytes")))
            }
            payload => Ok(Counter { payload }),
        }
    }

    #[inline]
    fn process(&mut self, packet: &mut Packet, context: &mut Context, _: &mut Emit<'_>) -> Verdict {
        context.packets += 1;
        context.bytes += packet.ip_length() as u64;
        if let Some(place) = self.payload
            && write(packet, place, context.packets).is_none()
        {
            context.unwritten += 1;
        }
        Verdict::Forward
    }

    fn export(&self, context: &Context, out: &mut Vec<u8>) {
        for count in [context.packets, context.bytes, context.unwritten] {
            out.extend_from_slice(&count.to_le_bytes());
        }
    }

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<Context, ContextError> {
        if version != Self::CONTEXT_VERSION {
            return Err(ContextError::Version(version));
        }
        let mut fields = Fields::new(bytes);
        let context =
            Context { packets: fields.u64()?, bytes: fields.u64()?, unwritten: fields.u64()? };
        fields.end()?;
        Ok(context)
    }

    fn show(&self, context: &Context) -> Vec<(&'static str, u64)> {
        vec![
            ("packets", context.packets),
            ("bytes", context.bytes),
            ("unwritten", context.unwritten),
        ]
    }
}

/// Writes the count and repairs the transport checksum; none when the packet
/// has no room for it.
#[inline]
fn write(packet: &mut Packet, place: Payload, count: u64) -> Option<()> {
    let protocol = packet.protocol()?;
    let transport = packet.transport_mut()?;
    match protocol {
        Protocol::UDP => {
            // The rest of a first fragment's datagram is in other packets.
            let mut datagram = udp::Datagram::new_checked_fragment(transport).ok()?;
            let change = put(datagram.payload_mut(), place, count)?;
            datagram.update_checksum(change);
        }
        Protocol::TCP => {
            let mut segment = tcp::Segment::new_checked(transport).ok()?;
            let change = put(segment.payload_mut(), place, count)?;
            segment.update_checksum(change);
        }
        _ => return None,
    }
    Some(())
}

/// Writes the count into a payload and says what that changes.
#[inline]
fn put(payload: &mut [u8], place: Payload, count: u64) -> Option<Change> {
    let (start, width) = (usize::from(place.offset), usize::from(place.width));
    let field = start..start + width;
    payload.get(field.clone())?;
    // A checksum adds 16-bit words, so those that the field touches are summed
    // whole. Both transport headers are of even length.
    let words = words(&field, payload.len());
    let old = checksum::sum(&payload[words.clone()]);
    payload[field].copy_from_slice(&count.to_be_bytes()[8 - width..]);
    Some(Change::NONE.field16(old, checksum::sum(&payload[words])))
}

/// The 16-bit words that `field` touches; the last one may be half there.
fn words(field: &Range<usize>, length: usize) -> Range<usize> {
    field.start & !1..(field.end.next_multiple_of(2)).min(length)
}
