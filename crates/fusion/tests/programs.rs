//! Random programs: what the verifier accepts touches nothing outside of packet
//! and contexts, and machine code does what the interpreter does.

use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weft_dpdk::{Batch, Eal, EalOptions, Packet, Pool};
use weft_function::lower::{
    Base, Checksum, ContextField, HeaderField, Label, Note, Operation, Operator, Program, Value,
};
use weft_function::{Metadata, PacketMetadata, Scope, TagSlot};
use weft_fusion::{
    Code, DroppedBy, Ended, LinkedProgram, Step, Verdicts, interpret, optimise, verify,
    verify_program,
};

const FIELDS: &[ContextField] = &[
    ContextField { name: "a", offset: 0, octets: 8 },
    ContextField { name: "b", offset: 8, octets: 4 },
    ContextField { name: "c", offset: 12, octets: 2 },
    ContextField { name: "d", offset: 15, octets: 1 },
];
const CONTEXT: usize = 16;
const CONTEXTS: usize = 4;
const DROPS: usize = 3;
const GUARD: usize = 64;
/// Bytes in front of a packet that is fresh from the pool.
const HEADROOM: usize = 128;

fn pool() -> Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let make = || {
        let options =
            EalOptions { memory_megabytes: 128, huge_pages: false, ..EalOptions::default() };
        let eal = Eal::start(&options).expect("the environment starts");
        Pool::new(eal, "programs", 1023).expect("there is memory for a pool")
    };
    POOL.get_or_init(make).clone()
}

/// A micro-operation before its values and labels are chosen.
#[derive(Clone, Debug)]
struct Sketch {
    kind: u8,
    picks: [u16; 3],
    number: u64,
    place: HeaderField,
    operator: Operator,
    /// Whether it is made to be right as far as that is easy.
    sound: bool,
}

fn sketches() -> impl Strategy<Value = Sketch> {
    let base = select(Base::ALL.to_vec());
    let place = (base, 0_u16..40, select(vec![1_u8, 2, 4, 8]));
    use Operator::*;
    let operator = select(vec![
        Add,
        Subtract,
        Multiply,
        MultiplyHigh,
        And,
        Or,
        ExclusiveOr,
        ShiftLeft,
        ShiftRight,
        Equal,
        Less,
        Difference16,
        Difference32,
    ]);
    let number = prop_oneof![0_u64..4, 0_u64..65536, any::<u64>(), Just(63), Just(64), Just(14)];
    (0_u8..35, any::<[u16; 3]>(), number, place, operator, prop::bool::weighted(0.995)).prop_map(
        |(kind, picks, number, (base, offset, octets), operator, sound)| Sketch {
            kind,
            picks,
            number,
            place: HeaderField { base, offset, octets },
            operator,
            sound,
        },
    )
}

/// Chooses values and labels.
struct Writer {
    operations: Vec<Operation>,
    /// Values that are defined on all ways so far: none behind a label, where it
    /// is not known.
    values: Vec<Value>,
    next: u32,
    labels: u32,
    open: Vec<Label>,
    required: [u16; Base::ALL.len()],
    changed: bool,
}

impl Writer {
    fn value(&self, pick: u16) -> Value {
        match self.values.is_empty() {
            true => Value(9999),
            false => self.values[usize::from(pick) % self.values.len()],
        }
    }

    fn define(&mut self) -> Value {
        self.next += 1;
        Value(self.next)
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        self.open.push(Label(self.labels));
        Label(self.labels)
    }

    fn cover(&mut self, place: HeaderField, sound: bool) {
        let end = place.offset + u16::from(place.octets);
        if sound && self.required[place.base as usize] < end {
            let otherwise = self.label();
            self.operations.push(Operation::Require { base: place.base, octets: end, otherwise });
            self.required[place.base as usize] = end;
        }
    }

