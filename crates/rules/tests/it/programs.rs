//! What is left of rules when they are compiled.

use crate::common::{CHAIN, COLOUR, DIRECTION, GATEWAY, Packet, WEIGHT, rules};
use weft_rules::*;

fn entry(port: u16, known: &[(u8, u32)]) -> Entry {
    let mut tags = [Known::Unknown; TAG_SLOTS];
    for &(slot, value) in known {
        tags[usize::from(slot)] = Known::Value(value);
    }
    Entry { port: PortIndex(port), tags }
}

#[track_caller]
fn paths(text: &str, entries: &[Entry], expected: &str) {
    let rules = rules(text);
    let program = rules.compile(entries).unwrap();
    assert_eq!(program.paths(rules.vocabulary(), entries).to_string(), expected);
}

#[test]
fn what_is_known_is_decided() {
    paths(
        GATEWAY,
        &[entry(0, &[(CHAIN, 0), (DIRECTION, 0)])],
        "access [chain=full direction=uplink] -> count -> police -> rewrite \
         ? colour == red -> drop : internet\n",
    );
    // Without `police` the colour that the classifier gave would still be known.
    paths(
        "from access -> count\nfrom count when colour == red -> drop\nfrom count -> internet",
        &[entry(0, &[(COLOUR, 2)]), entry(0, &[(COLOUR, 0)])],
        "access [colour=red] -> count -> drop\naccess [colour=green] -> count -> internet\n",
    );
}

#[test]
fn what_is_known_is_decided_some_hops_later() {
    paths(
        "\
from access -> count
from count -> rewrite
from rewrite -> forward
from forward when direction == uplink -> internet
",
        &[entry(0, &[(DIRECTION, 0)]), entry(0, &[(DIRECTION, 1)])],
        "access [direction=uplink] -> count -> rewrite -> forward -> internet
access [direction=downlink] -> count -> rewrite -> forward -> no_rule
",
    );
}

#[test]
fn what_is_not_known_is_left() {
    paths(
        GATEWAY,
        &[entry(0, &[]), entry(1, &[])],
        "access
  ? chain == full -> count -> police -> rewrite ? colour == red -> drop : internet
  ? direction == uplink && dscp in {af41..af43, ef} -> [chain=voice] count -> forward -> internet
  : no_rule
internet ? destination in 10.0.0.0/8 && (protocol != tcp || destination-port != 22) -> access \
: no_rule
",
    );
}

#[test]
fn the_port_is_known() {
    paths(
        "\
from access -> count
from internet -> count
from count when port == access -> internet
from count when port == internet -> access
",
        &[entry(0, &[]), entry(1, &[])],
        "access -> count -> internet\ninternet -> count -> access\n",
    );
}

#[test]
fn an_arm_that_was_taken_is_known() {
    paths(
        "\
from access when colour == red -> count
from access -> rewrite
from count when colour == red -> drop
from count -> internet
from rewrite -> internet
",
        &[entry(0, &[])],
        "access\n  ? colour == red -> count -> drop\n  : rewrite -> internet\n",
    );
}

#[test]
fn what_a_function_writes_is_forgotten() {
    paths(
        "\
from access when colour == red -> police
from police when colour == red -> drop
from police -> internet
",
        &[entry(0, &[(COLOUR, 2)])],
        "access [colour=red] -> police ? colour == red -> drop : internet\n",
    );
}

#[test]
fn loops_are_written_once() {
    paths(
        "\
from access -> count
from count -> police
from police when colour == red -> drop
from police -> count
from internet -> rewrite
from rewrite -> forward
from forward -> rewrite
",
        &[entry(0, &[]), entry(1, &[])],
        "access -> count -> police
  ? colour == red -> drop
  : count -> police …
internet -> rewrite -> forward -> rewrite …
",
    );
}

#[test]
fn branches_in_branches_are_indented() {
    paths(
        "\
from access when vlan == 1 -> count
from access when vlan == 2 -> police
from access -> drop
from count when weight < 5 -> police
from count when weight < 9 -> internet
from police when colour == red -> drop
from police -> internet
",
        &[entry(0, &[]), entry(0, &[(CHAIN, NO_CHAIN), (WEIGHT, 7)])],
        "access
  ? vlan == 1 -> count
    ? weight <= 4 -> police ? colour == red -> drop : internet
    ? weight <= 8 -> internet
    : no_rule
  ? vlan == 2 -> police …
  : drop
access [chain=none weight=7]
  ? vlan == 1 -> count -> internet
  ? vlan == 2 -> police ? colour == red -> drop : internet
  : drop
",
    );
}

#[test]
fn ways_that_are_the_same_share_their_states() {
    let rules = rules(GATEWAY);
    // Direction does not matter behind the entry, and weight nowhere.
    let entries: Vec<Entry> =
        (0..1000).map(|n| entry(0, &[(CHAIN, 0), (DIRECTION, n % 2), (WEIGHT, n)])).collect();
    let program = rules.compile(&entries).unwrap();
    assert_eq!(program.states.len(), 3);
    assert!(program.entries.iter().all(|next| *next == program.entries[0]));
}

#[test]
fn numbers_that_no_rule_tells_apart_share_their_states() {
    let rules = rules(
        "from access -> count\nfrom count when weight in 10..20 -> drop\nfrom count -> internet",
    );
    let entries: Vec<Entry> = (0..1000).map(|weight| entry(0, &[(WEIGHT, weight)])).collect();
    assert_eq!(rules.compile(&entries).unwrap().states.len(), 2);
}

