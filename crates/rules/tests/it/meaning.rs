//! What rules and conditions mean, by the interpreter.

use crate::common::{CHAIN, COLOUR, DIRECTION, GATEWAY, Packet, WEIGHT, port, rules, vocabulary};
use weft_rules::*;

const COUNT: Place = Place::Function(FunctionIndex(0));
const POLICE: Place = Place::Function(FunctionIndex(1));
const REWRITE: Place = Place::Function(FunctionIndex(2));
const FORWARD: Place = Place::Function(FunctionIndex(3));
const FULL: u32 = 0;
const VOICE: u32 = 1;

fn hop(set_chain: Option<u32>, to: NextPlace) -> Hop {
    Hop { set_chain, to }
}

fn to_function(place: Place) -> Hop {
    let Place::Function(function) = place else { unreachable!("a function") };
    hop(None, NextPlace::Function(function))
}

fn holds(condition: &str, packet: &Packet) -> bool {
    let condition = Condition::parse(condition, &vocabulary("")).unwrap();
    condition.eval(packet)
}

#[test]
fn a_chain_is_entered_walked_and_left() {
    let rules = rules(GATEWAY);
    let full = Packet::default().tag(CHAIN, FULL);
    let first = NextPlace::Function(FunctionIndex(0));
    assert_eq!(rules.next(port(0), &full), hop(Some(FULL), first));
    assert_eq!(rules.next(COUNT, &full), to_function(POLICE));
    assert_eq!(rules.next(POLICE, &full), to_function(REWRITE));
    assert_eq!(rules.next(REWRITE, &full), hop(None, NextPlace::Port(PortIndex(1))));
    let red = full.tag(COLOUR, 2);
    assert_eq!(rules.next(REWRITE, &red), hop(None, NextPlace::Drop));
}

#[test]
fn chains_share_functions() {
    let rules = rules(GATEWAY);
    let voice = Packet::default().tag(CHAIN, VOICE);
    assert_eq!(rules.next(COUNT, &voice), to_function(FORWARD));
    assert_eq!(rules.next(FORWARD, &voice), hop(None, NextPlace::Port(PortIndex(1))));
    // `police` is not in this chain, so no rule matches behind it.
    assert_eq!(rules.next(POLICE, &voice), hop(None, NextPlace::NoRule));
}

#[test]
fn the_first_rule_that_matches_wins() {
    let text = "\
from access when weight < 10 -> drop
from access when weight < 20 -> internet
from access when weight < 15 -> count
";
    let rules = rules(text);
    let next = |weight| rules.next(port(0), &Packet::default().tag(WEIGHT, weight)).to;
    assert_eq!(next(9), NextPlace::Drop);
    assert_eq!(next(10), NextPlace::Port(PortIndex(1)));
    assert_eq!(next(19), NextPlace::Port(PortIndex(1)));
    assert_eq!(next(20), NextPlace::NoRule);
    assert_eq!(rules.next(port(1), &Packet::default()).to, NextPlace::NoRule);
}

#[test]
fn the_steps_of_a_chain_stand_where_its_line_stands() {
    let before = rules("from count -> drop\nchain full = count -> police");
    let behind = rules("chain full = count -> police\nfrom count -> drop");
    let packet = Packet::default().tag(CHAIN, FULL);
    assert_eq!(before.next(COUNT, &packet).to, NextPlace::Drop);
    assert_eq!(behind.next(COUNT, &packet), to_function(POLICE));
    assert_eq!(behind.next(COUNT, &packet.tag(CHAIN, NO_CHAIN)).to, NextPlace::Drop);
}

#[test]
fn chains_may_be_used_before_they_are_declared() {
    let rules = rules("from access -> late\nfrom late -> internet\nchain late = count");
    let hop = rules.next(port(0), &Packet::default().tag(CHAIN, NO_CHAIN));
    assert_eq!(hop, Hop { set_chain: Some(0), to: NextPlace::Function(FunctionIndex(0)) });
}

#[test]
fn chains_are_listed_from_any_text() {
    assert_eq!(RuleSet::chains(GATEWAY), ["full", "voice"]);
    assert_eq!(RuleSet::chains("chain b = x\n???\nchain a = y -> z\nchain b = x\n"), ["b", "a"]);
    assert_eq!(RuleSet::chains(""), [""; 0]);
}

#[test]
fn lines_go_on_behind_and_before_operators() {
    let rules = rules(
        "from access when weight in {1,  # one
             2} ||                       # or two

             weight
             == 5
             && direction == downlink
             ->
             internet",
    );
    let next = |weight, direction| {
        let packet = Packet::default().tag(WEIGHT, weight).tag(DIRECTION, direction);
        rules.next(port(0), &packet).to != NextPlace::NoRule
    };
    assert!(next(1, 0) && next(2, 0) && next(5, 1));
    assert!(!next(3, 0) && !next(5, 0));
}

