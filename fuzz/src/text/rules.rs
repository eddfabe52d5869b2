//! Rules: an input is facts of a packet and a text. The compiled program takes the packet
//! where the interpreter takes it.

use std::net::{Ipv4Addr, Ipv6Addr};

use weft_rules::{
    CHAIN_TAG, Entry, Facts, Field, FieldValue, FunctionPlace, Known, NextPlace, Place, PortIndex,
    RuleSet, TAG_SLOTS, TagKind, TagSpec, To, Vocabulary,
};

/// Octets in front of the text.
const FACTS: usize = 16;
/// Rules may go round in a loop.
const HOPS: usize = 32;
const CHAIN: u8 = 0;
const DIRECTION: usize = 1;
const COLOUR: u8 = 2;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Some((facts, text)) = bytes.split_first_chunk::<FACTS>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Some(vocabulary) = vocabulary(text) else { return };
    let rules = match RuleSet::parse(text, &vocabulary) {
        Ok(rules) => rules,
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            mistakes.iter().for_each(|mistake| drop(mistake.to_string()));
            return;
        }
    };
    let both = [PortIndex(0), PortIndex(1)];
    rules.check(&both).iter().for_each(|found| drop(found.to_string()));
    let mut tags = [Known::Unknown; TAG_SLOTS];
    tags[DIRECTION] = Known::Value(u32::from(facts[0] & 1));
    let entries = both.map(|port| Entry { port, tags });
    let Ok(program) = rules.compile(&entries) else { return };
    drop(program.paths(&vocabulary, &entries).to_string());

    let port = usize::from(facts[0] >> 1 & 1);
    let mut packet = Packet { tags: [0; TAG_SLOTS], octets: facts, port: port as u32 };
    packet.tags[usize::from(CHAIN)] = u32::from(facts[1]);
    packet.tags[DIRECTION] = u32::from(facts[0] & 1);
    packet.tags[usize::from(COLOUR)] = u32::from(facts[2] % 3);
    let (mut place, mut next) = (Place::Port(PortIndex(port as u16)), &program.entries[port]);
    for _ in 0..HOPS {
        let hop = rules.next(place, &packet);
        let target = next.choose(&packet);
        let to = match target.to {
            To::State(id) => {
                let state = &program.states[id.0 as usize];
                next = &state.next;
                NextPlace::Function(state.function)
            }
            To::Port(port) => NextPlace::Port(port),
            To::Drop => NextPlace::Drop,
            To::NoRule => NextPlace::NoRule,
        };
        assert_eq!(to, hop.to, "at {place:?}");
        if let Some(chain) = hop.set_chain {
            packet.tags[usize::from(CHAIN)] = chain;
        }
        let NextPlace::Function(function) = to else { return };
        place = Place::Function(function);
        // `police` writes the colour.
        if function.0 == 1 {
            packet.tags[usize::from(COLOUR)] = u32::from(facts[3] % 3);
        }
    }
}

/// The names of a gateway; none where the text has chains that cannot be told apart.
fn vocabulary(text: &str) -> Option<Vocabulary> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let named =
        |name: &str, values| TagSpec { name: name.to_owned(), kind: TagKind::Named(values) };
    let functions = [("count", vec![]), ("police", vec![COLOUR]), ("swap", vec![])]
        .map(|(name, writes)| FunctionPlace { name: name.to_owned(), writes });
    let tags = vec![
        named(CHAIN_TAG, RuleSet::chains(text)),
        named("direction", words("uplink downlink")),
        named("colour", words("green yellow red")),
        TagSpec { name: "weight".to_owned(), kind: TagKind::Number },
    ];
    Vocabulary::new(words("access internet"), functions.to_vec(), tags).ok()
}

/// A packet whose fields are octets of the input.
struct Packet<'i> {
    tags: [u32; TAG_SLOTS],
    octets: &'i [u8; FACTS],
    port: u32,
}

impl Facts for Packet<'_> {
    fn tag(&self, slot: u8) -> u32 {
        self.tags[usize::from(slot)]
    }

    fn field(&self, field: Field) -> Option<FieldValue> {
        let octets = self.octets;
        let has = |bit: u8| octets[4] >> bit & 1 != 0;
        let number = |bit, number: u8, most: u32| {
            has(bit).then(|| FieldValue::Number(u32::from(number) % (most + 1)))
        };
        let address = |bit, low: u8| match (has(bit), has(7)) {
            (false, _) => None,
            (true, false) => Some(FieldValue::V4(Ipv4Addr::new(10, 0, octets[5], low))),
            (true, true) => {
                Some(FieldValue::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, low.into())))
            }
        };
        match field {
            Field::Source => address(0, octets[6]),
            Field::Destination => address(0, octets[7]),
            Field::Protocol => number(1, octets[8], 255),
            Field::SourcePort => number(2, octets[9], 65_535),
            Field::DestinationPort => number(2, octets[10], 65_535),
            Field::Dscp => number(3, octets[11], 63),
            Field::Vlan => number(4, octets[12], 4095),
            Field::Qfi => number(5, octets[13], 63),
            Field::Port => Some(FieldValue::Number(self.port)),
        }
    }
}
