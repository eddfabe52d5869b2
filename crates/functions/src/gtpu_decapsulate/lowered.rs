//! Decapsulation in micro-operations, of G-PDUs over IPv4.
//!
//! Outer headers of IPv6 or with options, extension headers and checks of the QoS
//! flow are punted, and so are inner packets of IPv6 whose address is checked.

use weft_function::lower::{Base, Builder, ContextField, Label, Note, Program, Value};
use weft_function::{Annotations, Direction, Lower, TagSlot, context_field};
use weft_wire::gtpu::EXTENSION_FLAG;
use weft_wire::{EtherType, ethernet, ipv4, udp};

use super::{Context, GtpuDecapsulate};

const PEER: ContextField = context_field!(Context, peer_ipv4: u32);
const PEER_FAMILY: ContextField = context_field!(Context, peer_family: u8);
const IPV4: ContextField = context_field!(Context, ipv4: u32);
const HAS_IPV4: ContextField = context_field!(Context, has_ipv4: u8);
const HAS_ADDRESSES: ContextField = context_field!(Context, has_addresses: u8);
const HAS_QFI: ContextField = context_field!(Context, has_qfi: u8);

/// Positions in `DROPS`.
const END_MARKER: u8 = 1;
const WRONG_PEER: u8 = 2;
const LINK: u8 = 5;
const SPOOFED: u8 = 6;

/// Octets of an IPv4 header without options.
const IP: u16 = ipv4::MIN_HEADER_LENGTH as u16;
/// Where the GTP-U message begins, from the outer IP header on.
const MESSAGE: u16 = IP + udp::HEADER_LENGTH as u16;
const LINK_HEADER: u16 = ethernet::HEADER_LENGTH as u16;

impl Lower for GtpuDecapsulate {
    const FIELDS: &'static [ContextField] =
        &[PEER, PEER_FAMILY, IPV4, HAS_IPV4, HAS_ADDRESSES, HAS_QFI];

    fn lower(&self, mut program: Builder) -> Option<Program> {
        let punt = program.label();
        let drops = [END_MARKER, WRONG_PEER, LINK, SPOOFED].map(|why| (program.label(), why));
        let [(end_marker, _), (wrong_peer, _), (link, _), (spoofed, _)] = drops;

        let (outer, network) = (program.note(Note::OuterOffset), program.note(Note::NetworkOffset));
        let is_outside = program.is(outer, 0);
        program.branch(is_outside, punt);
        let is_alone = program.equal(outer, network);
        program.branch(is_alone, end_marker);
        let link_header = program.constant(LINK_HEADER.into());
        let is_odd = program.less(network, link_header);
        program.branch(is_odd, punt);

        let has_qfi = program.load_context(HAS_QFI);
        program.branch(has_qfi, punt);
        program.require(Base::Outer, MESSAGE + 1, punt);
        let version_and_length = program.load(Base::Outer, 0, 1);
        let is_plain = program.is(version_and_length, 0x45);
        let is_other = program.not(is_plain);
        program.branch(is_other, punt);
        let message = program.load(Base::Outer, MESSAGE, 1);
        let extension = program.masked(message, EXTENSION_FLAG.into());
        program.branch(extension, punt);

        let family = program.load_context(PEER_FAMILY);
        let is_ipv6 = program.is(family, 6);
        program.branch(is_ipv6, punt);
        let (peer, source) = (program.load_context(PEER), program.load(Base::Outer, 12, 4));
        let (is_checked, is_peer) = (program.is(family, 4), program.equal(peer, source));
        let is_another = program.not(is_peer);
        let is_wrong = program.and(is_checked, is_another);
        program.branch(is_wrong, wrong_peer);
        let flags = program.note(Note::Flags);
        let is_of_link = program.masked(flags, Annotations::LINK_SCOPE.into());
        program.branch(is_of_link, link);

        let ether_type = program.note(Note::EtherType);
        program.require(Base::Network, IP, punt);
        let checked = program.label();
        let has_addresses = program.load_context(HAS_ADDRESSES);
        program.branch(has_addresses, checked);
        unwrap(network, punt, &mut program);

        program.place(checked);
        let is_ipv4 = program.is(ether_type, EtherType::IPV4.0.into());
        let is_other = program.not(is_ipv4);
        program.branch(is_other, punt);
        let direction = program.tag(TagSlot::DIRECTION);
        let is_uplink = program.is(direction, Direction::Uplink as u64);
        let from = program.load(Base::Network, 12, 4);
        let to = program.load(Base::Network, 16, 4);
        let address = program.select(is_uplink, from, to);
        let (own, has_own) = (program.load_context(IPV4), program.load_context(HAS_IPV4));
        let (is_own, one) = (program.equal(address, own), program.is(has_own, 1));
        let is_users = program.and(is_own, one);
        let is_spoofed = program.not(is_users);
        program.branch(is_spoofed, spoofed);
        unwrap(network, punt, &mut program);

        for (label, reason) in drops {
            program.place(label);
            program.drop_for(reason);
        }
        program.place(punt);
        program.punt();
        Some(program.finish())
    }
}

/// Takes the tunnel off and lets the packet go on, as `Tunnel::unwrap_tunnel`.
fn unwrap(network: Value, punt: Label, program: &mut Builder) {
    program.require(Base::Frame, LINK_HEADER, punt);
    let addresses = (program.load(Base::Frame, 0, 8), program.load(Base::Frame, 8, 4));
    let (ether_type, noted) = (program.note(Note::EtherType), program.note(Note::NetworkLength));
    let link_header = program.constant(LINK_HEADER.into());
    let end = program.add(noted, link_header);
    program.front(network, LINK_HEADER, punt);
    program.truncate(end);
    // It is there; nothing but the verifier needs to be told.
    let done = program.label();
    program.require(Base::Frame, LINK_HEADER, done);
    program.store(Base::Frame, 0, 8, addresses.0);
    program.store(Base::Frame, 8, 4, addresses.1);
    program.store(Base::Frame, 12, 2, ether_type);
    let none = program.constant(0);
    program.note_outer(none);
    program.place(done);
    program.forward();
}
