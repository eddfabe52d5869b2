//! The ways of packets: from the inside, and from the outside.

use weft_function::{Direction, Emit, Headers as _, Metadata, Packet, PacketMetadata, Reason};
use weft_wire::{Protocol, tcp};

use super::blocks::NONE;
use super::config::Timeouts;
use super::log::BlockChange;
use super::state::{Far, Inside, Lack, Mapping, key};
use super::translate::{header_of, kind_of, rewrite, rewrite_plain, rewrite_quoted};
use super::{
    CHECKSUM, Context, FOREIGN, FRAGMENT, NO_BLOCK, NO_MAPPING, NO_PORT, NO_ROOM, NOT_INSIDE, Nat,
    PROTOCOL, SEARCH_PAUSE_BITS, SECOND,
};
use crate::common::first_fragments::mix;
use crate::common::shared_ports::{End, Header, Kind, is_sound, quoted};

impl Nat {
    /// A plain packet whose mapping is there, as nearly all are: by the key that was noted
    /// of it. None for others.
    #[inline(always)]
    pub fn translate_noted(
        &mut self,
        packet: &mut Packet,
        key: u64,
        direction: Direction,
    ) -> Option<Result<(), Reason>> {
        let now = self.now;
        if direction == Direction::Uplink {
            let user = packet.metadata().user;
            let mapping = self.state.find_inside(key)?;
            // A mapping that knows its user is its own, and the user's timer is set.
            if mapping.user != user || mapping.expires <= now {
                return None;
            }
            let (address, port) = (mapping.address, mapping.port);
            if !refresh(mapping, &self.timeouts, key, packet, now) {
                self.follow(key, packet);
            }
            let other = rewrite_plain(packet, key as u8, End::Source, address, port)?;
            return Some(self.turn(packet, other));
        }
        let target = self.state.find_outside(key, now)?;
        self.hear(target.inside(key as u8), packet);
        rewrite_plain(packet, key as u8, End::Destination, target.address, target.port)?;
        belongs_to(packet, target.user);
        Some(Ok(()))
    }

    /// From the inside. What is for a public address turns round here.
    #[inline]
    pub fn outbound(
        &mut self,
        packet: &mut Packet,
        context: &mut Context,
        header: &Header,
        kind: Kind,
        emit: &mut Emit<'_>,
    ) -> Result<(), Reason> {
        let (address, port) = match kind {
            Kind::Ports(port, _) | Kind::Query(port) => {
                let inside = Inside { address: header.source, port, protocol: header.protocol };
                let (address, port) = self.leave(packet, context, inside, emit)?;
                (address, Some(port))
            }
            Kind::Error => return self.outbound_error(packet, context, header),
            Kind::Later => (self.state.address(&context.holding).ok_or(FRAGMENT)?, None),
            Kind::Other => return Err(PROTOCOL),
        };
        if !rewrite(packet, End::Source, address, port) {
            return Err(PROTOCOL);
        }
        self.turn(packet, header.destination)
    }

    /// What comes from inside and is for a public address goes to who has it (RFC 4787
    /// §6), from the public address that it has now.
    #[inline]
    fn turn(&mut self, packet: &mut Packet, destination: u32) -> Result<(), Reason> {
        if !self.state.pool().contains(destination) {
            return Ok(());
        }
        let header = header_of(packet).ok_or(PROTOCOL)?;
        let kind = kind_of(packet, &header);
        self.inbound(packet, &header, kind)
    }

    /// From the outside.
    #[inline]
    pub fn inbound(
        &mut self,
        packet: &mut Packet,
        header: &Header,
        kind: Kind,
    ) -> Result<(), Reason> {
        if !self.state.pool().contains(header.destination) {
            return Ok(());
        }
        let now = self.now;
        let (inside, port, user) = match kind {
            Kind::Ports(_, port) | Kind::Query(port) => {
                let key = key(header.destination, port, header.protocol);
                let target = self.state.find_outside(key, now).ok_or(NO_MAPPING)?;
                self.hear(target.inside(header.protocol), packet);
                (target.address, Some(target.port), target.user)
            }
            Kind::Error => return self.inbound_error(packet),
            Kind::Later => {
                let (inside, user) = self.fragments.find(header, now).ok_or(FRAGMENT)?;
                (inside, None, user)
            }
            Kind::Other => return Err(PROTOCOL),
        };
        if packet.metadata().flags & PacketMetadata::FRAGMENT != 0 && port.is_some() {
            self.fragments.note(header, (inside, user), now);
        }
        if !rewrite(packet, End::Destination, inside, port) {
            return Err(PROTOCOL);
        }
        belongs_to(packet, user);
        Ok(())
    }

