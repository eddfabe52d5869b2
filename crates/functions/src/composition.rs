//! Every composition comes to the same: `process`, the interpreter over what a
//! function says in micro-operations, the interpreter over what the optimiser
//! made of that, and machine code.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use weft_compose::{
    Burst, Fused, FusedOutcome, FusedPart, Instance, Outcome, Positions, SlotShift,
};
use weft_dpdk::{Annotations, Batch, Packet, tsc};
use weft_function::{Scope, Setup, TagSlot, TagTable};
use weft_fused::{Ended, Way, interpret};

use crate::KINDS;
use crate::testing::{CONTEXTS, Spec, annotations, pool, specs};

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
    /// The tunnel it is in: who sends it, the first byte of the IP header, the flags of
    /// the GTP-U header.
    tunnel: Option<(Ipv4Addr, u8, u8)>,
    /// What the parser would never note.
    odd: Option<(u8, u16)>,
}

impl Sent {
    /// The frame, and what the parser notes of it.
    fn frame(&self) -> (Vec<u8>, Annotations) {
        let frame = self.spec.frame();
        let mut noted = annotations(&frame);
        let Some((source, version_and_length, flags)) = self.tunnel else { return (frame, noted) };
        let (link, inner) = frame.split_at(14);
        let length = (inner.len() as u16).to_be_bytes();
        let mut outer = [0; 36];
        (outer[0], outer[8], outer[9]) = (version_and_length, 64, 17);
        outer[12..16].copy_from_slice(&source.octets());
        outer[22..24].copy_from_slice(&2152_u16.to_be_bytes());
        (outer[28], outer[29]) = (0x30 | flags, 255);
        outer[30..32].copy_from_slice(&length);
        noted.outer_offset = 14;
        noted.flags |= Annotations::TUNNELLED;
        noted.network_offset += 36;
        if noted.transport_offset != 0 {
            noted.transport_offset += 36;
        }
        ([link, &outer, inner].concat(), noted)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Composition {
    Called,
    Interpreted,
    Optimised,
    Fused,
}

/// What is left of a packet: bytes, annotations, and where and why it was dropped.
type Left = (Vec<u8>, Annotations, Option<(usize, u8)>);

struct Chain {
    instances: Vec<Box<dyn Instance>>,
    parts: Vec<FusedPart>,
    now: u64,
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
                    _ => packet.truncate(usize::from(*value)),
                }
            }
            *packet.annotations_mut() = noted;
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
                    let (function, reason) = outcome.verdicts.reasons[position];
                    dropped[position] = Some((function.into(), reason));
                }
            }
        }
        let left = |(packet, dropped): (&Packet, Option<(usize, u8)>)| {
            (packet.data().to_vec(), *packet.annotations(), dropped)
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
                    slot.set(burst.packets[position].annotations_mut(), value);
                }
            }
        }
    }

    fn interpret(&mut self, way: &Way, burst: &mut Burst, dropped: &mut [Option<(usize, u8)>]) {
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

fn meters() -> impl Strategy<Value = Value> {
    let rate = 1_000_u64..50_000_000_000;
    let burst = prop_oneof![0_u64..200, 0_u64..100_000, Just(2 << 30)];
    prop_oneof![
        (rate.clone(), burst.clone(), burst.clone())
            .prop_map(|(rate, committed, excess)| {
                json!({ "singleRate": { "committedRate": rate, "committedBurst": committed + 1,
                                    "excessBurst": excess.min(2 << 30) } })
            })
            .prop_filter("bursts fit", |meter| meter["singleRate"]["committedBurst"].as_u64()
                <= Some(2 << 30)),
        (rate.clone(), rate, burst.clone(), burst).prop_map(|(one, other, committed, peak)| {
            json!({ "twoRate": { "committedRate": one.min(other), "peakRate": one.max(other),
                                 "committedBurst": committed.clamp(1, 1 << 30),
                                 "peakBurst": peak.clamp(1, 1 << 30) } })
        }),
    ]
}

fn markers() -> impl Strategy<Value = Member> {
    let settings = vec((0..CONTEXTS as u32, meters()), 0..3);
    let scope = prop::sample::select(vec!["user", "bearer", "group"]);
    let drop = prop::sample::select(vec!["none", "red", "yellowAndRed"]);
    (prop::option::of(meters()), any::<bool>(), scope, drop, settings).prop_map(
        |(meter, aware, scope, drop, settings)| Member {
            name: "marker",
            config: json!({ "meter": meter, "colourAware": aware, "scope": scope, "drop": drop }),
            settings: settings
                .into_iter()
                .map(|(slot, meter)| (slot, json!({ "meter": meter })))
                .collect(),
            sets: None,
        },
    )
}

/// Addresses that meet often.
fn address() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        (0_u8..4, 0_u8..4).prop_map(|(c, d)| Ipv4Addr::new(10, 0, c, d)),
        Just(Ipv4Addr::UNSPECIFIED),
        Just(Ipv4Addr::BROADCAST),
        any::<u32>().prop_map(Ipv4Addr::from_bits),
    ]
}

