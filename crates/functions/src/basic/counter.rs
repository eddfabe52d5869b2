//! `counter`: packets and bytes of each user, and, if wanted, the packet count
//! written into each packet (Pinczel et al. §IV.A a).

mod lowered;

use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{
    ConfigError, ContextError, Emit, Fields, Headers, NoSettings, Packet, Setup, UserPlaneFunction,
    Verdict,
};
use weft_wire::checksum::{self, Change};
use weft_wire::{Protocol, tcp, udp};
use zerocopy::{FromBytes, Immutable, IntoBytes};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::kind;
    use crate::testing::{Rig, Spec, specs};

    fn counter(config: Value) -> Rig {
        Rig::new(kind("counter").unwrap(), config).unwrap()
    }

    #[test]
    fn each_user_is_counted_alone_in_ip_bytes() {
        let mut rig = counter(Value::Null);
        let spec = Spec::udp(&[0; 10]);
        assert_eq!(rig.send(&spec).bytes, spec.frame());
        rig.send_as(&spec, |metadata| metadata.user = 3);
        // Ethernet's padding does not count.
        let mut padded = spec.frame();
        let metadata = crate::testing::metadata(&padded);
        padded.resize(60, 0);
        rig.send_bytes(&padded, metadata);
        let shown = |name| [rig.shown(0, name), rig.shown(3, name), rig.shown(1, name)];
        assert_eq!(shown("packets"), [2, 1, 0]);
        assert_eq!(shown("bytes"), [76, 38, 0]);
        assert_eq!(shown("unwritten"), [0, 0, 0]);
    }

    #[test]
    fn the_count_is_written_big_endian() {
        let mut rig = counter(json!({ "payload": { "offset": 1, "width": 8 } }));
        for count in 1..=3 {
            let seen = rig.send(&Spec::udp(b"abcdefghijk"));
            let payload = [b"a", &[0; 7][..], &[count], b"jk"].concat();
            assert_eq!(seen.bytes, Spec::udp(&payload).frame());
        }
        let mut rig = counter(json!({ "payload": { "offset": 0, "width": 4 } }));
        let seen = rig.send(&Spec::tcp(b"abcd"));
        assert_eq!(seen.bytes, Spec::tcp(&[0, 0, 0, 1]).frame());
    }

    #[test]
    fn a_udp_checksum_of_zero_stays() {
        let mut rig = counter(json!({ "payload": { "offset": 0, "width": 4 } }));
        let without = |payload: &[u8]| Spec { checksum: false, ..Spec::udp(payload) };
        let seen = rig.send(&without(b"abcd"));
        assert_eq!(seen.bytes, without(&[0, 0, 0, 1]).frame());
    }

    #[test]
    fn a_count_of_four_bytes_begins_again() {
        let mut rig = counter(json!({ "payload": { "offset": 0, "width": 4 } }));
        let before = Context { packets: 0xffff_ffff, ..Context::default() };
        let mut bytes = [&1_u16.to_le_bytes()[..], &[0; 8]].concat();
        Counter { payload: None }.export(&before, &mut bytes);
        rig.instance.import(0, 0, &bytes).unwrap();
        assert_eq!(rig.send(&Spec::udp(b"abcd")).bytes, Spec::udp(&[0; 4]).frame());
        assert_eq!(rig.shown(0, "packets"), 1 << 32);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |config| Rig::new(kind("counter").unwrap(), config).err().unwrap();
        assert_eq!(error(json!({ "payload": { "offset": 0, "width": 5 } })).path, "payload.width");
        assert_eq!(
            error(json!({ "payload": { "offset": -1, "width": 4 } })).path,
            "payload.offset"
        );
        assert!(error(json!({ "payload": { "offset": 0 } })).message.contains("width"));
    }

    /// The same packet with the count in it, built from scratch; none when it
    /// has no room.
    fn written(spec: &Spec, place: Payload, count: u64) -> Option<Spec> {
        let header = match spec.protocol {
            Protocol::UDP => 8,
            Protocol::TCP => 20,
            _ => return None,
        };
        let visible = match &spec.fragment {
            Some((part, _)) if part.start > 0 => return None,
            Some((part, _)) => part.end.min(header + spec.payload.len()),
            None => header + spec.payload.len(),
        };
        let (start, width) = (usize::from(place.offset), usize::from(place.width));
        if header + start + width > visible {
            return None;
        }
        let mut spec = spec.clone();
        spec.payload[start..start + width].copy_from_slice(&count.to_be_bytes()[8 - width..]);
        Some(spec)
    }

    proptest! {
        #[test]
        fn a_packet_is_as_if_built_with_the_count(
            packets in prop::collection::vec(specs(), 1..8),
            offset in 0_u16..64,
            wide in any::<bool>(),
        ) {
            let place = Payload { offset, width: if wide { 8 } else { 4 } };
            let mut rig = counter(json!({ "payload": { "offset": offset, "width": place.width } }));
            let mut unwritten = 0;
            for (spec, count) in packets.iter().zip(1..) {
                let expected = written(spec, place, count);
                unwritten += u64::from(expected.is_none());
                let seen = rig.send(spec);
                prop_assert_eq!(seen.bytes, expected.as_ref().unwrap_or(spec).frame());
            }
            prop_assert_eq!(rig.shown(0, "packets"), packets.len() as u64);
            prop_assert_eq!(rig.shown(0, "unwritten"), unwritten);
        }
    }
}
