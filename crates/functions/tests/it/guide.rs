//! The function of `docs/writing-a-function.md` is that of the example, and it
//! works.

#[path = "../../examples/dscp_remark.rs"]
mod dscp_remark;

use crate::common::testing::{NETWORK, Rig, Spec};
use crate::common::{Example, blocks, headings, page};
use serde_json::{Value, json};
use weft_compose::Kind;
use weft_wire::{Dscp, ipv4, ipv6};

const EXAMPLE: &str = include_str!("../../examples/dscp_remark.rs");
const TESTS: &str = include_str!("guide.rs");
const REGISTRY: &str = include_str!("../../src/qos/mod.rs");

#[test]
fn the_guide_shows_the_whole_example_as_it_is() {
    let guide = page("writing-a-function.md");
    let (function, _) = EXAMPLE.split_once("\n/// As an example").expect("the function");
    let mut rest = function;
    let mut tests = 0;
    for block in blocks(&guide, "rust") {
        if TESTS.contains(&block) {
            tests += 1;
            continue;
        }
        let found = rest.find(&block).unwrap_or_else(|| panic!("not in the example:\n{block}"));
        assert!(rest[..found].trim().is_empty(), "left out:\n{}", &rest[..found]);
        rest = &rest[found + block.len()..];
    }
    assert!(rest.trim().is_empty(), "left out:\n{rest}");
    assert_eq!(tests, 1, "the guide shows a test");
}

/// The lines that the guide adds stand beside lines that are there.
#[test]
fn the_guide_knows_the_registry() {
    let guide = page("writing-a-function.md");
    let [diff] = &blocks(&guide, "diff")[..] else { panic!("one change of the registry") };
    let mut rest = REGISTRY;
    for line in diff.lines().filter_map(|line| line.strip_prefix(' ')) {
        let at = rest.find(line).unwrap_or_else(|| panic!("not in the registry: {line}"));
        rest = &rest[at + line.len()..];
    }
    assert_eq!(diff.lines().filter(|line| line.starts_with('+')).count(), 1, "one line");
}

#[test]
fn the_page_in_the_guide_is_like_the_others() {
    let guide = page("writing-a-function.md");
    let (_, rest) = guide.split_once("````markdown\n").expect("a page");
    let (shown, _) = rest.split_once("````").expect("its end");
    assert_eq!(headings(shown), headings(&page("functions/pass.md")));
    let mut rig = Example::on(shown, &Kind::of::<dscp_remark::DscpRemark>()).rig();
    rig.send(&Spec::udp(b"payload"));
    for (name, _) in rig.instance.show(0) {
        assert!(shown.contains(&format!("| `{name}` |")), "{name}");
    }
}

fn remark(config: Value) -> Rig {
    Rig::new(&Kind::of::<dscp_remark::DscpRemark>(), config).expect("a valid configuration")
}

#[test]
fn packets_get_the_code_point_of_their_user() {
    let mut rig = remark(json!({ "dscp": 46 }));
    rig.configure(1, json!({ "dscp": 10 }), 0, 1).expect("valid settings");
    for (user, dscp) in [(0, 46), (1, 10)] {
        let seen = rig.send_as(&Spec::udp(b"payload"), |metadata| metadata.user = user);
        let ip = ipv4::Packet::new_checked(&seen.bytes[NETWORK..]).expect("IPv4");
        assert_eq!(ip.dscp().value(), dscp);
        assert_eq!(ip.verify_checksum(), Ok(()));
        assert_eq!(rig.shown(user, "remarked"), 1);
    }
}

#[test]
fn ipv6_packets_and_packets_that_are_right_already() {
    let mut rig = remark(json!({ "dscp": 0 }));
    let spec = Spec::udp(b"payload").between("2001:db8::1", "2001:db8::2");
    assert_eq!(rig.send(&spec).bytes, spec.frame());
    assert_eq!(rig.shown(0, "remarked"), 0);
    let mut rig = remark(json!({ "dscp": 63 }));
    let seen = rig.send(&spec);
    let ip = ipv6::Packet::new_checked(&seen.bytes[NETWORK..]).expect("IPv6");
    assert_eq!(ip.dscp(), Dscp::new(63).expect("a code point"));
    let bytes = rig.export(0);
    let mut other = remark(json!({ "dscp": 0 }));
    other.instance.import(5, 0, &bytes).expect("a whole context");
    assert_eq!(other.shown(5, "remarked"), 1);
}

#[test]
fn mistakes_are_named() {
    let kind = Kind::of::<dscp_remark::DscpRemark>();
    assert_eq!(Rig::new(&kind, json!({ "dscp": 64 })).err().expect("a mistake").path, "dscp");
    let error = remark(json!({ "dscp": 0 })).configure(0, json!({ "dscp": 64 }), 0, 1);
    assert_eq!(error.expect_err("a mistake").path, "dscp");
}
