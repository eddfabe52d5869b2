//! Every composition comes to the same: `process`, the interpreter over what a
//! function says in micro-operations, the interpreter over what the optimiser
//! made of that, and machine code.

mod random;

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use weft_compose::{Burst, Instance, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Packet, tsc};
use weft_function::{Metadata, PacketMetadata, Scope, Setup, TagSlot, TagTable};
use weft_fusion::{DroppedBy, Ended, Fused, FusedOutcome, FusedPart, LinkedProgram, interpret};

use crate::KINDS;
use crate::testing::{CONTEXTS, Spec, metadata, pool};
use random::{members, sent};

/// A function of a chain: its name, configuration, and settings of some slots.
#[derive(Clone, Debug)]
struct Member {
    name: &'static str,
    config: Value,
    settings: Vec<(u32, Value)>,
    /// Value of the tag `chain` behind it.
    sets: Option<u32>,
}

/// A packet, whose it is, and how it is tagged.
#[derive(Clone, Debug)]
struct Sent {
    spec: Spec,
    user: u32,
    group: u32,
    tags: (u32, u32),
    tunnel: Option<Around>,
    /// What the parser would never note, or a length that a UDP header should not have.
    odd: Option<(u8, u16)>,
}

impl Sent {
    /// The frame, and what the parser notes of it.
    fn frame(&self) -> (Vec<u8>, PacketMetadata) {
        let frame = self.spec.frame();
        let mut noted = metadata(&frame);
        let Some(around) = &self.tunnel else { return (frame, noted) };
        let (link, inner) = frame.split_at(14);
        let optional = around.optional.as_ref().map_or(&[][..], |octets| octets);
        let inner = if around.is_end_marker { &[] } else { inner };
        let mut outer = [0; 36];
        (outer[8], outer[9]) = (64, 17);
        outer[..2].copy_from_slice(&around.first);
        outer[12..16].copy_from_slice(&around.source.octets());
        outer[22..24].copy_from_slice(&2152_u16.to_be_bytes());
        (outer[28], outer[29]) = (0x30 | around.flags, 255);
        let length = (optional.len() + inner.len()) as u16;
        outer[30..32].copy_from_slice(&length.wrapping_add(around.longer).to_be_bytes());
        noted.outer_offset = 14;
        noted.flags |= PacketMetadata::TUNNELLED;
        if around.is_end_marker {
            noted.transport_offset = 0;
        } else {
            let headers = 36 + optional.len() as u16;
            noted.network_offset += headers;
            if noted.transport_offset != 0 {
                noted.transport_offset += headers;
            }
        }
        let padding = vec![0; around.padding];
        ([link, &outer, optional, inner, &padding].concat(), noted)
    }
}

/// The tunnel that a packet is in.
#[derive(Clone, Debug)]
struct Around {
    source: Ipv4Addr,
    /// The first two octets of the IP header.
    first: [u8; 2],
    /// Of the GTP-U header.
    flags: u8,
    /// Octets between that and what it carries.
    optional: Option<[u8; 8]>,
    /// What the message claims to be longer than it is.
    longer: u16,
    /// What the link has added.
    padding: usize,
    is_end_marker: bool,
}

