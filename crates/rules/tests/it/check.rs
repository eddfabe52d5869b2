//! Rules that are well written and yet cannot be meant.

use crate::common::{GATEWAY, rules, vocabulary};
use weft_rules::{PortIndex, RuleSet};

const BOTH: [PortIndex; 2] = [PortIndex(0), PortIndex(1)];

fn findings(text: &str) -> Vec<String> {
    rules(text).check(&BOTH).iter().map(ToString::to_string).collect()
}

#[track_caller]
fn finding(text: &str, expected: &str) {
    assert_eq!(findings(text), [expected]);
}

#[track_caller]
fn nothing(text: &str) {
    assert_eq!(findings(text), [""; 0]);
}

#[test]
fn good_rules_pass() {
    nothing(GATEWAY);
    nothing("");
    nothing("from access -> internet\nfrom internet -> access");
    nothing("from access -> drop");
}

#[test]
fn the_example_of_the_guide_passes() {
    let guide = include_str!("../../../../docs/rules.md");
    let (_, example) = guide.split_once("rules: |\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    assert_eq!(RuleSet::chains(example), ["full", "voice"]);
    nothing(example);
}

#[test]
fn places_that_nothing_leads_to() {
    finding(
        "from count -> internet",
        "1:1: error: this rule is never reached: no rule leads to `count`",
    );
    // One dead rule leaves the next place dead.
    assert_eq!(
        findings("from count -> police\n  from police -> internet"),
        [
            "1:1: error: this rule is never reached: no rule leads to `count`",
            "2:3: error: this rule is never reached: no rule leads to `police`",
        ]
    );
}

#[test]
fn ports_at_which_nothing_comes_in() {
    let rules = rules("from access -> internet\nfrom internet -> access");
    let findings = rules.check(&[PortIndex(0)]);
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        findings,
        ["2:1: error: this rule is never reached: no packet comes in at `internet`"]
    );
}

#[test]
fn rules_covered_by_one_before() {
    finding(
        "from access -> internet\nfrom access when colour == red -> drop",
        "2:1: error: this rule is never reached: earlier rules take all its packets (see line 1)",
    );
    finding(
        "from access when dscp <= 10 -> internet\nfrom access when dscp in {1, 5..10} -> drop",
        "2:1: error: this rule is never reached: earlier rules take all its packets (see line 1)",
    );
    nothing("from access when dscp <= 10 -> internet\nfrom access when dscp in {1, 5..11} -> drop");
}

#[test]
fn rules_covered_by_several_before() {
    finding(
        "\
from access when colour == red -> drop
from access when weight == 7 -> drop
from access when colour == green -> internet
from access when colour == yellow -> internet
from access -> internet
",
        "5:1: error: this rule is never reached: earlier rules take all its packets \
         (see lines 1, 2, 3 and 4)",
    );
    finding(
        "\
from access when dscp < 30 -> drop
from access when dscp > 20 -> internet
from access when dscp in 10..40 -> internet
",
        "3:1: error: this rule is never reached: earlier rules take all its packets \
         (see lines 1 and 2)",
    );
}

#[test]
fn only_the_first_of_many_lines_are_named() {
    let mut text: String =
        (0..7).map(|n| format!("from access when weight == {n} -> drop\n")).collect();
    text.push_str("from access when weight < 7 -> internet");
    finding(
        &text,
        "8:1: error: this rule is never reached: earlier rules take all its packets \
         (see lines 1, 2, 3, 4, 5 and 2 more)",
    );
}

#[test]
fn the_rule_that_takes_a_packet_is_the_one_to_see() {
    let covered = |line| {
        format!(
            "{line}:1: error: this rule is never reached: earlier rules take all its packets \
             (see line 1)"
        )
    };
    assert_eq!(
        findings(
            "\
from access when dscp < 30 -> drop
from access when dscp < 20 -> internet
from access when dscp < 10 -> drop
"
        ),
        [covered(2), covered(3)]
    );
}

#[test]
fn prefixes_cover_prefixes() {
    finding(
        "\
from access when destination in 10.0.0.0/9 -> drop
from access when destination in 10.128.0.0/9 -> internet
from access when destination in 10.0.0.0/8 -> internet
",
        "3:1: error: this rule is never reached: earlier rules take all its packets \
         (see lines 1 and 2)",
    );
    nothing(
        "\
from access when destination in 0.0.0.0/0 -> drop
from access when destination in ::/0 -> drop
from access -> internet
",
    );
}

#[test]
fn a_packet_may_lack_the_field() {
    nothing("from access when vlan >= 0 -> drop\nfrom access -> internet");
    finding(
        "\
from access when vlan >= 0 -> drop
from access when vlan != 7 -> internet
from access -> internet
",
        "3:1: error: this rule is never reached: earlier rules take all its packets \
         (see lines 1 and 2)",
    );
}

#[test]
fn a_packet_may_be_in_no_chain() {
    nothing(
        "\
chain full = count
chain voice = police
from access when chain == full -> full
from access when chain == voice -> voice
from access -> internet
from full -> internet
from voice -> internet
",
    );
}

#[test]
fn steps_of_chains_can_be_covered() {
    finding(
        "\
from count -> internet
chain full = count -> police
from access -> full
",
        "2:14: error: this step of the chain `full` is never reached: \
         earlier rules take all its packets (see line 1)",
    );
}

#[test]
fn conditions_that_never_hold() {
    let never = "1:18: error: this condition can never hold";
    for condition in [
        "colour == red && colour == green",
        "colour != green && colour != yellow && colour != red",
        "!true",
        "weight < 0",
        "dscp > 63",
        "vlan != 1 && vlan == 1",
        "protocol == tcp && (protocol == udp || protocol == sctp)",
        "port == internet",
        "source in 10.0.0.0/8 && source in ::/0",
    ] {
        finding(&format!("from access when {condition} -> internet"), never);
    }
    nothing("from access -> count\nfrom count when port == internet -> drop");
    finding(
        "\
chain full = count
chain voice = count
from access -> full
from internet -> voice
from full when chain == voice -> drop
",
        "5:16: error: this condition can never hold",
    );
}

