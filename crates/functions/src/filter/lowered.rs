//! A filter of few rules in micro-operations. IPv6 is punted, and so are
//! fragments where they matter.

use weft_function::lower::{Base, Builder, Note, Program, Value};
use weft_function::{Annotations, Lower};
use weft_wire::{EtherType, Protocol};

use super::{Action, Compact, Filter};
use crate::prefix::Masked;
use crate::text::PortRange;

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
            let fragment = program.masked(flags, Annotations::FRAGMENT.into());
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
            let portless = program.label();
            let has_ports = has_ports(flow.protocol, &mut program);
            let has_none = program.not(has_ports);
            program.branch(has_none, portless);
            program.require(Base::Transport, 4, punt);
            let ports = (program.load(Base::Transport, 0, 2), program.load(Base::Transport, 2, 2));
            self.decide(&flow, Some(ports), denied, &mut program);
            program.place(portless);
        }
        self.decide(&flow, None, denied, &mut program);
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
    /// Ends the way of a packet as the first rule says that matches.
    fn decide(
        &self,
        flow: &Flow,
        ports: Option<(Value, Value)>,
        denied: weft_function::lower::Label,
        program: &mut Builder,
    ) {
        let denies = |action| u64::from(action == Action::Deny);
        let mut is_denied = program.constant(denies(self.default));
        for rule in self.v4.iter().rev() {
            let action = program.constant(denies(rule.action));
            is_denied = match matches(rule, flow, ports, program) {
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
    ports: Option<(Value, Value)>,
    program: &mut Builder,
) -> Match {
    let mut flags = Vec::new();
    for (prefix, address) in [(rule.source, flow.source), (rule.destination, flow.destination)] {
        if prefix != Masked::default() {
            let bits = program.masked(address, prefix.mask.into());
            flags.push(program.is(bits, (prefix.bits & prefix.mask).into()));
        }
    }
    if let Some(protocol) = rule.protocol {
        flags.push(program.is(flow.protocol, protocol.into()));
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
/// finds them.
fn has_ports(protocol: Value, program: &mut Builder) -> Value {
    let known = [Protocol::UDP, Protocol::TCP, Protocol::SCTP];
    let [udp, tcp, sctp] = known.map(|known| program.is(protocol, known.0.into()));
    let either = program.or(udp, tcp);
    let mut all = program.or(either, sctp);
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
    for flag in [is_there, is_right] {
        all = program.and(all, flag);
    }
    all
}
