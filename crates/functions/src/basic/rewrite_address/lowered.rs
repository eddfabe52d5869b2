//! The rewriting of IPv4 addresses in micro-operations.
//!
//! What has options, is not whole, or is a fragment without a transport header is
//! punted, and so is IPv6.

use weft_function::lower::{
    Base, Builder, Checksum, ContextField, Label, Note, Operator, Program, Value,
};
use weft_function::{Direction, Lower, TagSlot, context_field};
use weft_wire::{EtherType, Protocol};

use super::substitute::Stored;
use super::{Context, RewriteAddress};
use crate::common::prefix::Masked;

/// Translations of one side that are worth comparing one after the other.
const FEW: usize = 4;

/// [`Operator::Difference32`] of a field that stays.
const NO_DIFFERENCE: u64 = u32::MAX as u64;

/// The fields of one side of a context.
struct Fields {
    family: ContextField,
    has_original: ContextField,
    address: ContextField,
    original: ContextField,
}

const SOURCE: Fields = Fields {
    family: context_field!(Context, source.family: u32),
    has_original: context_field!(Context, source.has_original: u32),
    address: context_field!(Context, source.address: u32),
    original: context_field!(Context, source.original: u32),
};
const DESTINATION: Fields = Fields {
    family: context_field!(Context, destination.family: u32),
    has_original: context_field!(Context, destination.has_original: u32),
    address: context_field!(Context, destination.address: u32),
    original: context_field!(Context, destination.original: u32),
};

impl Lower for RewriteAddress {
    const FIELDS: &'static [ContextField] = &[
        SOURCE.family,
        SOURCE.has_original,
        SOURCE.address,
        SOURCE.original,
        DESTINATION.family,
        DESTINATION.has_original,
        DESTINATION.address,
        DESTINATION.original,
    ];

    fn lower(&self, mut program: Builder) -> Option<Program> {
        if self.source.v4.len() > FEW || self.destination.v4.len() > FEW {
            return None;
        }
        let (punt, pass) = (program.label(), program.label());
        if !self.reverse {
            let direction = program.tag(TagSlot::DIRECTION);
            let is_uplink = program.is(direction, Direction::Uplink as u64);
            let is_downlink = program.not(is_uplink);
            program.branch(is_downlink, pass);
        }
        let octets = check_ip(&mut program, punt);
        let protocol = program.note(Note::Protocol);
        let (tcp, other) = (program.label(), program.label());
        let is_tcp = program.is(protocol, Protocol::TCP.0.into());
        program.branch(is_tcp, tcp);
        let is_udp = program.is(protocol, Protocol::UDP.0.into());
        let is_other = program.not(is_udp);
        program.branch(is_other, other);
        check_udp(&mut program, octets, punt);
        self.rewrite(&mut program, Some(Checksum::Udp));
        program.place(tcp);
        check_tcp(&mut program, octets, punt);
        self.rewrite(&mut program, Some(Checksum::Tcp));
        program.place(other);
        let is_icmpv6 = program.is(protocol, Protocol::ICMPV6.0.into());
        program.branch(is_icmpv6, punt);
        self.rewrite(&mut program, None);
        program.place(punt);
        program.punt();
        program.place(pass);
        Some(program.finish())
    }
}

/// Punts what is not a whole IPv4 header of 20 octets with a transport header
/// behind it. Returns how many octets there are behind it.
fn check_ip(program: &mut Builder, punt: Label) -> Value {
    let ether_type = program.note(Note::EtherType);
    let is_ipv4 = program.is(ether_type, EtherType::IPV4.0.into());
    let is_other = program.not(is_ipv4);
    program.branch(is_other, punt);
    program.require(Base::Network, 20, punt);
    let (start, frame) = (program.note(Note::NetworkOffset), program.length());
    let noted = program.note(Note::NetworkLength);
    let twenty = program.constant(20);

    let version_and_length = program.load(Base::Network, 0, 1);
    let is_plain = program.is(version_and_length, 0x45);
    let total = program.load(Base::Network, 2, 2);
    let is_noted = program.equal(total, noted);
    let behind = program.add(start, twenty);
    let transport = program.note(Note::TransportOffset);
    let is_behind = program.equal(transport, behind);
    let is_short = program.less(noted, twenty);
    let end = program.add(start, noted);
    let is_cut = program.less(frame, end);

    let mut wrong = program.or(is_short, is_cut);
    for right in [is_plain, is_noted, is_behind] {
        let other = program.not(right);
        wrong = program.or(wrong, other);
    }
    program.branch(wrong, punt);
    program.subtract(noted, twenty)
}

/// Punts what is not a UDP header (RFC 768).
fn check_udp(program: &mut Builder, octets: Value, punt: Label) {
    program.require(Base::Transport, 8, punt);
    let eight = program.constant(8);
    let is_short = program.less(octets, eight);
    let length = program.load(Base::Transport, 4, 2);
    let is_wrong = program.less(length, eight);
    let wrong = program.or(is_short, is_wrong);
    program.branch(wrong, punt);
}

