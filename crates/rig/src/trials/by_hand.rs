//! Five small functions written by hand, as one loop over the burst: what machine code is
//! measured against.
//!
//! They are those of [`functions`], and do with a packet and with what they keep of its user
//! what `counter`, `marker`, `filter`, `rewrite-address` and `forward` do under this
//! configuration, byte for byte; a test holds that. What comes rarely (IPv6, options, fragments,
//! other transport protocols, users with settings of their own) is left as it is, as machine
//! code leaves it to functions that are called.

use serde_json::{Value, json};
use weft_dpdk::{Packet, prefetch};
use weft_function::{Colour, Metadata, PacketMetadata, TagSlot};
use weft_wire::checksum::Change;
use weft_wire::{EtherType, Protocol};

/// Bits per second that are green.
const RATE: u64 = 1_000_000_000;
/// Tokens of one byte: 8 bits, 10⁹ nanoseconds in a second.
const BYTE: u64 = 8_000_000_000;
/// Tokens of the committed burst of 1 MiB.
const BURST: u64 = (1 << 20) * BYTE;
/// The port of TCP that is denied.
const DENIED: u16 = 25;
/// The address that is replaced, and the one that replaces it.
const FROM: u32 = u32::from_be_bytes([198, 51, 100, 1]);
const TO: u32 = u32::from_be_bytes([192, 0, 2, 1]);

/// Octets of headers without options (RFC 791 §3.1, RFC 768, RFC 9293 §3.1).
const IPV4: usize = 20;
const UDP: usize = 8;
const TCP: usize = 20;
/// Version 4 and a header of five words.
const PLAIN: u8 = 0x45;

/// The functions, as in a node's file.
pub fn functions() -> [(&'static str, Value); 5] {
    let meter = json!({ "singleRate": { "committedRate": "1 Gbit/s", "committedBurst": "1 MiB" } });
    let rule = json!({ "action": "deny", "protocol": "tcp", "destinationPorts": 25 });
    let translation = json!({ "from": "198.51.100.1/32", "to": "192.0.2.1/32" });
    [
        ("counter", json!({})),
        ("marker", json!({ "meter": meter, "drop": "none" })),
        ("filter", json!({ "default": "allow", "rules": [rule] })),
        ("rewrite-address", json!({ "destination": [translation] })),
        ("forward", json!({})),
    ]
}

/// What is kept of a user.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct Kept {
    /// Packets.
    pub packets: u64,
    /// Octets of their IP packets.
    pub bytes: u64,
    /// Tokens that the bucket lacks.
    pub lack: u64,
    /// When it was filled, in nanoseconds.
    pub filled_at: u64,
    /// Whether the user has a meter or an address of its own.
    pub has_settings: bool,
}

/// The five functions.
#[derive(Debug)]
pub struct ByHand {
    kept: Vec<Kept>,
    colour: TagSlot,
}

/// Positions of a burst, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// What the filter drops.
    pub dropped: u64,
    /// What is left as it was.
    pub left: u64,
}

enum Verdict {
    Forward,
    Drop,
    Leave,
}

impl ByHand {
    /// For so many users; `colour` is the tag that the marker writes.
    pub fn new(users: usize, colour: TagSlot) -> ByHand {
        ByHand { kept: vec![Kept::default(); users], colour }
    }

    /// What is kept of the users.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Lets the packets of a burst pass, at most 64, at the time `now` in nanoseconds.
    pub fn pass(&mut self, packets: &mut [Packet], now: u64) -> Passed {
        let mut passed = Passed::default();
        for packet in &*packets {
            prefetch(&self.kept, packet.metadata().user as usize);
        }
        for (position, packet) in packets.iter_mut().enumerate() {
            match self.handle(packet, now) {
                Verdict::Forward => {}
                Verdict::Drop => passed.dropped |= 1 << position,
                Verdict::Leave => passed.left |= 1 << position,
            }
        }
        passed
    }