    fn push(&mut self, sketch: &Sketch) {
        use Operation as O;
        let Sketch { kind, picks, number, place, operator, sound } = *sketch;
        let field = FIELDS[usize::from(picks[2]) % FIELDS.len()];
        let context = Value::CONTEXT;
        if self.values.is_empty() && kind >= 3 {
            let to = self.define();
            self.operations.push(O::Constant { to, number });
            self.values.push(to);
        }
        let [a, b, c] = picks.map(|pick| self.value(pick));
        let slot = match picks[0] % 3 {
            0 => TagSlot::DIRECTION,
            1 => TagSlot::CHAIN,
            _ => TagSlot::NETWORK,
        };
        let checksum = [Checksum::Ipv4, Checksum::Udp, Checksum::Tcp][usize::from(picks[0]) % 3];
        let notes = [
            Note::User,
            Note::NetworkOffset,
            Note::TransportOffset,
            Note::EtherType,
            Note::Protocol,
            Note::Flags,
            Note::NetworkLength,
            Note::OuterOffset,
        ];
        let changes = matches!(kind, 12..=20 | 31..=33);
        match kind {
            12..=14 => self.cover(place, sound),
            19 | 20 => self.cover(checksum.place(), sound),
            8 | 9 => self.cover(place, sound),
            _ => {}
        }
        if kind <= 11 {
            let to = self.define();
            self.operations.push(match kind {
                0 => O::Constant { to, number },
                1 => O::Length { to },
                2 => O::Note { to, note: notes[usize::from(picks[0]) % notes.len()] },
                3 => O::Now { to },
                4 => O::Tag { to, slot },
                5 | 6 => O::Arithmetic { to, operator, left: a, right: b },
                7 => O::Select { to, when: a, then: b, otherwise: c },
                8 | 9 => O::LoadPacket { to, place },
                _ => O::LoadContext { to, context, field },
            });
            self.values.push(to);
            return;
        }
        self.changed |= changes;
        match kind {
            12..=14 => self.operations.push(O::StorePacket { place, value: a }),
            15 => self.operations.push(O::StoreContext { context, field, value: a }),
            16 | 17 => self.operations.push(O::AddContext { context, field, value: a }),
            18 => self.operations.push(O::SetTag { slot, value: a }),
            19 | 20 => self.operations.push(O::Repair { checksum, change: a }),
            21..=24 => {
                let to = self.label();
                self.operations.push(O::Branch { when: a, to });
            }
            25 => {
                let to = self.label();
                self.operations.push(O::Jump { to });
                self.land();
            }
            26..=28 => self.land(),
            29 => {
                self.operations.push(O::Drop { function: 0, reason: (picks[0] % 3) as u8 });
                self.land();
            }
            30 if !self.changed || !sound => {
                self.operations.push(O::Punt { function: 0 });
                self.land();
            }
            31 | 32 => {
                let otherwise = self.label();
                let (octets, outer) = (place.offset, place.octets.into());
                self.operations.push(O::Front { offset: a, octets, outer, otherwise });
                self.required = Default::default();
                self.required[Base::Frame as usize] = octets;
            }
            33 => {
                self.operations.push(O::Truncate { octets: a });
                self.required = Default::default();
            }
            _ => {}
        }
    }

    /// Places a label that is open. What was defined since is not known here.
    fn land(&mut self) {
        let Some(label) = self.open.pop() else { return };
        self.operations.push(Operation::Label { label });
        self.values.clear();
        self.required = Default::default();
    }
}

fn program(sketches: &[Sketch]) -> Program {
    let mut writer = Writer {
        operations: Vec::new(),
        values: Vec::new(),
        next: 0,
        labels: 0,
        open: Vec::new(),
        required: Default::default(),
        changed: false,
    };
    sketches.iter().for_each(|sketch| writer.push(sketch));
    while !writer.open.is_empty() {
        writer.land();
    }
    writer.operations.push(Operation::Forward);
    let operations = writer.operations;
    Program { operations, context_octets: CONTEXT, fields: FIELDS, drops: DROPS }
}

#[derive(Clone, Debug)]
struct Sent {
    bytes: Vec<u8>,
    user: u32,
    offsets: [u16; 3],
    noted: (u16, u8, u8, u16),
    tags: [u32; 3],
}

fn sent() -> impl Strategy<Value = Sent> {
    let offset = || prop_oneof![3 => 0_u16..40, 1 => any::<u16>()];
    let bytes = prop_oneof![1 => vec(any::<u8>(), 0..20), 3 => vec(any::<u8>(), 40..120)];
    let user = prop_oneof![4 => 0..CONTEXTS as u32, 1 => any::<u32>()];
    let noted = any::<(u16, u8, u8, u16)>();
    (bytes, user, [offset(), offset(), offset()], noted, [0_u32..3, 0..3, 0..3])
        .prop_map(|(bytes, user, offsets, noted, tags)| Sent { bytes, user, offsets, noted, tags })
}

