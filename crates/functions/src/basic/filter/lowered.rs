//! A filter of few rules in micro-operations. IPv6 is punted, and so are
//! fragments where they matter.

use weft_function::lower::{Base, Builder, Label, Note, Program, Value};
use weft_function::{Lower, PacketMetadata};
use weft_wire::{EtherType, Protocol};

use super::{Action, Compact, Filter};
use crate::common::prefix::Masked;
use crate::common::text::PortRange;

/// Rules that are worth comparing all at once.
const FEW: usize = 8;

/// Positions in `DROPS`.
const DENIED: u8 = 0;

impl Lower for Filter {
    fn lower(&self, mut program: Builder) -> Option<Program> {
        if self.v4.len() > FEW {
            return None;
        }
        let (punt, other, denied) = (program.label(), program.label(), program.label());
        if self.deny_short_fragments {
            let flags = program.note(Note::Flags);
            let fragment = program.masked(flags, PacketMetadata::FRAGMENT.into());
            program.branch(fragment, punt);
        }
        let ether_type = program.note(Note::EtherType);
        let is_ipv4 = program.is(ether_type, EtherType::IPV4.0.into());
        let is_other = program.not(is_ipv4);
        program.branch(is_other, other);
        program.require(Base::Network, 20, punt);
        let flow = Flow {
            source: program.load(Base::Network, 12, 4),
            destination: program.load(Base::Network, 16, 4),
            protocol: program.note(Note::Protocol),
        };
        if self.v4.iter().any(|rule| rule.needs_ports) {
            for known in [Protocol::UDP, Protocol::TCP, Protocol::SCTP] {
                let next = program.label();
                let is_known = program.is(flow.protocol, known.0.into());
                let is_another = program.not(is_known);
                program.branch(is_another, next);
                self.decide_known(&flow, known, (denied, punt), &mut program);
                program.place(next);
            }
        }
        self.decide(&flow, (None, None), denied, &mut program);
        program.place(other);
        let is_ipv6 = program.is(ether_type, EtherType::IPV6.0.into());
        program.branch(is_ipv6, punt);
        match self.default {
            Action::Allow => program.forward(),
            Action::Deny => program.drop_for(DENIED),
        }
        program.place(denied);
        program.drop_for(DENIED);
        program.place(punt);
        program.punt();
        Some(program.finish())
    }
}

/// What the rules look at.
struct Flow {
    source: Value,
    destination: Value,
    protocol: Value,
}

impl Filter {
    /// Decides on packets of a protocol that has ports; looks at these where a rule
    /// asks for them.
    fn decide_known(
        &self,
        flow: &Flow,
        known: Protocol,
        (denied, punt): (Label, Label),
        program: &mut Builder,
    ) {
        let concerns =
            |rule: &Compact<u32>| rule.protocol.is_none_or(|protocol| protocol == known.0);
        if self.v4.iter().any(|rule| rule.needs_ports && concerns(rule)) {
            let portless = program.label();
            let has_ports = has_ports(program);
            let has_none = program.not(has_ports);
            program.branch(has_none, portless);
            program.require(Base::Transport, 4, punt);
            let ports = (program.load(Base::Transport, 0, 2), program.load(Base::Transport, 2, 2));
            self.decide(flow, (Some(known), Some(ports)), denied, program);
            program.place(portless);
        }
        self.decide(flow, (Some(known), None), denied, program);
    }

    /// Ends the way of a packet as the first rule says that matches.
    fn decide(
        &self,
        flow: &Flow,
        (known, ports): (Option<Protocol>, Option<(Value, Value)>),
        denied: Label,
        program: &mut Builder,
    ) {
        let denies = |action| u64::from(action == Action::Deny);
        let mut is_denied = program.constant(denies(self.default));
        for rule in self.v4.iter().rev() {
            let action = program.constant(denies(rule.action));
            is_denied = match matches(rule, flow, (known, ports), program) {
                Match::Never => continue,
                Match::Always => action,
                Match::When(when) => program.select(when, action, is_denied),
            };
        }
        program.branch(is_denied, denied);
        program.forward();
    }
}

enum Match {
    Never,
    Always,
    When(Value),
}

/// Whether a rule matches; it looks at what it names only.
fn matches(
    rule: &Compact<u32>,
    flow: &Flow,
    (known, ports): (Option<Protocol>, Option<(Value, Value)>),
    program: &mut Builder,
) -> Match {
    let mut flags = Vec::new();
    for (prefix, address) in [(rule.source, flow.source), (rule.destination, flow.destination)] {
        if prefix != Masked::default() {
            let bits = program.masked(address, prefix.mask.into());
            flags.push(program.is(bits, (prefix.bits & prefix.mask).into()));
        }
    }
    match (rule.protocol, known) {
        (None, _) => {}
        (Some(protocol), None) => flags.push(program.is(flow.protocol, protocol.into())),
        (Some(protocol), Some(known)) if protocol == known.0 => {}
        _ => return Match::Never,
    }
    if rule.needs_ports {
        let Some((source, destination)) = ports else { return Match::Never };
        for (range, port) in [(rule.source_ports, source), (rule.destination_ports, destination)] {
            flags.extend(contains(range, port, program));
        }
    }
    let joined = flags.into_iter().reduce(|one, other| program.and(one, other));
    joined.map_or(Match::Always, Match::When)
}

/// None for all ports.
fn contains(range: PortRange, port: Value, program: &mut Builder) -> Option<Value> {
    if range == PortRange::ALL {
        return None;
    }
    if range.first == range.last {
        return Some(program.is(port, range.first.into()));
    }
    // One comparison: what is below the first wraps round.
    let first = program.constant(range.first.into());
    let above = program.subtract(port, first);
    let count = program.constant(u64::from(range.last - range.first) + 1);
    Some(program.less(above, count))
}

/// Whether there are ports where [`Headers::ports`](weft_function::Headers::ports)
/// finds them, in a packet of a protocol that has some.
fn has_ports(program: &mut Builder) -> Value {
    let start = program.note(Note::TransportOffset);
    let network = program.note(Note::NetworkOffset);
    let octets = program.note(Note::NetworkLength);
    let end = program.add(network, octets);
    let frame = program.length();
    let four = program.constant(4);
    let behind = program.add(start, four);
    let zero = program.constant(0);
    let is_there = program.less(zero, start);
    let is_short = program.less(end, behind);
    let is_long = program.less(frame, end);
    let is_wrong = program.or(is_short, is_long);
    let is_right = program.not(is_wrong);
    program.and(is_there, is_right)
}