    #[inline(always)]
    fn handle(&mut self, packet: &mut Packet, now: u64) -> Verdict {
        let (frame, metadata) = packet.parts_mut();
        let Some(kept) = self.kept.get_mut(metadata.user as usize) else { return Verdict::Leave };
        let Some(Plain { link, ip, transport }) = plain(frame, metadata) else {
            return Verdict::Leave;
        };
        if kept.has_settings {
            return Verdict::Leave;
        }
        let length = u64::from(metadata.network_length);
        // The counter.
        kept.packets += 1;
        kept.bytes += length;
        // The marker (RFC 2697 §3), without a second bucket.
        let flow = RATE.saturating_mul(now.saturating_sub(kept.filled_at));
        kept.filled_at = kept.filled_at.max(now);
        kept.lack = kept.lack.min(BURST).saturating_sub(flow);
        let cost = length * BYTE;
        let colour = match BURST - kept.lack >= cost {
            true => Colour::Green,
            false => Colour::Red,
        };
        kept.lack += if colour == Colour::Green { cost } else { 0 };
        self.colour.set(metadata, colour as u32);
        // The filter.
        if let Transport::Tcp(header) = &transport
            && u16::from_be_bytes([header[2], header[3]]) == DENIED
        {
            return Verdict::Drop;
        }
        // The translator.
        let before = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
        if before == FROM {
            ip[16..].copy_from_slice(&TO.to_be_bytes());
            let change = Change::NONE.field32(before, TO);
            repair(&mut ip[10..12], |sum| change.apply(sum));
            match transport {
                Transport::Udp(header) => repair(&mut header[6..8], |sum| change.apply_udp(sum)),
                Transport::Tcp(header) => repair(&mut header[16..18], |sum| change.apply(sum)),
            }
        }
        // The forwarder.
        let (destination, source) = link.split_at_mut(6);
        destination.swap_with_slice(source);
        Verdict::Forward
    }
}

/// The headers of a packet of the usual form.
struct Plain<'a> {
    /// Both MAC addresses.
    link: &'a mut [u8; 12],
    ip: &'a mut [u8; IPV4],
    transport: Transport<'a>,
}

enum Transport<'a> {
    Udp(&'a mut [u8; UDP]),
    Tcp(&'a mut [u8; TCP]),
}

#[inline(always)]
fn plain<'a>(frame: &'a mut [u8], metadata: &PacketMetadata) -> Option<Plain<'a>> {
    let (start, length) = (metadata.network_offset.into(), metadata.network_length.into());
    if metadata.ether_type != EtherType::IPV4.0
        || usize::from(metadata.transport_offset) != start + IPV4
    {
        return None;
    }
    let (link, network) = frame.split_at_mut_checked(start)?;
    let (ip, rest) = network.get_mut(..length)?.split_first_chunk_mut()?;
    if ip[0] != PLAIN || usize::from(u16::from_be_bytes([ip[2], ip[3]])) != length {
        return None;
    }
    let transport = match Protocol(metadata.protocol) {
        Protocol::UDP => {
            let header: &mut [u8; UDP] = rest.first_chunk_mut()?;
            if usize::from(u16::from_be_bytes([header[4], header[5]])) < UDP {
                return None;
            }
            Transport::Udp(header)
        }
        Protocol::TCP => {
            let octets = rest.len();
            let header: &mut [u8; TCP] = rest.first_chunk_mut()?;
            let own = usize::from(header[12] >> 4) * 4;
            if own < TCP || own > octets {
                return None;
            }
            Transport::Tcp(header)
        }
        _ => return None,
    };
    Some(Plain { link: link.first_chunk_mut()?, ip, transport })
}

#[inline(always)]
fn repair(field: &mut [u8], repaired: impl FnOnce(u16) -> u16) {
    let sum = repaired(u16::from_be_bytes([field[0], field[1]]));
    field.copy_from_slice(&sum.to_be_bytes());
}
