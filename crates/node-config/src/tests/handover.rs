//! What is said of mistakes in `handover`.

use weft_functions::KINDS;
use weft_mobility_protocol::{Arrival, Settings};

use super::examples::EXAMPLES;
use crate::{HandoverRole, read};

fn example() -> &'static str {
    &EXAMPLES.iter().find(|(name, _)| name == "handover-station.yaml").unwrap().1
}

/// What is said of the example with a part of it replaced, without places.
fn said(from: &str, to: &str) -> Vec<String> {
    assert!(example().contains(from), "{from}");
    match read(&example().replacen(from, to, 1), "", KINDS) {
        Ok(_) => Vec::new(),
        Err(mistakes) => {
            let text = |mistake: &crate::Mistake| {
                let text = mistake.to_string();
                text.split_once(": ").map_or(text.clone(), |(_, text)| text.to_owned())
            };
            mistakes.0.iter().map(text).collect()
        }
    }
}

#[test]
fn the_example_says_what_it_means() {
    let blueprint = read(example(), "", KINDS).unwrap();
    let plan = blueprint.handover.unwrap();
    assert_eq!((plan.node.0, plan.role, plan.port), (2, HandoverRole::Station, 1));
    assert_eq!(blueprint.functions[usize::from(plan.tunnel)].name, "to-anchor");
    assert_eq!((plan.users[0].first, plan.users[0].count), (1, 1000));
    assert_eq!((plan.limits.user.packets, plan.limits.node.packets), (1024, 4095));
    assert_eq!(plan.peers.len(), 2);
    assert_eq!(plan.settings, Settings::default());
    let seeing = example().replace("  gates:", "  radio: uplink\n  gates:");
    let settings = read(&seeing, "", KINDS).unwrap().handover.unwrap().settings;
    assert_eq!(settings, Settings { arrival: Arrival::Uplink, ..Settings::default() });
    let patient =
        example().replace("  gates: {", "  releaseTimeout: 60000\n  gates: {timeout: 30000, ");
    let settings = read(&patient, "", KINDS).unwrap().handover.unwrap().settings;
    assert_eq!((settings.gate.as_secs(), settings.release.as_secs()), (30, 60));
}

#[test]
fn certificates_have_names_that_tell_node_and_controller_apart() {
    let files = "certificate: c.pem, key: k.pem, authority: a.pem";
    let role = "role: station";
    let with = |tls: &str| format!("{role}\n  tls: {{{tls}}}");
    let right = example().replace(role, &with(&format!("{files}, controller: site")));
    let plan = read(&right, "", KINDS).unwrap().handover.unwrap();
    let security = plan.security.expect("it has certificates");
    assert_eq!(security.files.authority.to_str(), Some("a.pem"));
    assert_eq!((security.controller.as_str(), plan.plaintext), ("site", false));
    let own = format!("{files}, controller: Station-2");
    assert_eq!(
        said(role, &with(&own)),
        ["the node of that name could speak for the controller (give them different names)"]
    );
    let number = format!("{files}, controller: 10.0.0.1");
    assert_eq!(said(role, &with(&number)), ["`10.0.0.1` cannot be the name of a certificate"]);
    let both = format!("{}\n  plaintext: true", with(&format!("{files}, controller: site")));
    assert_eq!(said(role, &both), ["connections have `tls`, so none is in plain text"]);
}

#[test]
fn plain_text_is_warned_of() {
    let plain = example().replace("role: station", "role: station\n  plaintext: true");
    let blueprint = read(&plain, "n.yaml", KINDS).unwrap();
    assert!(blueprint.handover.unwrap().plaintext);
    let warnings = blueprint.warnings.to_string();
    assert!(warnings.contains("travel unenciphered") && warnings.contains("n.yaml:"), "{warnings}");
}

#[test]
fn an_anchor_sees_no_radio() {
    let anchor = example().replace("role: station", "role: anchor\n  radio: uplink");
    let Err(mistakes) = read(&anchor, "", KINDS) else { panic!("nothing is wrong") };
    assert!(mistakes.to_string().contains("an anchor has no radio"), "{mistakes}");
}

