//! Every mistake that reading a rule text can report: where, what, and the hint.

use crate::common::vocabulary;
use weft_rules::{Condition, RuleSet};

/// All diagnostics of a text, as a user reads them.
fn mistakes(text: &str) -> Vec<String> {
    let diagnostics = RuleSet::parse(text, &vocabulary(text)).expect_err("a mistake");
    diagnostics.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn mistake(text: &str, expected: &str) {
    assert_eq!(mistakes(text), [expected]);
}

#[test]
fn characters_without_meaning() {
    mistake("from access -> internet;", "1:24: error: `;` means nothing here");
    mistake(
        "from access when dscp == 1 & vlan == 2 -> internet",
        "1:28: error: `&` means nothing here (write `&&`)",
    );
    mistake(
        "from access when dscp == 1 | vlan == 2 -> internet",
        "1:28: error: `|` means nothing here (write `||`)",
    );
    mistake(
        "from access when dscp in 1] -> internet",
        "1:27: error: `]` means nothing here (sets are written in braces: {a, b})",
    );
    mistake(
        "from 'access -> internet",
        "1:6: error: `'` means nothing here (names are written without quotes)",
    );
}

#[test]
fn columns_count_characters() {
    mistake("from ä", "1:6: error: `ä` means nothing here");
    mistake(
        "from\tacess ->\u{3000}internet",
        "1:6: error: there is no place `acess` (did you mean `access`?)",
    );
}

#[test]
fn lines_that_are_no_rule() {
    mistake(
        "form access -> internet",
        "1:1: error: expected `from` or `chain`, found `form` (did you mean `from`?)",
    );
    mistake("internet", "1:1: error: expected `from` or `chain`, found `internet`");
    mistake("-> internet", "1:1: error: expected `from` or `chain`, found `->`");
}

#[test]
fn rules_that_are_not_complete() {
    mistake("from", "1:5: error: expected a place, found the end of the line");
    mistake("from access", "1:12: error: expected `when` or `->`, found the end of the line");
    mistake("from access ->", "1:15: error: expected a place, found the end of the line");
    mistake(
        "from access if dscp == 1 -> internet",
        "1:13: error: expected `when` or `->`, found `if`",
    );
    mistake(
        "from access when -> internet",
        "1:18: error: expected a header field or tag, found `->`",
    );
    mistake(
        "from access when dscp == 1 internet",
        "1:28: error: expected `&&`, `||` or `->`, found `internet`",
    );
    mistake(
        "from access -> internet internet",
        "1:25: error: expected the end of the rule, found `internet`",
    );
    mistake(
        "from access -> internet when dscp == 1",
        "1:25: error: expected the end of the rule, found `when` \
         (write: from PLACE when CONDITION -> PLACE)",
    );
}

#[test]
fn a_forgotten_target_does_not_hide_the_next_rule() {
    assert_eq!(
        mistakes("from access ->\nfrom intrenet -> access"),
        [
            "1:15: error: expected a place, found the end of the line",
            "2:6: error: there is no place `intrenet` (did you mean `internet`?)",
        ]
    );
}

#[test]
fn conditions_that_are_not_complete() {
    let condition = |text: &str, expected: &str| {
        mistake(&format!("from access when {text} -> internet"), expected);
    };
    condition("dscp", "1:23: error: expected a comparison, found `->`");
    condition("dscp = 1", "1:23: error: expected a comparison, found `=` (write `==` to compare)");
    condition("dscp ==", "1:26: error: expected a value, found `->`");
    condition("dscp in {1, }", "1:30: error: expected a value, found `}`");
    condition("dscp in {}", "1:27: error: expected a value, found `}`");
    condition("dscp in {1 2}", "1:29: error: expected `,` or `}`, found `2`");
    condition("dscp == {1}", "1:26: error: expected a value, found `{` (write `in` before a set)");
    condition("dscp in 1..", "1:30: error: expected the end of the range, found `->`");
    condition("(dscp == 1", "1:29: error: expected `&&`, `||` or `)`, found `->`");
    condition("dscp == 1 &&", "1:31: error: expected a header field or tag, found `->`");
}

#[test]
fn conditions_nested_too_deep() {
    let deep = |depth| {
        let (open, close) = ("(".repeat(depth), ")".repeat(depth));
        format!("from access when {open}true{close} -> internet")
    };
    assert!(RuleSet::parse(&deep(64), &vocabulary("")).is_ok());
    mistake(&deep(65), "1:82: error: the condition is nested deeper than 64 levels");
    mistake(
        &format!("from access when {}true -> internet", "!".repeat(100_000)),
        "1:82: error: the condition is nested deeper than 64 levels",
    );
}

#[test]
fn places_that_do_not_exist() {
    mistake(
        "from acess -> internet",
        "1:6: error: there is no place `acess` (did you mean `access`?)",
    );
    mistake("from access -> dorp", "1:16: error: there is no place `dorp` (did you mean `drop`?)");
    mistake(
        "chain full = count\nfrom full -> fulll",
        "2:14: error: there is no place `fulll` (did you mean `full`?)",
    );
    mistake(
        "from access -> nowhere",
        "1:16: error: there is no place `nowhere` \
         (known here: access, internet, count, police, rewrite, forward, drop)",
    );
    mistake(
        "from drop -> access",
        "1:6: error: nothing comes from `drop` (packets that go to `drop` end there)",
    );
}

#[test]
fn tags_and_fields_that_do_not_exist() {
    mistake(
        "from access when colur == red -> internet",
        "1:18: error: `colur` is neither a header field nor a tag (did you mean `colour`?)",
    );
    mistake(
        "from access when source-prot == 1 -> internet",
        "1:18: error: `source-prot` is neither a header field nor a tag \
         (did you mean `source-port`?)",
    );
}

#[test]
fn values_that_do_not_exist() {
    let condition = |text: &str, expected: &str| {
        mistake(&format!("from access when {text} -> internet"), expected);
    };
    condition(
        "colour == rde",
        "1:28: error: `rde` is not a value of `colour` (did you mean `red`?)",
    );
    condition(
        "colour in {red, blue}",
        "1:34: error: `blue` is not a value of `colour` (known here: green, yellow, red)",
    );
    condition(
        "port == acces",
        "1:26: error: `acces` is not a value of `port` (did you mean `access`?)",
    );
    condition(
        "protocol == tpc",
        "1:30: error: `tpc` is not a value of `protocol` (did you mean `tcp`?)",
    );
    condition(
        "protocol == ospf",
        "1:30: error: `ospf` is not a value of `protocol` \
         (known here: tcp, udp, icmp, icmpv6, esp, gre, sctp)",
    );
    condition(
        "dscp == expedited",
        "1:26: error: `expedited` is not a value of `dscp` (a number from 0 to 63)",
    );
    condition("dscp == 64", "1:26: error: `64` is not a value of `dscp` (a number from 0 to 63)");
    condition(
        "vlan in 1..4096",
        "1:29: error: `4096` is not a value of `vlan` (a number from 0 to 4095)",
    );
    condition(
        "source-port == 65536",
        "1:33: error: `65536` is not a value of `source-port` (a number from 0 to 65535)",
    );
    condition(
        "weight == 0x1ffffffff",
        "1:28: error: `0x1ffffffff` is not a value of `weight` (a number from 0 to 4294967295)",
    );
    condition(
        "weight == 1a",
        "1:28: error: `1a` is not a value of `weight` (a number from 0 to 4294967295)",
    );
    condition("chain == full", "1:27: error: `full` is not a value of `chain`");
}

#[test]
fn comparisons_of_the_wrong_type() {
    let condition = |text: &str, expected: &str| {
        mistake(&format!("from access when {text} -> internet"), expected);
    };
    condition(
        "colour < red",
        "1:25: error: the values of `colour` have no order (compare it with ==, != or in)",
    );
    condition(
        "colour in green..red",
        "1:28: error: the values of `colour` have no order (list them: in {a, b})",
    );
    condition(
        "port >= access",
        "1:23: error: the values of `port` have no order (compare it with ==, != or in)",
    );
    condition(
        "source <= 10.0.0.1",
        "1:25: error: the addresses of `source` have no order \
         (write a prefix or a range: in 10.0.0.0/8, in 10.0.0.1..10.0.0.9)",
    );
    condition(
        "dscp < 1..5",
        "1:25: error: a range has no order to a number (write `in` before a range)",
    );
    condition("dscp in 5..1", "1:26: error: the range 5..1 is empty (write 1..5)");
}

#[test]
fn addresses_and_prefixes() {
    let condition = |text: &str, expected: &str| {
        mistake(&format!("from access when source == {text} -> internet"), expected);
    };
    let example = "(such as 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32)";
    for wrong in ["10.0.0", "10.0.0.256", "tcp", "10.0.0/8", "2001:db8"] {
        condition(
            wrong,
            &format!("1:28: error: `{wrong}` is not an address, as `source` has {example}"),
        );
    }
    condition(
        "10.0.0.0/33",
        "1:28: error: `/33` is not the length of an IPv4 prefix (a number from 0 to 32)",
    );
    condition(
        "2001:db8::/129",
        "1:28: error: `/129` is not the length of an IPv6 prefix (a number from 0 to 128)",
    );
    condition(
        "10.0.0.0/8x",
        "1:28: error: `/8x` is not the length of an IPv4 prefix (a number from 0 to 32)",
    );
    condition(
        "10.0.0.1/8",
        "1:28: error: `10.0.0.1/8` has bits set behind its prefix length (write 10.0.0.0/8)",
    );
    condition(
        "2001:db8::1/32",
        "1:28: error: `2001:db8::1/32` has bits set behind its prefix length \
         (write 2001:db8::/32)",
    );
    condition("10.0.0.1..::1", "1:28: error: a range of addresses is of one family");
    condition(
        "10.0.0.9..10.0.0.1",
        "1:28: error: the range 10.0.0.9..10.0.0.1 is empty (write 10.0.0.1..10.0.0.9)",
    );
}

#[test]
fn chains() {
    mistake(
        "chain empty =",
        "1:7: error: the chain `empty` is empty \
         (write a rule for the shortcut instead: from PLACE when … -> PLACE)",
    );
    mistake("chain full", "1:11: error: expected `=`, found the end of the line");
    mistake("chain = count", "1:7: error: expected the name of the chain, found `=`");
    mistake("chain full = -> count", "1:14: error: expected a function, found `->`");
    mistake("chain full = count ->", "1:22: error: expected a function, found the end of the line");
    mistake(
        "chain full = count police",
        "1:20: error: expected `->` or the end of the chain, found `police`",
    );
    mistake(
        "chain full = count\nchain full = police",
        "2:7: error: the chain `full` is declared twice (first in line 1)",
    );
    mistake(
        "chain count = police",
        "1:7: error: `count` is the name of a function (give the chain a name of its own)",
    );
    mistake(
        "chain access = police",
        "1:7: error: `access` is the name of a port (give the chain a name of its own)",
    );
    mistake(
        "chain drop = police",
        "1:7: error: `drop` is the name of a built-in target (give the chain a name of its own)",
    );
    mistake(
        "chain full = count -> count",
        "1:23: error: `count` stands twice in one chain \
         (rules cannot tell its visits apart: use a second instance)",
    );
    mistake(
        "chain full = count -> internet",
        "1:23: error: `internet` is a port, a chain has only functions",
    );
    mistake(
        "chain full = count -> drop",
        "1:23: error: `drop` is a built-in target, a chain has only functions",
    );
    mistake(
        "chain full = a -> police\nchain a = count",
        "1:14: error: `a` is a chain, a chain has only functions",
    );
    mistake(
        "chain full = cuont",
        "1:14: error: there is no function `cuont` (did you mean `count`?)",
    );
}

#[test]
fn chains_that_the_tag_does_not_know() {
    let diagnostics = RuleSet::parse("chain full = count", &vocabulary("")).unwrap_err();
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0].to_string(), "1:7: error: the tag `chain` has no value `full`");
}