    /// An error from inside about a packet that had come in (RFC 5508 §4.2): it names
    /// the public address, and comes from there.
    #[cold]
    fn outbound_error(
        &mut self,
        packet: &mut Packet,
        context: &Context,
        header: &Header,
    ) -> Result<(), Reason> {
        let (address, port, protocol) = about(packet, End::Destination)?;
        let mapping = *self.state.find_inside(key(address, port, protocol)).ok_or(NO_MAPPING)?;
        let (address, port) = (mapping.address, mapping.port);
        if mapping.expires <= self.now {
            return Err(NO_MAPPING);
        }
        if !self.is_own(context, &mapping) {
            return Err(FOREIGN);
        }
        let done = rewrite_quoted(packet, End::Destination, address, port)
            && rewrite(packet, End::Source, address, None);
        if !done {
            return Err(PROTOCOL);
        }
        self.turn(packet, header.destination)
    }

    /// An error from outside about a packet that had gone out.
    #[cold]
    fn inbound_error(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        let (address, port, protocol) = about(packet, End::Source)?;
        let target = self.state.find_outside(key(address, port, protocol), self.now);
        let target = target.ok_or(NO_MAPPING)?;
        let done = rewrite_quoted(packet, End::Source, target.address, target.port)
            && rewrite(packet, End::Destination, target.address, None);
        belongs_to(packet, target.user);
        if done { Ok(()) } else { Err(PROTOCOL) }
    }

    /// Public address and port of what comes from this inside address and port.
    fn leave(
        &mut self,
        packet: &Packet,
        context: &mut Context,
        inside: Inside,
        emit: &mut Emit<'_>,
    ) -> Result<(u32, u16), Reason> {
        if !self.has(context, inside, emit.now())? {
            self.make(context, inside, emit)?;
        }
        if !context.waits {
            self.wait(context, emit);
        }
        let user = packet.metadata().user;
        let key = inside.key();
        let mapping = self.state.find_inside(key).ok_or(NO_ROOM)?;
        let mapping = match refresh(mapping, &self.timeouts, key, packet, emit.now()) {
            true => *mapping,
            false => self.follow(key, packet).ok_or(NO_ROOM)?,
        };
        let Mapping { address, port, user: known, .. } = mapping;
        if known != user {
            self.state.settle_user(inside.key(), user, context.waits);
        }
        Ok((address, port))
    }

    /// Whether the user has a mapping of its own already.
    fn has(&mut self, context: &mut Context, inside: Inside, now: u64) -> Result<bool, Reason> {
        let Some(mapping) = self.state.find_inside(inside.key()).copied() else {
            return Ok(false);
        };
        match (mapping.expires > now, self.is_own(context, &mapping)) {
            (true, true) => Ok(true),
            (true, false) => Err(FOREIGN),
            (false, true) => {
                self.state.end(&mut context.holding, &mapping);
                Ok(false)
            }
            (false, false) => Ok(false),
        }
    }

    fn is_own(&self, context: &Context, mapping: &Mapping) -> bool {
        let own = self.own_block(context);
        own.is_some() && own == self.state.block_of(mapping)
    }

    /// The user's block.
    #[inline(always)]
    fn own_block(&self, context: &Context) -> Option<u32> {
        self.state.knows(&context.holding).then_some(context.holding.block)
    }

    /// A new mapping, in a new block if the user has none.
    #[cold]
    fn make(
        &mut self,
        context: &mut Context,
        inside: Inside,
        emit: &mut Emit<'_>,
    ) -> Result<(), Reason> {
        let wanted = match self.deterministic {
            Some((first, last)) if (first..=last).contains(&inside.address) => {
                Some(inside.address - first)
            }
            Some(_) => return Err(NOT_INSIDE),
            None => None,
        };
        // A user has one block, and so one inside address with a place of its own.
        let own = self.own_block(context).filter(|own| *own != NONE);
        if wanted.is_some() && own.is_some() && own != wanted {
            return Err(NOT_INSIDE);
        }
        let now = emit.now();
        let pause = (now >> SEARCH_PAUSE_BITS) as u32 + 1;
        let searched = place(inside.protocol);
        let made = if context.searched[searched] == pause {
            Err(Lack::Port)
        } else {
            context.inside = inside.address;
            self.state.claim(&mut context.holding, wanted, now).and_then(|new| {
                if new {
                    self.note(context, BlockChange::Allocated);
                }
                let expires = now + SECOND;
                self.state.map(&mut context.holding, inside, expires, hash(self.seed, inside), now)
            })
        };
        made.inspect(|()| context.made += 1).map_err(|lack| {
            context.refused += 1;
            match lack {
                Lack::Block => NO_BLOCK,
                Lack::Port => {
                    context.searched[searched] = pause;
                    NO_PORT
                }
                Lack::Room => NO_ROOM,
            }
        })
    }

