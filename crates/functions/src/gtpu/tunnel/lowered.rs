//! Outer headers over IPv4 in micro-operations.

use weft_function::TunnelEnd;
use weft_function::lower::{Base, Builder, ContextField, Label, Operator, Value};
use weft_wire::gtpu::ExtensionType;
use weft_wire::{EtherType, Protocol, ethernet, gtpu, ipv4, udp};

/// Where the outer IP header begins in a frame that is sent.
pub const OUTER: u16 = ethernet::HEADER_LENGTH as u16;
/// Octets of an IPv4 header without options.
pub const IP: u16 = ipv4::MIN_HEADER_LENGTH as u16;
/// Octets of IP and UDP header.
pub const HEADERS: u16 = IP + udp::HEADER_LENGTH as u16;
/// Octets of them and of a GTP-U header without optional fields.
pub const PLAIN: u16 = HEADERS + gtpu::MIN_HEADER_LENGTH as u16;
/// Where the type of the first extension header stands in a GTP-U message.
const NEXT_TYPE: u16 = 11;
/// The bits of a traffic class that are the DSCP.
pub const DSCP: u64 = 0xfc;

/// The fields of a tunnel in a context.
#[derive(Clone, Copy)]
pub struct TunnelFields {
    pub peer: ContextField,
    pub teid: ContextField,
    pub local_ipv4: ContextField,
    pub local: ContextField,
    pub sent: ContextField,
}

/// `tunnel_fields!(Context, uplink)`: those of the field `uplink`.
macro_rules! tunnel_fields {
    ($context:ty, $field:ident) => {
        $crate::gtpu::tunnel::lowered::TunnelFields {
            peer: weft_function::context_field!($context, $field.peer_last: u32),
            teid: weft_function::context_field!($context, $field.teid: u32),
            local_ipv4: weft_function::context_field!($context, $field.local_ipv4: u32),
            local: weft_function::context_field!($context, $field.local: u16),
            sent: weft_function::context_field!($context, $field.sent: u16),
        }
    };
}
pub(crate) use tunnel_fields;

impl TunnelFields {
    /// Jumps where there is no tunnel, or one that is not over IPv4.
    pub fn check(&self, none: Label, other: Label, program: &mut Builder) {
        let number = program.load_context(self.local);
        let is_none = program.is(number, 0);
        program.branch(is_none, none);
        let local = program.load_context(self.local_ipv4);
        let is_other = program.is(local, 0);
        program.branch(is_other, other);
    }

    /// Writes Ethernet type, IP and UDP header of the next packet, of `total` octets
    /// from the IP header on: what [`TunnelEnd::emit`] writes. They were required.
    pub fn emit(
        &self,
        traffic_class: Value,
        total: Value,
        source_port: Option<u16>,
        program: &mut Builder,
    ) {
        let put = |offset: u16, octets, value, program: &mut Builder| {
            program.store(Base::Frame, OUTER + offset, octets, value);
        };
        let ether_type = program.constant(EtherType::IPV4.0.into());
        program.store(Base::Frame, OUTER - 2, 2, ether_type);

        let (hashed, number) = self.number(program);
        let port = source_port.map_or(hashed, |port| program.constant(port.into()));
        let class = program.shift_left(traffic_class, 16);
        let version = program.constant(0x4500_0000);
        let first = program.or(version, class);
        let first = program.add(first, total);
        put(0, 4, first, program);
        let second = program.shift_left(number, 16);
        put(4, 4, second, program);
        let third = u32::from_be_bytes([TunnelEnd::HOPS, Protocol::UDP.0, 0, 0]);
        let third = program.constant(third.into());
        let local = program.load_context(self.local_ipv4);
        let peer = program.load_context(self.peer);
        let words = [second, third, local, peer];
        let sum = words.into_iter().fold(first, |sum, word| program.add(sum, word));
        let checksum = checksum(sum, program);
        let third = program.or(third, checksum);
        put(8, 4, third, program);
        put(12, 4, local, program);
        put(16, 4, peer, program);

        let ports = program.shift_left(port, 16);
        let to = program.constant(gtpu::PORT.into());
        let ports = program.or(ports, to);
        put(IP, 4, ports, program);
        let ip = program.constant(IP.into());
        let octets = program.subtract(total, ip);
        // Without a checksum.
        let length = program.shift_left(octets, 16);
        put(IP + 4, 4, length, program);
    }

    /// UDP port of a tunnel that has its own, and identification of the next packet, which is counted.
    fn number(&self, program: &mut Builder) -> (Value, Value) {
        let teid = program.load_context(self.teid);
        let spread = program.constant(TunnelEnd::SPREAD.into());
        let hash = program.arithmetic(Operator::Multiply, teid, spread);
        let hash = program.masked(hash, u32::MAX.into());
        let hash = program.shift_right(hash, 18);
        let dynamic = program.constant(0xc000);
        let port = program.or(hash, dynamic);

        let (before, one) = (program.load_context(self.sent), program.constant(1));
        let sent = program.add(before, one);
        program.store_context(self.sent, sent);
        // The two highest bits of the port, which are set, come round.
        let upper = program.shift_left(port, 2);
        let three = program.constant(3);
        let turned = program.or(upper, three);
        let mixed = program.arithmetic(Operator::ExclusiveOr, turned, sent);
        (port, program.masked(mixed, u16::MAX.into()))
    }
}

/// The checksum of what words of 32 bits add up to, of which there are few.
fn checksum(mut sum: Value, program: &mut Builder) -> Value {
    for _ in 0..3 {
        let (upper, lower) = (program.shift_right(sum, 16), program.masked(sum, u16::MAX.into()));
        sum = program.add(upper, lower);
    }
    let ones = program.constant(u16::MAX.into());
    program.arithmetic(Operator::ExclusiveOr, sum, ones)
}

/// Jumps where so many octets and the outer headers are more than a datagram can have.
pub fn check_length(octets: Value, headers: u16, otherwise: Label, program: &mut Builder) {
    let most = program.constant((u16::MAX - headers).into());
    let is_long = program.less(most, octets);
    program.branch(is_long, otherwise);
}

/// Jumps unless a message's header, whose first four octets are `first`, is without
/// optional fields or has a PDU session container and nothing else (TS 29.281 §5.1):
/// what needs no loop. Where it ends is not looked at.
pub fn check_header(
    first: Value,
    (base, message): (Base, u16),
    otherwise: Label,
    program: &mut Builder,
) {
    let checked = program.label();
    let flags = program.shift_right(first, 24);
    let with_optional = program.masked(flags, 0xf7);
    let is_short = program.is(with_optional, 0x30);
    program.branch(is_short, checked);

    let with_extension = program.masked(flags, 0xf4);
    let is_extended = program.is(with_extension, 0x34);
    let length = program.masked(first, u16::MAX.into());
    let eight = program.constant(8);
    let is_cut = program.less(length, eight);
    program.require(base, message + 16, otherwise);
    // One word of four octets.
    let container = u64::from(ExtensionType::PDU_SESSION.0) << 8 | 1;
    let next = program.load(base, message + NEXT_TYPE, 2);
    let is_container = program.is(next, container);
    let behind = program.load(base, message + 15, 1);
    let mut wrong = is_cut;
    for right in [is_extended, is_container] {
        let other = program.not(right);
        wrong = program.or(wrong, other);
    }
    program.branch(wrong, otherwise);
    program.branch(behind, otherwise);
    program.place(checked);
}