#[test]
fn and_binds_tighter_than_or() {
    let packet = |weight, colour| Packet::default().tag(WEIGHT, weight).tag(COLOUR, colour);
    let plain = "weight == 1 || weight == 2 && colour == red";
    assert!(holds(plain, &packet(1, 0)));
    assert!(!holds(plain, &packet(2, 0)));
    let grouped = "(weight == 1 || weight == 2) && colour == red";
    assert!(!holds(grouped, &packet(1, 0)));
    assert!(holds(grouped, &packet(2, 2)));
}

#[test]
fn not_binds_tighter_than_and() {
    let packet = Packet::default().tag(WEIGHT, 1);
    assert!(!holds("!weight == 2 && weight == 2", &packet));
    assert!(holds("!(weight == 2 && weight == 1)", &packet));
    assert!(holds("!!weight == 1", &packet));
    assert!(holds("true && !(!true)", &packet));
}

#[test]
fn numbers_compare_in_all_ways() {
    let packet = Packet::default().number(Field::SourcePort, 1000);
    for condition in [
        "source-port == 1000",
        "source-port == 0x3e8",
        "source-port != 999",
        "source-port < 1001",
        "source-port <= 1000",
        "source-port > 999",
        "source-port >= 1000",
        "source-port in 1000..1000",
        "source-port in {1, 900..1100}",
        "source-port == 900..1000",
        "source-port != 1..999",
    ] {
        assert!(holds(condition, &packet), "{condition}");
        assert!(!holds(&format!("!({condition})"), &packet), "!({condition})");
    }
}

#[test]
fn the_ends_of_the_numbers() {
    let weight = |weight| Packet::default().tag(WEIGHT, weight);
    assert!(!holds("weight < 0", &weight(0)));
    assert!(holds("weight >= 0", &weight(0)));
    assert!(!holds("weight > 4294967295", &weight(u32::MAX)));
    assert!(holds("weight <= 4294967295", &weight(u32::MAX)));
}

#[test]
fn numbers_have_names() {
    let packet = Packet::default().number(Field::Protocol, 132).number(Field::Dscp, 36);
    assert!(holds("protocol == sctp && dscp == af42", &packet));
    assert!(holds("dscp in af41..af43", &packet));
    assert!(holds("dscp > cs4 && dscp < cs5", &packet));
    let named = [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58), ("esp", 50), ("gre", 47)];
    for (name, number) in named {
        let packet = Packet::default().number(Field::Protocol, number);
        assert!(holds(&format!("protocol == {name}"), &packet), "{name}");
    }
    for (name, number) in [("cs0", 0), ("cs7", 56), ("af11", 10), ("af33", 30), ("ef", 46)] {
        let packet = Packet::default().number(Field::Dscp, number);
        assert!(holds(&format!("dscp == {name}"), &packet), "{name}");
    }
}

#[test]
fn addresses_match_prefixes_and_ranges() {
    let from = |address| Packet::default().address(Field::Source, address);
    assert!(holds("source == 10.1.2.3", &from("10.1.2.3")));
    assert!(holds("source in 10.0.0.0/8", &from("10.255.255.255")));
    assert!(!holds("source in 10.0.0.0/8", &from("11.0.0.0")));
    assert!(holds("source in 0.0.0.0/0", &from("255.255.255.255")));
    assert!(!holds("source in 0.0.0.0/0", &from("::1")));
    assert!(holds("source in ::/0", &from("ffff::")));
    assert!(holds("source in {10.0.0.0/8, 2001:db8::/32}", &from("2001:db8:1::1")));
    assert!(!holds("source in 2001:db8::/32", &from("2001:db9::")));
    assert!(holds("source in 10.0.0.5..10.0.0.9", &from("10.0.0.9")));
    assert!(!holds("source in 10.0.0.5..10.0.0.9", &from("10.0.0.10")));
    assert!(holds("source in ::5..::9", &from("::7")));
    assert!(holds("source != 10.0.0.0/8", &from("::1")));
    // An address is never compared with a packet's number.
    let odd = Packet::default().number(Field::Source, 10);
    assert!(!holds("source in {0.0.0.0/0, ::/0}", &odd));
}

#[test]
fn the_port_is_where_the_packet_came_in() {
    let packet = Packet::default().number(Field::Port, 1);
    assert!(holds("port == internet", &packet));
    assert!(holds("port in {access, internet}", &packet));
    assert!(holds("port != access", &packet));
}

#[test]
fn a_field_that_is_not_there_is_only_unequal() {
    let bare = Packet::default();
    for condition in ["vlan == 1", "vlan in {0..4095}", "vlan < 5", "vlan >= 0", "vlan <= 4095"] {
        assert!(!holds(condition, &bare), "{condition}");
        assert!(holds(&format!("!({condition})"), &bare), "!({condition})");
    }
    assert!(holds("vlan != 1", &bare));
    assert!(!holds("!(vlan != 1)", &bare));
    assert!(!holds("source in {0.0.0.0/0, ::/0}", &bare));
    assert!(holds("source != 10.0.0.0/8 && source != ::1", &bare));
    assert!(!holds("vlan != 1 && vlan >= 0", &bare));
}

