//! Relaying in micro-operations, from IPv4 to IPv4.
//!
//! Nothing moves then: the headers are written where those before were. IPv6, IP
//! options, VLAN tags, extension headers other than one PDU session container, and
//! bearers whose peers are told are punted.

use weft_function::lower::{Base, Builder, ContextField, Label, Note, Program};
use weft_function::{Direction, Lower, PacketMetadata, TagSlot, context_field};

use super::{Context, GtpuRelay};
use crate::gtpu::tunnel::lowered::{
    DSCP, HEADERS, OUTER, PLAIN, TunnelFields, check_header, check_length, tunnel_fields,
};

const UPLINK: TunnelFields = tunnel_fields!(Context, uplink);
const DOWNLINK: TunnelFields = tunnel_fields!(Context, downlink);
const UPLINK_PEER: ContextField = context_field!(Context, uplink_peer: u32);
const DOWNLINK_PEER: ContextField = context_field!(Context, downlink_peer: u32);

/// Positions in `DROPS`.
const NO_TUNNEL: u8 = 0;
const NOT_TUNNELLED: u8 = 1;

/// Where the GTP-U message begins.
const MESSAGE: u16 = OUTER + HEADERS;

impl Lower for GtpuRelay {
    const FIELDS: &'static [ContextField] = &[
        UPLINK.peer,
        UPLINK.teid,
        UPLINK.local_ipv4,
        UPLINK.local,
        UPLINK.sent,
        DOWNLINK.peer,
        DOWNLINK.teid,
        DOWNLINK.local_ipv4,
        DOWNLINK.local,
        DOWNLINK.sent,
        UPLINK_PEER,
        DOWNLINK_PEER,
    ];

    fn lower(&self, mut program: Builder) -> Option<Program> {
        let punt = program.label();
        let drops = [NO_TUNNEL, NOT_TUNNELLED].map(|reason| (program.label(), reason));
        let [(no_tunnel, _), (not_tunnelled, _)] = drops;
        let uplink = program.label();
        let direction = program.tag(TagSlot::DIRECTION);
        let is_uplink = program.is(direction, Direction::Uplink as u64);
        program.branch(is_uplink, uplink);
        self.relay((&DOWNLINK, DOWNLINK_PEER), (no_tunnel, not_tunnelled, punt), &mut program);
        program.place(uplink);
        self.relay((&UPLINK, UPLINK_PEER), (no_tunnel, not_tunnelled, punt), &mut program);

        for (label, reason) in drops {
            program.place(label);
            program.drop_for(reason);
        }
        program.place(punt);
        program.punt();
        Some(program.finish())
    }
}

impl GtpuRelay {
    /// Moves the packet into a tunnel and lets it go on.
    fn relay(
        &self,
        (tunnel, peer): (&TunnelFields, ContextField),
        (no_tunnel, not_tunnelled, punt): (Label, Label, Label),
        program: &mut Builder,
    ) {
        tunnel.check(no_tunnel, punt, program);
        // Where packets come from is looked at there.
        let peer = program.load_context(peer);
        program.branch(peer, punt);
        let outer = program.note(Note::OuterOffset);
        let is_outside = program.is(outer, 0);
        program.branch(is_outside, not_tunnelled);
        let is_behind_link = program.is(outer, OUTER.into());
        let is_elsewhere = program.not(is_behind_link);
        program.branch(is_elsewhere, punt);
        let flags = program.note(Note::Flags);
        let has_unwanted = program.masked(flags, PacketMetadata::DISCARDED_EXTENSIONS.into());
        program.branch(has_unwanted, punt);

        program.require(Base::Frame, OUTER + PLAIN, punt);
        let first = program.load(Base::Frame, OUTER, 2);
        let version_and_length = program.shift_right(first, 8);
        let is_plain = program.is(version_and_length, 0x45);
        let is_other = program.not(is_plain);
        program.branch(is_other, punt);
        let message = program.load(Base::Frame, MESSAGE, 4);
        let length = program.masked(message, u16::MAX.into());
        let headers = program.constant((OUTER + PLAIN).into());
        let (end, frame) = (program.add(length, headers), program.length());
        let is_cut = program.less(frame, end);
        program.branch(is_cut, punt);
        check_length(length, PLAIN, punt, program);
        check_header(message, (Base::Frame, MESSAGE), punt, program);

        let traffic_class = match self.config.dscp {
            Some(dscp) => program.constant(u64::from(dscp.value()) << 2),
            None => program.masked(first, DSCP),
        };
        let around = program.constant(PLAIN.into());
        let total = program.add(length, around);
        tunnel.emit(traffic_class, total, self.config.source_port, program);
        let teid = program.load_context(tunnel.teid);
        program.store(Base::Frame, MESSAGE + 4, 4, teid);
        program.truncate(end);
        program.forward();
    }
}