/// Punts what is not a TCP header (RFC 9293 §3.1).
fn check_tcp(program: &mut Builder, octets: Value, punt: Label) {
    program.require(Base::Transport, 20, punt);
    let twenty = program.constant(20);
    let too_short = program.less(octets, twenty);
    let offset = program.load(Base::Transport, 12, 1);
    let words = program.shift_right(offset, 4);
    let length = program.shift_left(words, 2);
    let is_short = program.less(length, twenty);
    let is_long = program.less(octets, length);
    let wrong = program.or(too_short, is_short);
    let wrong = program.or(wrong, is_long);
    program.branch(wrong, punt);
}

impl RewriteAddress {
    /// Rewrites both addresses and ends the way of the packet. Most users have no address of
    /// their own: for these there is nothing to choose.
    fn rewrite(&self, program: &mut Builder, checksum: Option<Checksum>) {
        let own = program.label();
        let families =
            (program.load_context(SOURCE.family), program.load_context(DESTINATION.family));
        let has_own = program.or(families.0, families.1);
        program.branch(has_own, own);
        self.rewrite_as(false, program, checksum);
        program.place(own);
        self.rewrite_as(true, program, checksum);
    }

    /// The same for users that may have an address of their own, or have none.
    fn rewrite_as(&self, may_have_own: bool, program: &mut Builder, checksum: Option<Checksum>) {
        let direction = program.tag(TagSlot::DIRECTION);
        let is_uplink = program.is(direction, Direction::Uplink as u64);
        let is_downlink = program.not(is_uplink);
        let before = (program.load(Base::Network, 12, 4), program.load(Base::Network, 16, 4));
        let down = program.label();
        program.branch(is_downlink, down);
        let source = may_have_own.then_some(&SOURCE);
        let destination = may_have_own.then_some(&DESTINATION);
        let after = (
            forth(source, &self.source.v4, before.0, program),
            forth(destination, &self.destination.v4, before.1, program),
        );
        replace(before, after, checksum, program);
        program.place(down);
        let after = (
            back(destination, &self.destination.v4, before.0, program),
            back(source, &self.source.v4, before.1, program),
        );
        replace(before, after, checksum, program);
    }
}

/// What stands there uplink in place of `address`; `own` is of a user that may have one.
fn forth(
    own: Option<&Fields>,
    table: &[(Masked<u32>, Masked<u32>)],
    address: Value,
    program: &mut Builder,
) -> Value {
    let translated = translated(table.iter().copied(), address, program);
    let Some(own) = own else { return translated };
    let family = program.load_context(own.family);
    let has_own = program.is(family, Stored::V4.into());
    let own = program.load_context(own.address);
    program.select(has_own, own, translated)
}

/// What `address` stands for downlink.
fn back(
    own: Option<&Fields>,
    table: &[(Masked<u32>, Masked<u32>)],
    address: Value,
    program: &mut Builder,
) -> Value {
    let translated = translated(table.iter().map(|(from, to)| (*to, *from)), address, program);
    let Some(own) = own else { return translated };
    let family = program.load_context(own.family);
    let has_own = program.is(family, Stored::V4.into());
    let has_original = program.load_context(own.has_original);
    let (own, original) = (program.load_context(own.address), program.load_context(own.original));
    let is_own = program.equal(address, own);
    let original = program.select(has_original, original, address);
    let original = program.select(is_own, original, address);
    program.select(has_own, original, translated)
}

/// The first translation that applies.
fn translated(
    table: impl DoubleEndedIterator<Item = (Masked<u32>, Masked<u32>)>,
    address: Value,
    program: &mut Builder,
) -> Value {
    table.rev().fold(address, |otherwise, (from, to)| {
        let prefix = program.masked(address, from.mask.into());
        let applies = program.is(prefix, from.bits.into());
        let rest = program.masked(address, (!to.mask).into());
        let bits = program.constant(to.bits.into());
        let new = program.or(bits, rest);
        program.select(applies, new, otherwise)
    })
}

/// Writes the addresses, repairs what covers them, and lets the packet go on.
fn replace(
    before: (Value, Value),
    after: (Value, Value),
    checksum: Option<Checksum>,
    program: &mut Builder,
) {
    // An address that nothing translates is the value that it was.
    let (mut changed, mut is_same) = (None, None);
    for (before, after) in [(before.0, after.0), (before.1, after.1)] {
        let difference = match before == after {
            true => program.constant(NO_DIFFERENCE),
            false => program.arithmetic(Operator::Difference32, before, after),
        };
        changed = Some(changed.map_or(difference, |sum| program.add(sum, difference)));
        if before != after {
            let same = program.equal(before, after);
            is_same = Some(is_same.map_or(same, |other| program.and(other, same)));
        }
    }
    if let (Some(changed), Some(is_same)) = (changed, is_same) {
        // Addresses that stay count as a zero that a checksum may show.
        let zero = program.constant(0);
        let change = program.select(is_same, zero, changed);
        program.store(Base::Network, 12, 4, after.0);
        program.store(Base::Network, 16, 4, after.1);
        program.repair(Checksum::Ipv4, change);
        if let Some(checksum) = checksum {
            program.repair(checksum, change);
        }
    }
    program.forward();
}