fn rewriters() -> impl Strategy<Value = Member> {
    let translation = (0_u8..4, 0_u8..8).prop_map(|(from, to)| {
        json!({ "from": format!("10.0.{from}.0/24"), "to": format!("10.0.{to}.0/24") })
    });
    let table = vec(translation, 0..3).prop_filter("no two lead to one", |table| {
        let mut seen = Vec::new();
        table.iter().all(|one| {
            let new = !seen.contains(&one["to"]);
            seen.push(one["to"].clone());
            new
        })
    });
    let own = (address(), prop::option::of(address()), any::<bool>()).prop_map(
        |(address, original, is_source)| match is_source {
            true => json!({ "source": address, "originalSource": original }),
            false => json!({ "destination": address, "originalDestination": original }),
        },
    );
    let settings = vec((0..CONTEXTS as u32, own), 0..4);
    (table.clone(), table, any::<bool>(), settings).prop_map(
        |(source, destination, reverse, settings)| Member {
            name: "rewrite-address",
            config: json!({ "source": source, "destination": destination, "reverse": reverse }),
            settings,
            sets: None,
        },
    )
}

fn filters() -> impl Strategy<Value = Member> {
    let action = prop::sample::select(vec!["allow", "deny"]);
    let rule = (
        action.clone(),
        prop::option::of((0_u8..4).prop_map(|c| format!("10.0.{c}.0/24"))),
        prop::option::of(prop::sample::select(vec!["tcp", "udp"])),
        prop::option::of((0_u16..4, 0_u16..4)),
        prop::option::of(any::<u16>()),
    );
    let rule = rule.prop_map(|(action, prefix, protocol, ports, port)| {
        json!({ "action": action, "source": prefix, "protocol": protocol,
                "sourcePorts": ports.map(|(first, more)| format!("{first}-{}", first + more)),
                "destinationPorts": port })
    });
    (vec(rule, 0..6), action, any::<bool>()).prop_map(|(rules, default, deny)| Member {
        name: "filter",
        config: json!({ "rules": rules, "default": default, "denyShortFragments": deny }),
        settings: Vec::new(),
        sets: None,
    })
}

fn decapsulators() -> impl Strategy<Value = Member> {
    let own = (
        prop::option::weighted(0.5, address()),
        prop::option::weighted(0.1, 0_u8..64),
        prop::option::weighted(0.5, address()),
        prop::option::weighted(0.2, Just("2001:db8::/32")),
    );
    let own = own.prop_map(
        |(peer, qfi, ipv4, ipv6)| json!({ "peer": peer, "qfi": qfi, "ipv4": ipv4, "ipv6": ipv6 }),
    );
    vec((0..CONTEXTS as u32, own), 0..4).prop_map(|settings| Member {
        name: "gtpu-decapsulate",
        config: Value::Null,
        settings,
        sets: None,
    })
}