/// The packet, with a mark in all bytes of its buffer around it.
fn packet(sent: &Sent) -> Packet {
    let mut packet = pool().packet(&sent.bytes).expect("a packet");
    let metadata = packet.metadata_mut();
    *metadata = PacketMetadata {
        user: sent.user,
        group: sent.user,
        network_offset: sent.offsets[0],
        transport_offset: sent.offsets[1],
        outer_offset: sent.offsets[2],
        ether_type: sent.noted.0,
        protocol: sent.noted.1,
        flags: sent.noted.2,
        network_length: sent.noted.3,
        ..PacketMetadata::default()
    };
    metadata.tags[..3].copy_from_slice(&sent.tags);
    assert_eq!(front(&mut packet, 0xa5), HEADROOM);
    back(&mut packet, 0x5a);
    assert!(packet.trim_front(HEADROOM));
    packet.truncate(sent.bytes.len());
    packet
}

/// Takes in all that is in front of a packet, filled with a mark; how much that is.
fn front(packet: &mut Packet, mark: u8) -> usize {
    std::iter::from_fn(|| packet.prepend(1).map(|byte| byte.fill(mark))).count()
}

/// Takes in all that is behind it, filled with a mark.
fn back(packet: &mut Packet, mark: u8) {
    while packet.append(1).map(|byte| byte.fill(mark)).is_some() {}
}

/// All bytes of the buffer, where the packet begins in it, how long it is, and what is
/// noted of it.
type Around = (Vec<u8>, usize, usize, PacketMetadata);

fn around(packet: &mut Packet) -> Around {
    let (metadata, length) = (*packet.metadata(), packet.len());
    let begin = std::iter::from_fn(|| packet.prepend(1).map(drop)).count();
    while packet.append(1).is_some() {}
    (packet.data().to_vec(), begin, length, metadata)
}

type Left = (Vec<Ended>, Vec<Around>, Vec<Vec<u8>>);

fn slabs(functions: usize) -> Vec<Vec<u8>> {
    let slab = || {
        let mut slab = vec![0xc3; GUARD];
        slab.extend((0..CONTEXT * CONTEXTS).map(|at| at as u8));
        slab.extend([0x3c; GUARD]);
        slab
    };
    (0..functions).map(|_| slab()).collect()
}

fn inner(slabs: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    slabs.iter_mut().map(|slab| &mut slab[GUARD..GUARD + CONTEXT * CONTEXTS]).collect()
}

fn interpreted(way: &LinkedProgram, sent: &[Sent]) -> Left {
    let mut slabs = slabs(way.functions.len());
    let (mut ended, mut left) = (Vec::new(), Vec::new());
    for sent in sent {
        let mut packet = packet(sent);
        let end = interpret(way, &mut packet, &mut inner(&mut slabs), 77);
        ended.push(end.expect("a verified program touches nothing else"));
        left.push(around(&mut packet));
    }
    (ended, left, slabs)
}