    /// Sets the user's timer.
    #[cold]
    fn wait(&self, context: &mut Context, emit: &mut Emit<'_>) {
        let Timeouts { udp, tcp_transitory, icmp, .. } = self.timeouts;
        let shortest = u64::from(udp.min(tcp_transitory).min(icmp)) * SECOND;
        context.waits = emit.wake_at(emit.now() + shortest);
    }

    /// A segment of TCP from inside keeps its mapping as long as connections then stand.
    #[cold]
    fn follow(&mut self, key: u64, packet: &Packet) -> Option<Mapping> {
        let mapping = match far_of(packet, End::Destination) {
            Some(far) => self.state.sent(key, far, flags_of(packet))?,
            // A segment whose header is cut off.
            None => self.state.find_inside(key)?,
        };
        let seconds = match mapping.is_steady() {
            true => self.timeouts.tcp_established,
            false => self.timeouts.tcp_transitory,
        };
        mapping.expires = self.now + u64::from(seconds) * SECOND;
        Some(*mapping)
    }

    /// What comes from the outside says how a TCP connection stands, if the inside has
    /// sent to its far end. It never keeps a mapping (RFC 4787 REQ-6, RFC 7857 §2).
    #[inline(always)]
    fn hear(&mut self, inside: Inside, packet: &Packet) {
        if inside.protocol != Protocol::TCP.0 {
            return;
        }
        let flags = flags_of(packet);
        let Some(mapping) = self.state.find_inside(inside.key()) else { return };
        let changes = tcp::Flags::SYN.0 | tcp::Flags::FIN.0 | tcp::Flags::RST.0;
        if (flags.0 & changes != 0 || !mapping.is_steady())
            && let Some(far) = far_of(packet, End::Source)
        {
            let transitory = self.now + u64::from(self.timeouts.tcp_transitory) * SECOND;
            self.state.received(inside.key(), far, flags, transitory);
        }
    }
}

/// A packet from inside keeps its mapping. False for a segment of TCP that may change how
/// connections stand: [`Nat::follow`] keeps the mapping then.
#[inline(always)]
fn refresh(
    mapping: &mut Mapping,
    timeouts: &Timeouts,
    key: u64,
    packet: &Packet,
    now: u64,
) -> bool {
    let seconds = match Protocol(key as u8) {
        Protocol::TCP => {
            let changes = tcp::Flags::SYN.0 | tcp::Flags::FIN.0 | tcp::Flags::RST.0;
            if !mapping.is_steady() || flags_of(packet).0 & changes != 0 {
                return false;
            }
            timeouts.tcp_established
        }
        Protocol::UDP => timeouts.udp,
        _ => timeouts.icmp,
    };
    mapping.expires = now + u64::from(seconds) * SECOND;
    true
}

/// The control bits of a TCP segment.
#[inline(always)]
fn flags_of(packet: &Packet) -> tcp::Flags {
    let flags = packet.transport().and_then(|segment| segment.get(13)).copied();
    tcp::Flags(flags.unwrap_or_default())
}

/// The end of a TCP segment that is outside.
fn far_of(packet: &Packet, end: End) -> Option<Far> {
    let (source, destination) = packet.ports()?;
    match end {
        End::Source => Some(Far { address: packet.ipv4_source()?, port: source }),
        End::Destination => Some(Far { address: packet.ipv4_destination()?, port: destination }),
    }
}

fn hash(seed: u64, inside: Inside) -> u64 {
    let Inside { address, port, protocol } = inside;
    let word = u64::from(address) << 32 | u64::from(port) << 16 | u64::from(protocol);
    mix(mix(seed, word), seed)
}

/// Where a protocol is counted.
fn place(protocol: u8) -> usize {
    match Protocol(protocol) {
        Protocol::TCP => 0,
        Protocol::UDP => 1,
        _ => 2,
    }
}

/// One end of the packet that an ICMP error is about, if its checksums are right (RFC
/// 5508 REQ-3).
fn about(packet: &Packet, end: End) -> Result<(u32, u16, u8), Reason> {
    let message = packet.transport().unwrap_or_default();
    if !is_sound(message) {
        return Err(CHECKSUM);
    }
    quoted(message, end).ok_or(PROTOCOL)
}

/// From here on it is this user's packet.
#[inline]
fn belongs_to(packet: &mut Packet, user: u32) {
    if user != NONE {
        let metadata = packet.metadata_mut();
        (metadata.user, metadata.bearer) = (user, user);
    }
}
