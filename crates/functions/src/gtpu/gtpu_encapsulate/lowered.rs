//! Encapsulation in micro-operations, into tunnels over IPv4.
//!
//! Tunnels over IPv6 are punted, and packets that are not whole.

use weft_function::lower::{Base, Builder, ContextField, Label, Note, Program, Value};
use weft_function::{Direction, Lower, TagSlot, context_field};
use weft_wire::EtherType;
use weft_wire::gtpu::ExtensionType;

use super::{Context, GtpuEncapsulate};
use crate::gtpu::tunnel::lowered::{
    DSCP, IP, OUTER, PLAIN, TunnelFields, check_length, tunnel_fields,
};

const TUNNEL: TunnelFields = tunnel_fields!(Context, tunnel);
const HAS_QFI: ContextField = context_field!(Context, has_qfi: u8);
const QFI: ContextField = context_field!(Context, qfi: u8);

/// Positions in `DROPS`.
const NO_TUNNEL: u8 = 0;
const TUNNELLED_ALREADY: u8 = 1;
const NOT_IP: u8 = 2;

/// Octets of the optional fields and the PDU session container (TS 29.281 §5.1,
/// TS 38.415 §5.5.2).
const CONTAINER: u16 = 8;

/// A user's packet.
struct Inside {
    /// Where it begins in the frame.
    network: Value,
    octets: Value,
    traffic_class: Value,
}

impl Lower for GtpuEncapsulate {
    const FIELDS: &'static [ContextField] =
        &[TUNNEL.peer, TUNNEL.teid, TUNNEL.local_ipv4, TUNNEL.local, TUNNEL.sent, HAS_QFI, QFI];

    fn lower(&self, mut program: Builder) -> Option<Program> {
        let punt = program.label();
        let drops = [NO_TUNNEL, TUNNELLED_ALREADY, NOT_IP].map(|reason| (program.label(), reason));
        let [(no_tunnel, _), (tunnelled, _), (not_ip, _)] = drops;

        TUNNEL.check(no_tunnel, punt, &mut program);
        let outer = program.note(Note::OuterOffset);
        program.branch(outer, tunnelled);
        let inside = self.look(not_ip, punt, &mut program);
        let with_container = program.label();
        let has_qfi = program.load_context(HAS_QFI);
        program.branch(has_qfi, with_container);
        wrap(&inside, false, self.config.source_port, punt, &mut program);
        program.place(with_container);
        wrap(&inside, true, self.config.source_port, punt, &mut program);

        for (label, reason) in drops {
            program.place(label);
            program.drop_for(reason);
        }
        program.place(punt);
        program.punt();
        Some(program.finish())
    }
}

impl GtpuEncapsulate {
    /// Punts what is not a whole IP packet behind an Ethernet header.
    fn look(&self, not_ip: Label, punt: Label, program: &mut Builder) -> Inside {
        let network = program.note(Note::NetworkOffset);
        let link_header = program.constant(OUTER.into());
        let is_odd = program.less(network, link_header);
        program.branch(is_odd, punt);
        program.require(Base::Network, IP, punt);
        let ether_type = program.note(Note::EtherType);
        let is_ipv4 = program.is(ether_type, EtherType::IPV4.0.into());
        let is_ipv6 = program.is(ether_type, EtherType::IPV6.0.into());
        let is_ip = program.or(is_ipv4, is_ipv6);
        let is_other = program.not(is_ip);
        program.branch(is_other, not_ip);

        let traffic_class = match self.config.dscp {
            Some(dscp) => program.constant(u64::from(dscp.value()) << 2),
            None => {
                let first = program.load(Base::Network, 0, 2);
                let upper = program.shift_right(first, 4);
                let class = program.select(is_ipv6, upper, first);
                program.masked(class, DSCP)
            }
        };
        let (octets, frame) = (program.note(Note::NetworkLength), program.length());
        let is_unknown = program.is(octets, 0);
        program.branch(is_unknown, punt);
        let end = program.add(network, octets);
        let is_cut = program.less(frame, end);
        program.branch(is_cut, punt);
        check_length(octets, PLAIN + CONTAINER, punt, program);
        Inside { network, octets, traffic_class }
    }
}

/// Puts the packet into the tunnel and lets it go on.
fn wrap(
    inside: &Inside,
    has_container: bool,
    source_port: Option<u16>,
    punt: Label,
    program: &mut Builder,
) {
    let optional = if has_container { CONTAINER } else { 0 };
    let addresses = (program.load(Base::Frame, 0, 8), program.load(Base::Frame, 8, 4));
    let direction = program.tag(TagSlot::DIRECTION);
    program.front(inside.network, OUTER + PLAIN + optional, OUTER, punt);
    program.store(Base::Frame, 0, 8, addresses.0);
    program.store(Base::Frame, 8, 4, addresses.1);
    let headers = program.constant((PLAIN + optional).into());
    let total = program.add(inside.octets, headers);
    TUNNEL.emit(inside.traffic_class, total, source_port, program);

    let message = OUTER + PLAIN - 8;
    let flags = program.constant(if has_container { 0x34ff_0000 } else { 0x30ff_0000 });
    let behind = program.constant(optional.into());
    let length = program.add(inside.octets, behind);
    let first = program.or(flags, length);
    program.store(Base::Frame, message, 4, first);
    let teid = program.load_context(TUNNEL.teid);
    program.store(Base::Frame, message + 4, 4, teid);
    if has_container {
        let next = program.constant(ExtensionType::PDU_SESSION.0.into());
        program.store(Base::Frame, message + 8, 4, next);
        // One word; PDU type 1 is uplink; no more extension headers.
        let is_uplink = program.is(direction, Direction::Uplink as u64);
        let (uplink, downlink) = (program.constant(0x0110_0000), program.constant(0x0100_0000));
        let kind = program.select(is_uplink, uplink, downlink);
        let qfi = program.load_context(QFI);
        let qfi = program.shift_left(qfi, 8);
        let container = program.or(kind, qfi);
        program.store(Base::Frame, message + 12, 4, container);
    }
    let link_header = program.constant(OUTER.into());
    let end = program.add(total, link_header);
    program.truncate(end);
    program.forward();
}