fn native(way: &LinkedProgram, sent: &[Sent]) -> Left {
    let code = Code::compile(way).expect("it compiles");
    let mut slabs = slabs(way.functions.len());
    let mut batch = Batch::new();
    sent.iter().for_each(|sent| batch.push(packet(sent)).expect("room"));
    let mut ended = vec![Ended::Forwarded; sent.len()];
    let (mut verdicts, mut remaining) = (Verdicts::default(), u64::MAX);
    while let Some(punted) =
        code.run(&mut batch, &mut inner(&mut slabs), 77, remaining, &mut verdicts)
    {
        ended[punted.position] = Ended::Punted { function: punted.function as u8 };
        remaining = punted.remaining;
    }
    for (position, ended) in ended.iter_mut().enumerate() {
        if verdicts.dropped >> position & 1 == 1 {
            let DroppedBy { function, reason } = verdicts.reasons[position];
            *ended = Ended::Dropped { function, reason };
        }
    }
    (ended, batch.iter_mut().map(around).collect(), slabs)
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: u32::MAX, ..Default::default() })]

    #[test]
    fn accepted_programs_touch_nothing_else(
        programs in vec(vec(sketches(), 1..40), 1..4),
        sets in any::<[bool; 4]>(),
        groups in any::<[bool; 4]>(),
        sent in vec(sent(), 1..6),
    ) {
        let programs: Vec<_> = programs.iter().map(|sketches| program(sketches)).collect();
        prop_assume!(programs.iter().all(|program| verify_program(program).is_ok()));
        let steps: Vec<_> = programs.iter().zip(sets).zip(groups).map(|((program, sets), group)| Step {
            program,
            scope: if group { Scope::Group } else { Scope::User },
            sets: sets.then_some((TagSlot::CHAIN, 2)),
        }).collect();
        let way = LinkedProgram::link(&steps, 0);
        prop_assert_eq!(verify(&way), Ok(()));
        let optimised = optimise(&way);
        prop_assert_eq!(verify(&optimised), Ok(()), "{}\n{}", way, optimised);
        let reference = interpreted(&way, &sent);
        for (name, left) in [
            ("optimised", interpreted(&optimised, &sent)),
            ("machine code", native(&way, &sent)),
            ("machine code, optimised", native(&optimised, &sent)),
        ] {
            prop_assert_eq!(&reference.0, &left.0, "{}\n{}\n{}", name, way, optimised);
            // Where a packet is punted, what follows is called.
            prop_assert_eq!(&reference.1, &left.1, "{}\n{}\n{}", name, way, optimised);
            prop_assert_eq!(&reference.2, &left.2, "{}\n{}\n{}", name, way, optimised);
        }
        // What lies around packets and contexts is as it was.
        let moves = |operation: &Operation| matches!(operation, Operation::Front { .. });
        let moved = way.operations.iter().any(moves);
        for ((bytes, ..), sent) in reference.1.iter().zip(&sent).filter(|_| !moved) {
            prop_assert!(bytes[..HEADROOM].iter().all(|byte| *byte == 0xa5));
            prop_assert!(bytes[HEADROOM + sent.bytes.len()..].iter().all(|byte| *byte == 0x5a));
        }
        for slab in &reference.2 {
            prop_assert!(slab[..GUARD].iter().all(|byte| *byte == 0xc3));
            prop_assert!(slab[slab.len() - GUARD..].iter().all(|byte| *byte == 0x3c));
        }
    }

    /// Whatever is written, the verifier answers.
    #[test]
    fn no_program_makes_the_verifier_panic(
        mut sketches in vec(sketches(), 0..60),
        swaps in vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..8),
    ) {
        sketches.iter_mut().for_each(|sketch| sketch.sound &= sketch.number % 3 > 0);
        let mut program = program(&sketches);
        for (one, other) in swaps {
            let length = program.operations.len();
            program.operations.swap(one.index(length), other.index(length));
        }
        if verify_program(&program).is_ok() {
            let step = Step { program: &program, scope: Scope::User, sets: None };
            let way = LinkedProgram::link(&[step], 0);
            prop_assert_eq!(verify(&way), Ok(()));
            Code::compile(&optimise(&way)).expect("what is verified compiles");
        }
    }
}

fn rejected(operations: &[Operation]) -> &'static str {
    let program = Program {
        operations: operations.to_vec(),
        context_octets: CONTEXT,
        fields: FIELDS,
        drops: DROPS,
    };
    verify_program(&program).expect_err("it is wrong").what
}

#[test]
fn what_is_wrong_is_said() {
    use Operation as O;
    let (one, label) = (Value(1), Label(0));
    let place = HeaderField { base: Base::Network, offset: 0, octets: 4 };
    let load = O::LoadPacket { to: one, place };
    let constant = O::Constant { to: one, number: 1 };
    let store = O::StorePacket { place, value: one };
    let require = |octets| O::Require { base: Base::Network, octets, otherwise: label };
    let end = [O::Label { label }, O::Forward];
    assert!(rejected(&[load, O::Forward]).contains("not required"));
    assert!(
        rejected(&[&[require(3), load, O::Forward][..], &end].concat()).contains("not required")
    );
    // On one of two ways only.
    let ways = [require(4), O::Label { label }, load, O::Forward];
    assert!(rejected(&ways).contains("not required"));
    assert!(rejected(&[constant]).contains("end is reached"));
    assert!(rejected(&[O::Jump { to: label }]).contains("leads nowhere"));
    assert!(rejected(&[O::Label { label }, O::Jump { to: label }]).contains("backwards"));
    assert!(rejected(&[constant, constant, O::Forward]).contains("twice"));
    assert!(
        rejected(&[O::SetTag { slot: TagSlot::CHAIN, value: one }, O::Forward])
            .contains("not defined")
    );
    assert!(rejected(&[O::Drop { function: 0, reason: 3 }]).contains("drop reason"));
    let field = ContextField { name: "e", offset: 12, octets: 8 };
    let beyond = O::LoadContext { to: one, context: Value::CONTEXT, field };
    assert!(rejected(&[beyond, O::Forward]).contains("no such field"));
    let late = [require(4), constant, store, O::Punt { function: 0 }];
    assert!(rejected(&[&late[..], &end].concat()).contains("punted after"));
}