#[test]
fn states_that_act_the_same_are_one() {
    // Both directions are told apart by a rule, and then go the same way.
    let rules = rules(
        "\
from access -> count
from count when direction == uplink -> rewrite
from count when direction == downlink -> rewrite
from rewrite -> internet
",
    );
    let entries = [entry(0, &[(DIRECTION, 0)]), entry(0, &[(DIRECTION, 1)])];
    assert_eq!(rules.compile(&entries).unwrap().states.len(), 2);
}

#[test]
fn arms_that_make_no_difference_are_left_out() {
    let text = "\
from access when weight == 1 -> internet
from access when weight == 2 -> internet
from access when weight == 3 -> drop
from access when weight == 4 -> internet
from access -> internet
";
    paths(
        text,
        &[entry(0, &[])],
        "access\n  ? weight in 1..2 -> internet\n  ? weight == 3 -> drop\n  : internet\n",
    );
}

/// Function indices by state, which must be in one piece per function.
fn functions(program: &Program) -> Vec<u16> {
    program.states.iter().map(|state| state.function.0).collect()
}

#[test]
fn states_are_in_topological_order() {
    let rules = rules(
        "\
from access -> forward
from forward when colour == red -> rewrite
from forward -> police
from rewrite when vlan == 1 -> police
from rewrite -> count
from police -> count
from count -> internet
",
    );
    let entries = [entry(0, &[(COLOUR, 0)]), entry(0, &[(COLOUR, 2)]), entry(0, &[])];
    let program = rules.compile(&entries).unwrap();
    assert_eq!(functions(&program), [3, 3, 3, 2, 1, 0]);
}

#[test]
fn functions_behind_a_cycle_stand_behind_it() {
    let rules = rules(
        "\
from access -> police
from police when colour == red -> rewrite
from police -> count
from rewrite -> police
from count -> internet
",
    );
    let program = rules.compile(&[entry(0, &[])]).unwrap();
    assert_eq!(functions(&program)[2..], [0]);
}

#[test]
fn a_chain_is_set_only_where_it_is_not_known() {
    let rules = rules(
        "\
chain full = count
from access -> full
from full -> internet
",
    );
    let entries = [entry(0, &[(CHAIN, 0)]), entry(0, &[]), entry(0, &[(CHAIN, NO_CHAIN)])];
    let program = rules.compile(&entries).unwrap();
    let set = |index: usize| program.entries[index].choose(&Packet::default()).set_chain;
    assert_eq!([set(0), set(1), set(2)], [None, Some(0), Some(0)]);
    assert_eq!(program.chain_slot, Some(CHAIN));
    assert_eq!(program.states.len(), 1);
}

#[test]
fn a_chain_is_set_where_no_rule_asks_for_it() {
    let text = "\
chain full = count
chain voice = forward
from access -> rewrite
from rewrite -> voice
from count -> internet
from forward -> full
";
    // Only entering tells the chains apart here: no rule compares the tag.
    paths(
        text,
        &[entry(0, &[(CHAIN, 0)]), entry(0, &[(CHAIN, 1)]), entry(0, &[])],
        "access [chain=full] -> rewrite -> [chain=voice] forward -> [chain=full] count -> internet
access [chain=voice] -> rewrite -> forward -> [chain=full] count -> internet
access -> rewrite -> [chain=voice] forward -> [chain=full] count -> internet
",
    );
}

#[test]
fn entries_may_be_choices_and_ends() {
    let rules = rules("from access when vlan == 5 -> internet\nfrom internet -> drop");
    let entries = [entry(0, &[]), entry(1, &[]), entry(7, &[])];
    let program = rules.compile(&entries).unwrap();
    let choose = |index: usize, vlan| {
        program.entries[index].choose(&Packet::default().number(Field::Vlan, vlan)).to
    };
    assert_eq!(choose(0, 5), To::Port(PortIndex(1)));
    assert_eq!(choose(0, 6), To::NoRule);
    assert_eq!(choose(1, 5), To::Drop);
    // Nothing leads out of a port that does not exist.
    assert_eq!(choose(2, 5), To::NoRule);
}

/// Each of many states would look at each of many rules: for minutes.
#[test]
fn states_times_rules_are_bounded() {
    let mut text = String::from("from access -> count\n");
    for weight in 0..10_000 {
        text.push_str(&format!("from count when weight > {weight} && vlan == 5 -> internet\n"));
    }
    let rules = rules(&text);
    let entries: Vec<Entry> =
        (0..10_000).map(|weight| entry(0, &[(WEIGHT, weight as u32)])).collect();
    let error = rules.compile(&entries).unwrap_err();
    assert_eq!(error, CompileError::TooManyEvaluations);
    assert!(rules.compile(&entries[..300]).is_ok());
}

#[test]
fn the_number_of_states_is_bounded() {
    // Every value of the tag is told apart behind `count`.
    let mut text = String::from("from access -> count\n");
    for weight in 0..MAX_STATES {
        text.push_str(&format!("from count when weight == {weight} -> internet\n"));
    }
    let rules = rules(&text);
    let entries = |count: usize| -> Vec<Entry> {
        (0..count).map(|weight| entry(0, &[(WEIGHT, weight as u32)])).collect()
    };
    // One state for all that is above the values named.
    assert!(rules.compile(&entries(100)).is_ok());
    let error = rules.compile(&entries(MAX_STATES + 1)).unwrap_err();
    assert_eq!(error, CompileError::TooManyStates);
    assert_eq!(
        error.to_string(),
        "the ways of these packets through the rules have more than 32768 states"
    );
}