impl Around {
    fn plain(source: Ipv4Addr) -> Around {
        Around {
            source,
            first: [0x45, 0],
            flags: 0,
            optional: None,
            longer: 0,
            padding: 0,
            is_end_marker: false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Composition {
    Called,
    Interpreted,
    Optimised,
    Fused,
}

/// What is left of a packet: bytes, metadata, and where and why it was dropped.
type Left = (Vec<u8>, PacketMetadata, Option<(usize, u8)>);

struct Chain {
    instances: Vec<Box<dyn Instance>>,
    parts: Vec<FusedPart>,
    now: u64,
}

/// Makes a UDP header say that its datagram has `length` octets.
fn write_udp_length(packet: &mut Packet, noted: &PacketMetadata, length: u16) {
    let start = usize::from(noted.transport_offset);
    if let (17, Some(field)) = (noted.protocol, packet.data_mut().get_mut(start + 4..start + 6)) {
        field.copy_from_slice(&length.to_be_bytes());
    }
}

fn tags() -> TagTable {
    let mut tags = TagTable::default();
    for kind in KINDS {
        for tag in kind.reads.iter().chain(kind.writes) {
            tags.declare(tag.name, tag.values.into()).expect("a slot");
        }
    }
    tags
}

impl Chain {
    fn new(members: &[Member]) -> Chain {
        let tags = tags();
        let setup = Setup {
            instance: "test",
            tags: &tags,
            contexts: CONTEXTS,
            worker: 0,
            tsc_hz: tsc::hz(),
            trial: false,
            events: None,
        };
        let instance = |member: &Member| {
            let kind = crate::kind(member.name).expect("a function");
            let mut instance = kind.make(&member.config, &setup, SlotShift(1)).expect("it is made");
            for (slot, settings) in &member.settings {
                let settings = kind.settings(settings).expect("settings");
                instance.check(&settings, 1).expect("good settings");
                instance.configure(*slot << 1, &settings, 0);
            }
            instance
        };
        let instances: Vec<_> = members.iter().map(instance).collect();
        let parts = instances.iter().zip(members).map(|(instance, member)| FusedPart {
            program: instance.lower().expect("it can be lowered"),
            scope: instance.scope(),
            sets: member.sets.map(|chain| (TagSlot::CHAIN, chain)),
        });
        let parts = parts.collect();
        Chain { instances, parts, now: 0 }
    }

    fn burst(&self, sent: &[Sent]) -> Burst {
        let pool = pool();
        let mut burst = Burst { packets: Batch::new(), now: self.now, pool: pool.clone() };
        let colour = tags().slot("colour").expect("the marker's tag");
        for one in sent {
            let Sent { user, group, tags, odd, .. } = one;
            let (frame, mut noted) = one.frame();
            let mut packet = pool.packet(&frame).expect("a packet");
            (noted.user, noted.bearer, noted.group) = (user << 1, user << 1, *group);
            TagSlot::DIRECTION.set(&mut noted, tags.0);
            colour.set(&mut noted, tags.1);
            if let Some((which, value)) = odd {
                match which {
                    0 => noted.network_offset = *value,
                    1 => noted.transport_offset = *value,
                    2 => noted.network_length = *value,
                    3 => noted.protocol = *value as u8,
                    4 => noted.ether_type = *value,
                    5 => noted.outer_offset = *value,
                    6 => noted.flags = *value as u8,
                    7 => packet.truncate(usize::from(*value)),
                    _ => write_udp_length(&mut packet, &noted, *value),
                }
            }
            *packet.metadata_mut() = noted;
            burst.packets.push(packet).expect("room");
        }
        burst
    }

    fn compile(&self) -> Fused {
        Fused::compile(self.parts.clone(), SlotShift(1)).expect("it compiles")
    }

    fn run(&mut self, composition: Composition, fused: &Fused, sent: &[Sent]) -> Vec<Left> {
        let mut burst = self.burst(sent);
        let mut dropped = vec![None; sent.len()];
        match composition {
            Composition::Called => {
                let all = Positions::first(sent.len());
                self.call(&mut burst, 0, all, &mut dropped);
            }
            Composition::Interpreted => self.interpret(&fused.way(), &mut burst, &mut dropped),
            Composition::Optimised => self.interpret(fused.optimised(), &mut burst, &mut dropped),
            Composition::Fused => {
                let mut outcome = FusedOutcome::default();
                let mut instances: Vec<&mut dyn Instance> =
                    self.instances.iter_mut().map(|one| &mut **one as &mut dyn Instance).collect();
                let all = Positions::first(sent.len());
                fused.visit(&mut burst, all, &mut instances, &mut outcome);
                assert!(outcome.resets.is_empty() && outcome.refused == 0);
                for position in Positions(outcome.verdicts.dropped) {
                    let DroppedBy { function, reason } = outcome.verdicts.reasons[position];
                    dropped[position] = Some((function.into(), reason));
                }
            }
        }
        let left = |(packet, dropped): (&Packet, Option<(usize, u8)>)| {
            (packet.data().to_vec(), *packet.metadata(), dropped)
        };
        burst.packets.iter().zip(dropped).map(left).collect()
    }

    /// The functions from `first` on, one after the other.
    fn call(
        &mut self,
        burst: &mut Burst,
        first: usize,
        mut selected: Positions,
        dropped: &mut [Option<(usize, u8)>],
    ) {
        let mut outcome = Outcome::default();
        for (number, instance) in self.instances.iter_mut().enumerate().skip(first) {
            outcome.clear();
            instance.visit(burst, selected, &mut outcome);
            for position in outcome.dropped {
                dropped[position] = Some((number, outcome.reasons[position]));
            }
            selected = selected.without(outcome.dropped);
            if let Some((slot, value)) = self.parts[number].sets {
                for position in selected {
                    slot.set(burst.packets[position].metadata_mut(), value);
                }
            }
        }
    }

    fn interpret(
        &mut self,
        way: &LinkedProgram,
        burst: &mut Burst,
        dropped: &mut [Option<(usize, u8)>],
    ) {
        for position in 0..burst.packets.len() {
            let mut contexts: Vec<&mut [u8]> =
                self.instances.iter_mut().map(|instance| instance.contexts()).collect();
            let packet = &mut burst.packets[position];
            let ended = interpret(way, packet, &mut contexts, burst.now).expect("it was verified");
            match ended {
                Ended::Forwarded => {}
                Ended::Dropped { function, reason } => {
                    dropped[position] = Some((function.into(), reason));
                }
                Ended::Punted { function } => {
                    self.call(burst, function.into(), Positions(1 << position), dropped);
                }
            }
        }
    }

    fn contexts(&self) -> Vec<Vec<u8>> {
        let slots = (0..CONTEXTS as u32).flat_map(|slot| {
            self.instances.iter().map(move |instance| {
                let mut bytes = Vec::new();
                instance.export(slot << 1, 0, &mut bytes);
                bytes
            })
        });
        slots.collect()
    }
}

/// The same bursts under every composition.
fn all_alike(members: &[Member], bursts: &[(u64, Vec<Sent>)]) -> Result<(), TestCaseError> {
    let fused = Chain::new(members).compile();
    let run = |composition: Composition| {
        let mut chain = Chain::new(members);
        let left: Vec<_> = bursts
            .iter()
            .map(|(gap, sent)| {
                chain.now += gap;
                chain.run(composition, &fused, sent)
            })
            .collect();
        (left, chain.contexts())
    };
    let (left, contexts) = run(Composition::Called);
    for composition in [Composition::Interpreted, Composition::Optimised, Composition::Fused] {
        let (other_left, other_contexts) = run(composition);
        for (burst, other) in left.iter().zip(&other_left) {
            for (position, (one, other)) in burst.iter().zip(other).enumerate() {
                prop_assert_eq!(one, other, "{:?}, packet {}", composition, position);
            }
        }
        prop_assert_eq!(&contexts, &other_contexts, "{:?}", composition);
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_composition_comes_to_the_same(
        members in vec(members(), 1..7),
        bursts in vec((0_u64..2_000_000_000, vec(sent(), 1..20)), 1..4),
    ) {
        all_alike(&members, &bursts)?;
    }
}

fn member(name: &'static str, config: Value) -> Member {
    Member { name, config, settings: Vec::new(), sets: None }
}

fn rewriter(key: &str) -> Member {
    let table = json!([{ "from": "10.0.0.0/8", "to": "100.0.0.0/8" }]);
    member("rewrite-address", json!({ key: table }))
}

/// What is usual stays in the loop and goes not by way of `process`.
fn stays_in_the_loop(members: &[Member], one: &Sent) -> Packet {
    let mut chain = Chain::new(members);
    let fused = chain.compile();
    let mut burst = chain.burst(std::slice::from_ref(one));
    let mut contexts: Vec<&mut [u8]> =
        chain.instances.iter_mut().map(|instance| instance.contexts()).collect();
    let mut packet = burst.packets.pop().expect("a packet");
    let ended = interpret(fused.optimised(), &mut packet, &mut contexts, 0);
    assert_eq!(ended, Ok(Ended::Forwarded), "{}", fused.optimised());
    packet
}

/// A datagram of a user, tagged as downlink or uplink.
fn datagram(tunnel: Option<Around>, direction: u32) -> Sent {
    let mut spec = Spec::udp(b"inside");
    spec.source = Ipv4Addr::new(10, 0, 1, 1).into();
    Sent { spec, user: 0, group: 0, tags: (direction, 0), tunnel, odd: None }
}

fn set(name: &'static str, settings: Value) -> Member {
    Member { settings: vec![(0, settings)], ..member(name, Value::Null) }
}

/// A tunnel with a PDU session container of that QoS flow.
fn with_container(source: Ipv4Addr, qfi: u8) -> Around {
    let optional = Some([0, 0, 0, 0x85, 1, 0x10, qfi, 0]);
    Around { flags: 4, optional, ..Around::plain(source) }
}

#[test]
fn tunnels_are_taken_off_without_a_call() {
    let peer = Ipv4Addr::new(10, 0, 0, 9);
    for (around, qfi) in [
        (Around::plain(peer), None),
        (with_container(peer, 5), None),
        (with_container(peer, 5), Some(5)),
    ] {
        let settings = json!({ "peer": peer, "ipv4": "10.0.1.1", "qfi": qfi });
        let members = [set("gtpu-decapsulate", settings), member("counter", Value::Null)];
        let sent = datagram(Some(around), 0);
        let packet = stays_in_the_loop(&members, &sent);
        assert_eq!(packet.data(), sent.spec.frame());
        assert_eq!(packet.metadata().outer_offset, 0);
    }
}

#[test]
fn tunnels_are_put_on_and_changed_without_a_call() {
    let end = json!({ "teid": 7, "peer": "192.0.2.1", "local": "192.0.2.2" });
    for qfi in [None, Some(9)] {
        let settings = json!({ "tunnel": end, "qfi": qfi });
        let packet = stays_in_the_loop(&[set("gtpu-encapsulate", settings)], &datagram(None, 1));
        let inner = 14 + 36 + if qfi.is_some() { 8 } else { 0 };
        assert_eq!(usize::from(packet.metadata().network_offset), inner);
        assert_eq!(packet.data()[46..50], [0, 0, 0, 7]);
    }
    let settings = json!({ "tunnel": end });
    let from_2152 =
        Member { config: json!({ "sourcePort": 2152 }), ..set("gtpu-encapsulate", settings) };
    let packet = stays_in_the_loop(&[from_2152], &datagram(None, 1));
    assert_eq!(packet.data()[34..36], 2152_u16.to_be_bytes());
    let source = Ipv4Addr::new(10, 0, 0, 9);
    let end_marker = Around { is_end_marker: true, ..Around::plain(source) };
    for around in [Around::plain(source), with_container(source, 5), end_marker] {
        for direction in [0, 1] {
            let settings = json!({ "uplink": end, "downlink": end });
            let sent = datagram(Some(around.clone()), direction);
            let packet = stays_in_the_loop(&[set("gtpu-relay", settings)], &sent);
            assert_eq!(packet.data()[30..34], [192, 0, 2, 1]);
            assert_eq!(packet.data()[46..50], [0, 0, 0, 7]);
        }
    }
}

/// Found by chance: the count went behind the end of a datagram.
#[test]
fn a_count_has_room_only_within_its_datagram() {
    let place = json!({ "payload": { "offset": 2, "width": 4 } });
    for length in [0, 8, 13, 14, 15, u16::MAX] {
        let sent = Sent { odd: Some((8, length)), ..datagram(None, 1) };
        all_alike(&[member("counter", place.clone())], &[(0, vec![sent])]).expect("all alike");
    }
}

/// The optimiser does what it is for.
#[test]
fn checks_are_made_once_and_checksums_repaired_once() {
    use weft_function::lower::Operation;
    let parts = Chain::new(&[rewriter("source"), rewriter("destination")]).parts;
    let fused = Fused::compile(parts, SlotShift(0)).unwrap();
    // The way of the packets that nothing is odd about: up to the first label.
    let straight: Vec<_> = fused
        .optimised()
        .operations
        .iter()
        .take_while(|one| !matches!(one, Operation::Label { .. }))
        .collect();
    let count = |is: fn(&Operation) -> bool| straight.iter().filter(|one| is(one)).count();
    assert_eq!(count(|one| matches!(one, Operation::Require { .. })), 2, "{}", fused.optimised());
    assert_eq!(count(|one| matches!(one, Operation::Repair { .. })), 2, "{}", fused.optimised());
    assert_eq!(
        count(|one| matches!(one, Operation::LoadPacket { .. })),
        5,
        "{}",
        fused.optimised()
    );
}

#[test]
fn a_scope_of_groups_passes_users_without_one() {
    let marker = member(
        "marker",
        json!({ "scope": "group", "drop": "red",
                "meter": { "singleRate": { "committedRate": 1000, "committedBurst": 1 } } }),
    );
    let mut chain = Chain::new(&[marker]);
    assert_eq!(chain.parts[0].scope, Scope::Group);
    let of = |group| Sent {
        spec: Spec::udp(b"x"),
        user: 0,
        group,
        tags: (0, 0),
        tunnel: None,
        odd: None,
    };
    let fused = chain.compile();
    let left = chain.run(Composition::Fused, &fused, &[of(PacketMetadata::NONE), of(0)]);
    assert_eq!([left[0].2, left[1].2], [None, Some((0, 0))]);
}