fn members() -> impl Strategy<Value = Member> {
    let plain = |name, config| Member { name, config, settings: Vec::new(), sets: None };
    let mac = "02:00:00:00:00:07";
    let member = prop_oneof![
        2 => Just(plain("counter", Value::Null)),
        1 => Just(plain("pass", Value::Null)),
        1 => Just(plain("forward", Value::Null)),
        1 => Just(plain("forward", json!({ "source": mac }))),
        1 => Just(plain("forward", json!({ "destination": mac, "source": mac }))),
        4 => markers(),
        6 => rewriters(),
        4 => filters(),
        4 => decapsulators(),
    ];
    (member, prop::option::weighted(0.2, 0_u32..3)).prop_map(|(mut member, sets)| {
        member.sets = sets;
        member
    })
}

fn sent() -> impl Strategy<Value = Sent> {
    let group = prop_oneof![Just(Annotations::NONE), 0..2 * CONTEXTS as u32 + 4];
    let odd = prop::option::weighted(
        0.15,
        (0_u8..8, prop_oneof![0_u16..80, Just(6), Just(17), Just(0x0800), any::<u16>()]),
    );
    let ports = prop_oneof![3 => (0_u16..6, any::<u16>()), 1 => any::<(u16, u16)>()];
    let addresses = prop::option::weighted(0.8, (address(), address()));
    let tags = (0_u32..3, 0_u32..4);
    let flags = prop_oneof![6 => Just(0_u8), 1 => 0_u8..8];
    let first = prop_oneof![8 => Just(0x45_u8), 1 => Just(0x46), 1 => Just(0x60)];
    let tunnel = prop::option::weighted(0.4, (address(), first, flags));
    (specs(), 0..CONTEXTS as u32 + 2, group, tags, (odd, tunnel), addresses, ports).prop_map(
        |(mut spec, user, group, tags, (odd, tunnel), addresses, ports)| {
            if let Some((source, destination)) = addresses {
                (spec.source, spec.destination) = (source.into(), destination.into());
            }
            (spec.source_port, spec.destination_port) = ports;
            // Plain packets are what is fused.
            if user % 2 == 0 {
                (spec.options, spec.fragment) = (0, None);
            }
            Sent { spec, user, group, tags, tunnel, odd }
        },
    )
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

/// Plain packets leave their tunnel in the loop, not by way of `process`.
#[test]
fn a_tunnel_is_taken_off_without_a_call() {
    let settings = json!({ "peer": "10.0.0.9", "ipv4": "10.0.1.1" });
    let mut decapsulate = member("gtpu-decapsulate", Value::Null);
    decapsulate.settings.push((0, settings));
    let mut chain = Chain::new(&[decapsulate, member("counter", Value::Null)]);
    let fused = chain.compile();
    let mut spec = Spec::udp(b"inside");
    spec.source = Ipv4Addr::new(10, 0, 1, 1).into();
    let tunnel = Some((Ipv4Addr::new(10, 0, 0, 9), 0x45, 0));
    let sent = Sent { spec, user: 0, group: 0, tags: (0, 0), tunnel, odd: None };
    let (frame, noted) = sent.frame();
    let mut packet = pool().packet(&frame).expect("a packet");
    *packet.annotations_mut() = noted;
    let mut contexts: Vec<&mut [u8]> =
        chain.instances.iter_mut().map(|instance| instance.contexts()).collect();
    let ended = interpret(fused.optimised(), &mut packet, &mut contexts, 0);
    assert_eq!(ended, Ok(Ended::Forwarded));
    assert_eq!(packet.data(), sent.spec.frame());
    assert_eq!(packet.annotations().outer_offset, 0);
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
    let left = chain.run(Composition::Fused, &fused, &[of(Annotations::NONE), of(0)]);
    assert_eq!([left[0].2, left[1].2], [None, Some((0, 0))]);
}
