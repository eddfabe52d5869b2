//! The counter in micro-operations.
//!
//! Where the count goes into the payload, plain UDP and TCP is written: what has no room for
//! the count, ends with it at an odd place, or has options between the TCP header and its data,
//! is punted.

use weft_function::lower::{
    Base, Builder, Checksum, ContextField, Label, Note, Operator, Program, Value,
};
use weft_function::{Lower, context_field};
use weft_wire::{EtherType, Protocol};

use super::{Context, Counter, Payload};

const PACKETS: ContextField = context_field!(Context, packets: u64);
const BYTES: ContextField = context_field!(Context, bytes: u64);

/// Octets of headers without options (RFC 768; RFC 9293 §3.1).
const UDP: u16 = 8;
const TCP: u16 = 20;
/// Bytes from the transport header on that a program may ask for.
const FAR: u16 = 1024;

impl Lower for Counter {
    const FIELDS: &'static [ContextField] = &[PACKETS, BYTES];

    fn lower(&self, mut program: Builder) -> Option<Program> {
        let Some(place) = self.payload else {
            count(&mut program);
            return Some(program.finish());
        };
        if place.offset > FAR {
            return None;
        }
        let (punt, tcp) = (program.label(), program.label());
        let octets = transport(&mut program, punt);
        let protocol = program.note(Note::Protocol);
        let is_tcp = program.is(protocol, Protocol::TCP.0.into());
        program.branch(is_tcp, tcp);
        let is_udp = program.is(protocol, Protocol::UDP.0.into());
        let is_other = program.not(is_udp);
        program.branch(is_other, punt);
        require(&mut program, UDP, place, octets, punt);
        // A datagram may end before the IP packet does (RFC 768).
        let datagram = program.load(Base::Transport, 4, 2);
        require(&mut program, UDP, place, datagram, punt);
        write(&mut program, UDP, place, Checksum::Udp, punt);
        program.forward();
        program.place(tcp);
        require(&mut program, TCP, place, octets, punt);
        let offset = program.load(Base::Transport, 12, 1);
        let words = program.shift_right(offset, 4);
        let is_plain = program.is(words, (TCP / 4).into());
        let has_options = program.not(is_plain);
        program.branch(has_options, punt);
        write(&mut program, TCP, place, Checksum::Tcp, punt);
        program.forward();
        program.place(punt);
        program.punt();
        Some(program.finish())
    }
}

/// Counts, and says how many packets there are.
fn count(program: &mut Builder) -> Value {
    let (before, one) = (program.load_context(PACKETS), program.constant(1));
    let packets = program.add(before, one);
    program.store_context(PACKETS, packets);
    let bytes = program.ip_length();
    program.add_context(BYTES, bytes);
    packets
}

/// Octets from the transport header to the end of the IP packet; punts where there is
/// none, or not all of it.
fn transport(program: &mut Builder, punt: Label) -> Value {
    let ether_type = program.note(Note::EtherType);
    let is_ipv4 = program.is(ether_type, EtherType::IPV4.0.into());
    let is_ipv6 = program.is(ether_type, EtherType::IPV6.0.into());
    let is_ip = program.or(is_ipv4, is_ipv6);
    let start = program.note(Note::TransportOffset);
    let (network, length) = (program.note(Note::NetworkOffset), program.note(Note::NetworkLength));
    let (end, frame) = (program.add(network, length), program.length());
    let is_missing = program.is(start, 0);
    let is_short = program.less(end, start);
    let is_cut = program.less(frame, end);
    let mut wrong = program.not(is_ip);
    for one in [is_missing, is_short, is_cut] {
        wrong = program.or(wrong, one);
    }
    program.branch(wrong, punt);
    program.subtract(end, start)
}

/// Whether the count shares words of 16 bits, as a checksum adds them, with what is around it.
/// Both transport headers are of even length.
fn is_odd(place: Payload) -> bool {
    !place.offset.is_multiple_of(2)
}

/// Punts what has no room for the count behind a header, in `octets` from its start. At an odd
/// place there must be one octet more, so that words are whole.
fn require(program: &mut Builder, header: u16, place: Payload, octets: Value, punt: Label) {
    let room = header + place.offset + u16::from(place.width) + u16::from(is_odd(place));
    program.require(Base::Transport, room, punt);
    let room = program.constant(room.into());
    let is_short = program.less(octets, room);
    program.branch(is_short, punt);
}

/// Counts, writes the count and repairs the checksum that covers it.
fn write(program: &mut Builder, header: u16, place: Payload, checksum: Checksum, punt: Label) {
    let (before, one) = (program.load_context(PACKETS), program.constant(1));
    let mut next = program.add(before, one);
    if place.width == 4 {
        next = program.masked(next, u32::MAX.into());
    }
    // A count that begins again is nothing but zeros, of which a checksum has two kinds.
    let is_zero = program.is(next, 0);
    program.branch(is_zero, punt);
    count(program);
    let at = header + place.offset;
    let change = match is_odd(place) {
        true => put_odd(program, at, place.width, next),
        false => put_even(program, at, place.width, next),
    };
    program.repair(checksum, change);
}

/// Writes a count at an even place, and says what that changes.
fn put_even(program: &mut Builder, at: u16, width: u8, count: Value) -> Value {
    let low = program.masked(count, u32::MAX.into());
    let words = match width {
        4 => vec![(at, low)],
        _ => vec![(at, program.shift_right(count, 32)), (at + 4, low)],
    };
    let mut change = program.constant(0);
    for (at, word) in words {
        let old = program.load(Base::Transport, at, 4);
        let difference = program.arithmetic(Operator::Difference32, old, word);
        change = program.add(change, difference);
        program.store(Base::Transport, at, 4, word);
    }
    change
}

/// The same at an odd place: words of 16 bits, the first and the last of which are half the
/// count's.
fn put_odd(program: &mut Builder, at: u16, width: u8, count: Value) -> Value {
    let words = u32::from(width) / 2 + 1;
    let mut change = program.constant(0);
    for number in 0..words {
        let at = at - 1 + 2 * number as u16;
        let old = program.load(Base::Transport, at, 2);
        // Bits of the count behind the word.
        let behind = (8 * (u32::from(width) - 1)).checked_sub(16 * number);
        let own = match behind {
            Some(behind) => program.shift_right(count, behind),
            None => program.shift_left(count, 8),
        };
        let word = if number == 0 || behind.is_none() {
            let (own_mask, other_mask) = if number == 0 { (0xff, 0xff00) } else { (0xff00, 0xff) };
            let (own, other) = (program.masked(own, own_mask), program.masked(old, other_mask));
            program.or(own, other)
        } else {
            program.masked(own, u16::MAX.into())
        };
        let difference = program.arithmetic(Operator::Difference16, old, word);
        change = program.add(change, difference);
        program.store(Base::Transport, at, 2, word);
    }
    change
}
