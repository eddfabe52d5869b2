//! Decapsulation in micro-operations, of G-PDUs over IPv4.
//!
//! Outer headers of IPv6 or with options are punted, extension headers other than
//! one PDU session container, and inner packets of IPv6 whose address is checked.

use weft_function::lower::{Base, Builder, ContextField, Label, Note, Program, Value};
use weft_function::{Direction, Lower, TagSlot, context_field};
use weft_wire::EtherType;

use super::{Context, GtpuDecapsulate, INSIDE_ONLY};
use crate::gtpu::tunnel::lowered::{HEADERS, IP, OUTER, PLAIN, check_header};

const PEER: ContextField = context_field!(Context, peer_ipv4: u32);
const PEER_FAMILY: ContextField = context_field!(Context, peer_family: u8);
const IPV4: ContextField = context_field!(Context, ipv4: u32);
const HAS_IPV4: ContextField = context_field!(Context, has_ipv4: u8);
const HAS_ADDRESSES: ContextField = context_field!(Context, has_addresses: u8);
const HAS_QFI: ContextField = context_field!(Context, has_qfi: u8);
const QFI: ContextField = context_field!(Context, qfi: u8);

/// Positions in `DROPS`.
const END_MARKER: u8 = 1;
const WRONG_PEER: u8 = 2;
const WRONG_QFI: u8 = 3;
const SPOOFED: u8 = 6;

/// In the first octet of a message: an extension header follows.
const EXTENSION: u64 = weft_wire::gtpu::EXTENSION_FLAG as u64;

impl Lower for GtpuDecapsulate {
    const FIELDS: &'static [ContextField] =
        &[PEER, PEER_FAMILY, IPV4, HAS_IPV4, HAS_ADDRESSES, HAS_QFI, QFI];

    fn lower(&self, mut program: Builder) -> Option<Program> {
        let punt = program.label();
        let drops = [END_MARKER, WRONG_PEER, WRONG_QFI, SPOOFED];
        let drops = drops.map(|reason| (program.label(), reason));
        let [(end_marker, _), (wrong_peer, _), (wrong_qfi, _), (spoofed, _)] = drops;

        let (outer, network) = (program.note(Note::OuterOffset), program.note(Note::NetworkOffset));
        let is_outside = program.is(outer, 0);
        program.branch(is_outside, punt);
        let is_alone = program.equal(outer, network);
        program.branch(is_alone, end_marker);
        let link_header = program.constant(OUTER.into());
        let is_odd = program.less(network, link_header);
        program.branch(is_odd, punt);
        program.require(Base::Outer, PLAIN, punt);
        let version_and_length = program.load(Base::Outer, 0, 1);
        let is_plain = program.is(version_and_length, 0x45);
        let is_other = program.not(is_plain);
        program.branch(is_other, punt);

        check_message(outer, wrong_qfi, punt, &mut program);
        check_peer(wrong_peer, punt, &mut program);
        let flags = program.note(Note::Flags);
        let inside_only = program.masked(flags, INSIDE_ONLY.into());
        program.branch(inside_only, punt);
        program.require(Base::Network, IP, punt);
        check_address(spoofed, punt, &mut program);
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

/// Checks extension headers and the QoS flow, as `Context::refuses`; without either
/// the message is not looked at.
fn check_message(outer: Value, wrong_qfi: Label, punt: Label, program: &mut Builder) {
    let (asked, done) = (program.label(), program.label());
    let has_qfi = program.load_context(HAS_QFI);
    program.branch(has_qfi, asked);
    let flags = program.load(Base::Outer, HEADERS, 1);
    let extension = program.masked(flags, EXTENSION);
    let has_none = program.is(extension, 0);
    program.branch(has_none, done);

    program.place(asked);
    let first = program.load(Base::Outer, HEADERS, 4);
    check_header(first, (Base::Outer, HEADERS), punt, program);
    let length = program.masked(first, u16::MAX.into());
    let (headers, frame) = (program.constant(PLAIN.into()), program.length());
    let begin = program.add(outer, headers);
    let end = program.add(begin, length);
    let is_cut = program.less(frame, end);
    program.branch(is_cut, punt);
    let has_qfi = program.load_context(HAS_QFI);
    let is_any = program.is(has_qfi, 0);
    program.branch(is_any, done);

    let flags = program.load(Base::Outer, HEADERS, 1);
    let extension = program.masked(flags, EXTENSION);
    let has_none = program.is(extension, 0);
    program.branch(has_none, wrong_qfi);
    program.require(Base::Outer, PLAIN + 8, punt);
    let container = program.load(Base::Outer, HEADERS + 13, 2);
    // Of type 0 or 1, and none of the flags that announce more in one of them.
    let announced = program.masked(container, 0xefc0);
    program.branch(announced, punt);
    let (carried, own) = (program.masked(container, 0x3f), program.load_context(QFI));
    let is_own = program.equal(carried, own);
    let is_other = program.not(is_own);
    program.branch(is_other, wrong_qfi);
    program.place(done);
}

/// Checks whom the tunnel's packet comes from.
fn check_peer(wrong_peer: Label, punt: Label, program: &mut Builder) {
    let family = program.load_context(PEER_FAMILY);
    let is_ipv6 = program.is(family, 6);
    program.branch(is_ipv6, punt);
    let (peer, source) = (program.load_context(PEER), program.load(Base::Outer, 12, 4));
    let (is_checked, is_peer) = (program.is(family, 4), program.equal(peer, source));
    let is_another = program.not(is_peer);
    let is_wrong = program.and(is_checked, is_another);
    program.branch(is_wrong, wrong_peer);
}

/// Checks the address that is the user's, as `Context::is_users`.
fn check_address(spoofed: Label, punt: Label, program: &mut Builder) {
    let has_addresses = program.load_context(HAS_ADDRESSES);
    let is_checked = program.is(has_addresses, 1);
    let ether_type = program.note(Note::EtherType);
    let is_ipv4 = program.is(ether_type, EtherType::IPV4.0.into());
    let is_other = program.not(is_ipv4);
    let cannot = program.and(is_checked, is_other);
    program.branch(cannot, punt);
    let direction = program.tag(TagSlot::DIRECTION);
    let is_uplink = program.is(direction, Direction::Uplink as u64);
    let from = program.load(Base::Network, 12, 4);
    let to = program.load(Base::Network, 16, 4);
    let address = program.select(is_uplink, from, to);
    let (own, has_own) = (program.load_context(IPV4), program.load_context(HAS_IPV4));
    let (is_own, one) = (program.equal(address, own), program.is(has_own, 1));
    let is_users = program.and(is_own, one);
    let is_not = program.not(is_users);
    let is_spoofed = program.and(is_checked, is_not);
    program.branch(is_spoofed, spoofed);
}

/// Takes the tunnel off and lets the packet go on, as `Tunnel::unwrap_tunnel`.
fn unwrap(network: Value, punt: Label, program: &mut Builder) {
    let addresses = (program.load(Base::Frame, 0, 8), program.load(Base::Frame, 8, 4));
    let (ether_type, noted) = (program.note(Note::EtherType), program.note(Note::NetworkLength));
    let link_header = program.constant(OUTER.into());
    let end = program.add(noted, link_header);
    program.front(network, OUTER, 0, punt);
    program.store(Base::Frame, 0, 8, addresses.0);
    program.store(Base::Frame, 8, 4, addresses.1);
    program.store(Base::Frame, 12, 2, ether_type);
    program.truncate(end);
    program.forward();
}