#[test]
fn an_anchor_has_no_processes_behind_its_tunnel() {
    let from = "count: {function: counter}";
    let to = "count: {function: counter, composition: process}";
    assert_eq!(said(from, to), [""; 0]);
    let anchor = example().replace("role: station", "role: anchor").replace(from, to);
    assert!(read(&anchor, "", KINDS).is_ok());
    let behind = "from to-anchor -> count";
    let anchor = anchor.replace("from to-anchor -> core", behind);
    assert!(anchor.contains(behind));
    let Err(mistakes) = read(&anchor, "", KINDS) else { panic!("nothing is wrong") };
    let says = "behind the tunnel of an anchor no function has a process or thread of its own (write `composition: \
                call`, or put it before the tunnel)";
    assert!(mistakes.to_string().contains(says), "{mistakes}");
}

#[test]
fn sessions_are_not_among_those_that_move() {
    let section = |like: &str| {
        format!(
            "pfcp:\n  listen: [10.1.0.1]\n  like: {like}\n  interfaces: [{{interface: core}}]\n\
             \nhandover:"
        )
    };
    assert_eq!(
        said("handover:", &section("ue")),
        ["the users `ue` move, and sessions stay at their node (give sessions an entry of their \
          own that `handover.users` does not name)"]
    );
    let own = "  - {name: session, count: 0}\n\nrules:";
    let apart =
        example().replacen("\nrules:", own, 1).replacen("handover:", &section("session"), 1);
    assert!(read(&apart, "", KINDS).is_ok());
}

#[test]
fn mistakes_are_named() {
    for (from, to, says) in [
        (
            "address: 10.1.0.1\n",
            "address: 10.1.0.9\n",
            "no port has 10.1.0.9 (tunnels end at an address of one of the `ports`)",
        ),
        (
            "tunnel: to-anchor",
            "tunnel: to-anchr",
            "there is no function `to-anchr` (did you mean `to-anchor`?)",
        ),
        (
            "tunnel: to-anchor",
            "tunnel: count",
            "a `counter` puts nothing into a tunnel (name a `gtpu-encapsulate`)",
        ),
        (
            "name: ue, first",
            "name: eu, first",
            "there are no `users` called `eu` (did you mean `ue`?)",
        ),
        (
            "first: 1",
            "first: 1048000",
            "the last of 1000 users would have number 1048999 (numbers are below 1048576)",
        ),
        (
            "first: 1}",
            "first: 1, added: 1048000}",
            "the last of 1049000 users would have number 1049000 (numbers are below 1048576)",
        ),
        (
            "[{name: ue, first: 1}]",
            "[{name: ue, first: 1}, {name: ue, first: 5000}]",
            "`ue` have numbers already",
        ),
        ("{node: 3, address: 10.1.0.2}", "{node: 2, address: 10.1.0.2}", "2 is this node"),
        ("{node: 3, address: 10.1.0.2}", "{node: 1, address: 10.1.0.2}", "there is another node 1"),
        ("10.1.0.2}", "10.1.0.1}", "10.1.0.1 is this node's"),
        ("10.1.0.2}", "0.0.0.0}", "0.0.0.0 is not the address of one host"),
        ("10.1.0.2}", "'2001:db8::2'}", "2001:db8::2 is not of the family of `handover.address`"),
        ("node: 2\n", "node: 0\n", "0 is not within 1..4294967295"),
        ("packets: 1024", "packets: 0", "0 is not within 1..65536"),
        ("packets: 1024", "allPackets: 20000", "20000 is not within 1..16383"),
        ("packets: 1024", "timeout: 0", "0 is not within 1..600000"),
        (
            "role: station",
            "role: station\n  releaseTimeout: 600001",
            "600001 is not within 1..600000",
        ),
        (
            "gates: {packets: 1024",
            "transport: {pause: 6000}\n  gates: {packets: 1024",
            "the longest pause is shorter than the first, 6000 ms",
        ),
        (
            "to-anchor: {function: gtpu-encapsulate",
            "to-anchor: {composition: process, function: gtpu-encapsulate",
            "the tunnel's function has no process or thread of its own (write `composition: call`)",
        ),
        (
            "match: {ipv4: 10.45.0.1}",
            "match: {teid: 0x3ffffff0}",
            "TEIDs from 0x40000000 on are those of moving users",
        ),
        (
            "role: station",
            "role: source",
            "`source` is not known here (known here: station, anchor)",
        ),
    ] {
        assert_eq!(said(from, to), [says], "{to}");
    }
}