#[test]
fn a_packet_in_no_chain_differs_from_all_chains() {
    let text = "chain a = count\nchain b = police";
    let packet = Packet::default().tag(CHAIN, NO_CHAIN);
    let holds = |condition| Condition::parse(condition, &vocabulary(text)).unwrap().eval(&packet);
    assert!(!holds("chain in {a, b}"));
    assert!(holds("chain != a && chain != b"));
}

#[test]
fn the_fields_that_rules_read_are_known() {
    let read = [Field::Destination, Field::Protocol, Field::DestinationPort, Field::Dscp];
    assert_eq!(rules(GATEWAY).fields(), read);
    assert_eq!(rules("from access -> internet").fields(), []);
}

#[test]
fn conditions_fold() {
    let parse = |text| Condition::parse(text, &vocabulary("")).unwrap();
    assert!(parse("weight == 1 && weight == 2").is_never());
    assert!(parse("weight < 5 || weight > 2").is_always());
    assert!(parse("weight == 1 || true").is_always());
    assert!(parse("!(weight >= 0)").is_never());
    // A packet may lack the field, so this is a question still.
    assert!(!parse("vlan < 5 || vlan >= 5").is_always());
    assert!(parse("vlan < 5 || vlan >= 5 || vlan != 7").is_always());
    assert_eq!(parse("weight in {1, 2, 3}"), parse("weight in 1..3"));
    assert_eq!(parse("weight != 0"), parse("weight > 0"));
    assert_eq!(parse("!(weight != 1 || dscp == 2)"), parse("weight == 1 && dscp != 2"));
}

#[test]
fn conditions_are_written_as_they_are_read() {
    let text = "chain a = count\nchain b = police\nchain c = forward";
    let vocabulary = vocabulary(text);
    for condition in [
        "true",
        "!true",
        "colour == red",
        "colour != red",
        "chain in {a, b}",
        "!(chain in {a, b})",
        "chain != a",
        "weight != 5",
        "weight in {1, 3..7}",
        "weight <= 7 && vlan >= 0",
        "weight >= 7 || dscp in af41..af43",
        "!(vlan in {1, 5..9})",
        "!(vlan >= 3)",
        "vlan != 3",
        "port == access",
        "(protocol == tcp || source-port == 1) && destination in {10.0.0.0/8, 10.9.0.0..10.9.0.2}",
        "source == ::1",
        "source != 2001:db8::/32",
        "destination in {10.0.0.1, 2001:db8::/32, ff00::1..ff00::3}",
    ] {
        let parsed = Condition::parse(condition, &vocabulary).unwrap();
        let shown = parsed.display(&vocabulary).to_string();
        assert_eq!(Condition::parse(&shown, &vocabulary).unwrap(), parsed, "{shown}");
    }
    let shown =
        |text| Condition::parse(text, &vocabulary).unwrap().display(&vocabulary).to_string();
    assert_eq!(shown("!(colour == red && vlan == 3)"), "colour != red || vlan != 3");
    assert_eq!(shown("chain != a && chain != b"), "!(chain in {a, b})");
    assert_eq!(shown("protocol == 17 && dscp in 34..38"), "protocol == udp && dscp in af41..af43");
}

#[test]
fn vocabularies_are_checked() {
    let function = |name: &str, writes: Vec<u8>| FunctionPlace { name: name.to_owned(), writes };
    let tag = |name: &str| TagSpec { name: name.to_owned(), kind: TagKind::Number };
    let new = |ports: &[&str], functions, tags| {
        let ports = ports.iter().map(|name| (*name).to_owned()).collect();
        Vocabulary::new(ports, functions, tags).map_err(|error| error.to_string())
    };
    let error = |text: &str| Err(text.to_owned());
    assert_eq!(new(&["a b"], vec![], vec![]), error("`a b` cannot be used as a name in rules"));
    assert_eq!(new(&["a->b"], vec![], vec![]), error("`a->b` cannot be used as a name in rules"));
    assert_eq!(new(&["drop"], vec![], vec![]), error("`drop` cannot be used as a name in rules"));
    assert_eq!(new(&[""], vec![], vec![]), error("`` cannot be used as a name in rules"));
    assert_eq!(
        new(&[], vec![], vec![tag("dscp")]),
        error("`dscp` cannot be used as a name in rules")
    );
    assert_eq!(new(&["a"], vec![function("a", vec![])], vec![]), error("`a` is defined twice"));
    assert_eq!(new(&[], vec![], vec![tag("t"), tag("t")]), error("`t` is defined twice"));
    assert_eq!(
        new(&[], vec![], (0..9).map(|n| tag(&format!("t{n}"))).collect()),
        error("9 tags are defined, a packet carries at most 8")
    );
    assert_eq!(
        new(&[], vec![function("f", vec![0, 1])], vec![tag("t")]),
        error("`f` writes tag slot 1, which no tag has")
    );
    assert!(
        new(&["ring:up", "veth0.100"], vec![function("rewrite-address", vec![])], vec![]).is_ok()
    );
}