#[test]
fn chains_that_are_never_entered() {
    finding("chain full = count -> police", "1:7: error: no rule leads to the chain `full`");
    finding(
        "\
chain full = count -> police
chain voice = count -> forward
from access -> full
from full -> internet
",
        "2:7: warning: no rule leads to the chain `voice`",
    );
    // The classifier may have given the tag.
    nothing("chain full = count -> police\nfrom access -> count\nfrom full -> internet");
    assert_eq!(
        findings("chain full = count\nfrom access when !true -> full\nfrom full -> internet"),
        [
            "1:7: error: no rule leads to the chain `full`",
            "2:18: error: this condition can never hold",
            "3:1: error: this rule is never reached: no rule leads to `full`",
        ]
    );
}

#[test]
fn loops_without_exit() {
    finding(
        "from access -> count\nfrom count -> count",
        "2:1: error: no packet leaves the loop of `count` (add a rule that leads out of it)",
    );
    finding(
        "\
from access -> count
from police -> rewrite
from count -> police
from rewrite -> count
",
        "2:1: error: no packet leaves the loop of `police`, `count`, `rewrite` \
         (add a rule that leads out of it)",
    );
    // The tag of the chain is known within it, so the exit for other packets is none.
    finding(
        "\
chain full = count -> police
from access -> full
from full -> full
from internet -> count
from count -> drop
",
        "1:14: error: no packet leaves the loop of `count`, `police` \
         (add a rule that leads out of it)",
    );
}

#[test]
fn loops_that_packets_leave() {
    // The function that decides who stays changes its mind.
    nothing("from access -> police\nfrom police when colour == red -> drop\nfrom police -> police");
    nothing(
        "\
from access -> count
from count when colour == red -> drop
from count -> police
from police -> count
",
    );
    // Functions change header fields.
    nothing("from access -> count\nfrom count when dscp == ef -> drop\nfrom count -> count");
    // Packets of the colours that stay do not come here.
    nothing(
        "\
from access when colour != green -> drop
from access -> count
from count when colour != green -> count
from count -> internet
",
    );
}

#[test]
fn loops_that_packets_of_some_colour_do_not_leave() {
    finding(
        "from access -> count\nfrom count when colour == red -> drop\nfrom count -> count",
        "3:1: error: no packet with `colour` green or yellow leaves the loop of `count` \
         (add a rule that leads out of it)",
    );
    // No rule for green packets: they are dropped, and so leave.
    finding(
        "from access -> count\nfrom count when colour != green -> count",
        "2:1: error: no packet with `colour` yellow or red leaves the loop of `count` \
         (add a rule that leads out of it)",
    );
    // A function in front of the loop gives the colour, none in it.
    finding(
        "\
from access when weight > 4 -> police
from access -> internet
from police -> count
from count when colour != green && weight > 10 -> drop
from count when colour != green && weight in 5..7 -> rewrite
from count -> internet
from rewrite -> count
",
        "5:1: error: no packet with `colour` yellow or red and `weight` 5..7 leaves the loop of \
         `count`, `rewrite` (add a rule that leads out of it)",
    );
    // What a chain is known to be is no way out.
    finding(
        "\
chain voice = count
chain full = count
from access -> count
from full -> internet
from count when chain == voice -> police
from count when chain != voice -> police
from police when chain in {voice, full} -> count
from police -> drop
",
        "5:1: error: no packet leaves the loop of `count`, `police` (add a rule that leads out of it)",
    );
}

#[test]
fn arms_that_cover_everything_leave_no_exit() {
    let (arms, message) = (
        "\
from access -> count
from count when colour == red -> police
from count when colour != red -> count
from police -> count
",
        "2:1: error: no packet leaves the loop of `count`, `police` \
         (add a rule that leads out of it)",
    );
    finding(arms, message);
}

#[test]
fn a_loop_behind_an_exit_is_found() {
    finding(
        "\
from access -> count
from count when colour == red -> drop
from count -> police
from police -> rewrite
from rewrite -> police
",
        "4:1: error: no packet leaves the loop of `police`, `rewrite` \
         (add a rule that leads out of it)",
    );
}

/// Six fields of twelve values each are three million classes: only the obvious is found.
#[test]
fn places_with_too_many_classes() {
    let fields = ["dscp", "vlan", "protocol", "source-port", "destination-port", "weight"];
    let wide: Vec<String> =
        fields.iter().map(|field| format!("{field} in {{1, 3, 5, 7, 9, 11}}")).collect();
    let text = format!(
        "\
from access when {} -> drop
from access when {} -> drop
from access when weight == 1 -> internet
from access when weight == 2 && weight == 3 -> internet
from access when weight == 1 -> internet
from access -> internet
from access when dscp == 3 -> drop
",
        wide.join(" && "),
        wide.join(" || "),
    );
    assert_eq!(
        findings(&text),
        [
            "4:18: error: this condition can never hold",
            "5:1: error: this rule is never reached: earlier rules take all its packets \
             (see line 3)",
            "7:1: error: this rule is never reached: earlier rules take all its packets \
             (see line 6)",
        ]
    );
}

#[test]
fn rules_of_a_port_that_does_not_exist_are_none() {
    let rules = RuleSet::parse("from access -> internet", &vocabulary("")).unwrap();
    assert_eq!(rules.check(&[PortIndex(0), PortIndex(9)]), []);
}