#[test]
fn a_mistake_in_a_chain_is_reported_once() {
    mistake(
        "chain full = cuont -> police\nfrom access -> full\nfrom full -> internet",
        "1:14: error: there is no function `cuont` (did you mean `count`?)",
    );
}

#[test]
fn all_mistakes_are_found_at_once_and_in_order() {
    let text = "\
from acess when colour == rde && dcsp == 1 -> intrenet
chain full = cuont
from access when ( -> internet
from access $ internet
from internet when destination == 10.0.0.0/40 -> access
";
    assert_eq!(
        mistakes(text),
        [
            "1:6: error: there is no place `acess` (did you mean `access`?)",
            "1:27: error: `rde` is not a value of `colour` (did you mean `red`?)",
            "1:34: error: `dcsp` is neither a header field nor a tag (did you mean `dscp`?)",
            "1:47: error: there is no place `intrenet` (did you mean `internet`?)",
            "2:14: error: there is no function `cuont` (did you mean `count`?)",
            "3:20: error: expected a header field or tag, found `->`",
            "4:13: error: `$` means nothing here",
            "5:35: error: `/40` is not the length of an IPv4 prefix (a number from 0 to 32)",
        ]
    );
}

#[test]
fn positions_in_continued_lines() {
    mistake(
        "from access when dscp == 1 &&  # both\n\n    colour == rde\n    -> internet",
        "3:15: error: `rde` is not a value of `colour` (did you mean `red`?)",
    );
    mistake(
        "from access when dscp in\n  {1,\n  2, 99\n  } -> internet",
        "3:6: error: `99` is not a value of `dscp` (a number from 0 to 63)",
    );
}

#[test]
fn conditions_that_stand_alone() {
    let mistake = |text: &str, expected: &str| {
        let diagnostics = Condition::parse(text, &vocabulary("")).expect_err("a mistake");
        assert_eq!(diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    };
    mistake("", "1:1: error: expected a header field or tag, found the end of the line");
    mistake("dscp ==", "1:8: error: expected a value, found the end of the line");
    mistake(
        "dscp == 1\n dscp == 2",
        "2:2: error: expected `&&`, `||` or the end of the condition, found `dscp`",
    );
    mistake(
        "dscp == 1 -> drop",
        "1:11: error: expected `&&`, `||` or the end of the condition, found `->`",
    );
    mistake(
        "dscp == \"1\"",
        "1:9: error: `\"` means nothing here (names are written without quotes)",
    );
}
