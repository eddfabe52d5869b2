//! Documents: read whole, checked together, told by line and column.

use proptest::prelude::*;
use weft_site::document::{self, DocumentKind, Meaning};
use weft_site::set::{Change, Set};

const NODE: &str = "apiVersion: weft/v1\nkind: Node\nmetadata: {name: NAME}\n\
ports:\n  access: {device: net_null0, direction: uplink}\n  core: {device: net_null1, direction: downlink}\n\
rules: |\n  from access -> core\n  from core -> access\n";

const SITE: &str =
    "apiVersion: weft/v1\nkind: Site\nmetadata: {name: north}\nrollout: {watch: 2, drops: 1}\n";

fn template(nodes: &str, rules: &str) -> String {
    format!(
        "apiVersion: weft/v1\nkind: NodeTemplate\nmetadata: {{name: stations}}\nnodes:\n{nodes}\
         template: |\n  apiVersion: weft/v1\n  kind: Node\n  metadata: {{name: $(name)}}\n  ports:\n    \
         access: {{device: net_null0, direction: uplink, addresses: [$(address)]}}\n    \
         core: {{device: net_null1, direction: downlink}}\n  rules: |\n    {rules}\n    from core -> access\n"
    )
}

fn stations() -> String {
    template("  a: {address: 10.1.0.1/24}\n  b: {address: 10.1.0.2/24}\n", "from access -> core")
}

fn mistakes(text: &str) -> String {
    document::read(text, "site.yaml").unwrap_err().to_string()
}

#[test]
fn a_file_has_several_documents() {
    let text =
        format!("# A site.\n---\n{SITE}---\n{}---\n{}", stations(), NODE.replace("NAME", "gw"));
    let documents = document::read(&text, "site.yaml").unwrap();
    let names: Vec<_> =
        documents.iter().map(|document| (document.kind, document.name.as_str())).collect();
    assert_eq!(
        names,
        [
            (DocumentKind::Site, "north"),
            (DocumentKind::NodeTemplate, "stations"),
            (DocumentKind::Node, "gw")
        ]
    );
    let (set, changes) = Set::default().with(documents).unwrap();
    assert_eq!(changes, [Change::New; 3]);
    let nodes = set.nodes();
    let names: Vec<_> = nodes.iter().map(|node| node.node.as_str()).collect();
    assert_eq!(names, ["a", "b", "gw"]);
    assert!(nodes[1].text.contains("addresses: [10.1.0.2/24]"), "{}", nodes[1].text);
    assert_eq!((set.pace().watch.as_secs(), set.pace().drops), (2, 0.01));
    // What is kept reads as it was.
    let again = Set::of(&set.kept()).unwrap();
    assert_eq!((again.nodes(), again.pace()), (nodes, set.pace()));
}

#[test]
fn mistakes_have_their_places() {
    let wrong = template("  a: {address: 10.1.0.1/24}\n", "from acces -> core");
    let text = format!("{SITE}---\n{wrong}");
    let line = 1 + text.lines().position(|line| line.contains("acces ->")).unwrap();
    let said = mistakes(&text);
    assert!(said.starts_with(&format!("site.yaml:{line}:10: ")), "{said}");

    let said = mistakes(&template("  a: {adress: 10.1.0.1/24}\n", "from access -> core"));
    let line =
        1 + template("  a: {}\n", "x").lines().position(|l| l.contains("$(address)")).unwrap();
    assert!(said.starts_with(&format!("site.yaml:{line}:")), "{said}");
    assert!(said.contains("of a: there is no value for `$(address)`"), "{said}");

    let said = mistakes(&SITE.replace("watch: 2", "watch: 0"));
    assert!(said.starts_with("site.yaml:4:"), "{said}");
    assert!(said.contains("must be 1 to 3600 seconds, not 0"), "{said}");
    let said = mistakes(&SITE.replace("drops: 1", "drop: 1"));
    assert!(said.contains("did you mean `drops`?"), "{said}");
    let said = mistakes(&SITE.replace("kind: Site", "kind: Sites"));
    assert!(
        said.contains("`Sites` is not a kind of document of a site (did you mean `Site`?)"),
        "{said}"
    );
    assert!(mistakes("---\n# nothing\n").contains("there is no document in this file"));
    let said = mistakes(&stations().replace("name: $(name)", "name: c"));
    assert!(said.contains("write `metadata: {name: $(name)}`"), "{said}");
}

#[test]
fn documents_that_do_not_go_together_are_refused() {
    let site = document::read(SITE, "one.yaml").unwrap();
    let (set, _) = Set::default().with(site).unwrap();
    let (set, _) = set.with(document::read(&stations(), "two.yaml").unwrap()).unwrap();
    let refused =
        |text: &str| set.with(document::read(text, "new.yaml").unwrap()).unwrap_err().to_string();
    let said = refused(&NODE.replace("NAME", "a"));
    assert!(
        said.contains("new.yaml:1:1: the node a is that of NodeTemplate stations already"),
        "{said}"
    );
    let said = refused(&SITE.replace("north", "south"));
    assert!(said.contains("there is a Site already: "), "{said}");
    let said = refused(&format!("{SITE}---\n{SITE}"));
    assert!(
        said.contains("new.yaml:6:1: a Site of the name north stands before, at new.yaml:1"),
        "{said}"
    );
    // The same again is no change, and another text is.
    let (_, changes) = set.with(document::read(&stations(), "new.yaml").unwrap()).unwrap();
    assert_eq!(changes, [Change::Unchanged]);
    let other = stations().replace("10.1.0.2", "10.1.0.3");
    let (other, changes) = set.with(document::read(&other, "new.yaml").unwrap()).unwrap();
    assert_eq!(changes, [Change::Changed]);
    let generations = |set: &Set| -> Vec<_> { set.nodes().iter().map(|n| n.generation).collect() };
    let (before, after) = (generations(&set), generations(&other));
    assert!(before[0] == after[0] && before[1] != after[1]);
    assert!(set.without(DocumentKind::Node, "x").unwrap().is_none());
    let left = set.without(DocumentKind::NodeTemplate, "stations").unwrap().unwrap();
    assert!(left.nodes().is_empty());
}

#[test]
fn too_much_is_refused() {
    let long = format!("{SITE}# {}\n", "x".repeat(300 << 10));
    let said = Set::default().with(document::read(&long, "f").unwrap()).unwrap_err().to_string();
    assert!(said.contains("are taken at most"), "{said}");
}

#[test]
fn kinds_are_read_as_people_write_them() {
    for (text, kind) in [
        ("nodes", DocumentKind::Node),
        ("NodeTemplate", DocumentKind::NodeTemplate),
        ("nodetemplates", DocumentKind::NodeTemplate),
        ("site", DocumentKind::Site),
        ("functions", DocumentKind::Function),
        ("userclasses", DocumentKind::UserClass),
        ("UserClass", DocumentKind::UserClass),
        ("users", DocumentKind::Users),
        ("user", DocumentKind::Users),
    ] {
        assert_eq!(text.parse::<DocumentKind>(), Ok(kind));
    }
    assert!("pods".parse::<DocumentKind>().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// A document with any line spoiled is read or refused.
    #[test]
    fn whatever_is_written_is_read_or_refused(line in 0_usize..24, with in "[ -~]{0,30}") {
        let text = format!("{SITE}---\n{}", stations());
        let mut lines: Vec<_> = text.lines().collect();
        let at = line % lines.len();
        lines[at] = &with;
        if let Ok(documents) = document::read(&lines.join("\n"), "f") {
            for document in documents {
                if let Meaning::Nodes(nodes) = &document.meaning {
                    prop_assert!(nodes.iter().all(|node| node.generation != 0));
                }
            }
        }
    }
}

const PARTS: &str = "apiVersion: weft/v1\nkind: Function\nmetadata: {name: police}\nfunction: marker\n\
config: {meter: {singleRate: {committedRate: 20 Mbit/s, committedBurst: 64 KiB}}}\n---\n\
apiVersion: weft/v1\nkind: Chain\nmetadata: {name: full}\nchain: count -> police\n---\n\
apiVersion: weft/v1\nkind: UserClass\nmetadata: {name: gold}\nchain: full\n---\n\
apiVersion: weft/v1\nkind: Users\nmetadata: {name: ue}\nclass: gold\ncount: 10\nmatch: {ipv4: 10.1.1.0}\n";

/// Two nodes that have the parts, of which `b` is written out.
fn with_parts() -> String {
    let node = "  metadata: {name: $(name)}\n  ports:\n    \
         access: {device: net_null0, direction: uplink}\n    \
         core: {device: net_null1, direction: downlink}\n  functions:\n    \
         count: {function: counter}\n    police: $(Function/police)\n  users:\n    - $(Users/ue)\n  \
         rules: |\n    $(Chain/full)\n    from access when chain == full -> full\n    \
         from core -> access\n    from full -> core\n";
    format!(
        "apiVersion: weft/v1\nkind: NodeTemplate\nmetadata: {{name: stations}}\nnodes:\n  a: {{}}\n  b: {{}}\n\
         template: |\n  apiVersion: weft/v1\n  kind: Node\n{node}"
    )
}

fn set_of(text: &str) -> Result<Set, String> {
    let documents = document::read(text, "site.yaml").map_err(|mistakes| mistakes.to_string())?;
    let set = Set::default().with(documents).map_err(|mistakes| mistakes.to_string())?;
    Ok(set.0)
}

#[test]
fn nodes_have_what_parts_say() {
    // The order of documents does not matter.
    let text = format!("{}---\n{PARTS}", with_parts());
    let set = set_of(&text).unwrap();
    let nodes = set.nodes();
    assert_eq!(nodes.len(), 2);
    let text = &nodes[0].text;
    assert!(text.contains("chain full = count -> police\n"), "{text}");
    assert!(text.contains(r#""chain":"full","count":10"#), "{text}");
    assert!(text.contains(r#""function":"marker""#) && !text.contains("class"), "{text}");
    // A part that changes, changes the nodes that refer to it.
    let other = PARTS.replace("20 Mbit/s", "30 Mbit/s");
    let (other, changes) = set.with(document::read(&other, "parts.yaml").unwrap()).unwrap();
    assert_eq!(changes, [Change::Changed, Change::Unchanged, Change::Unchanged, Change::Unchanged]);
    assert!(other.nodes()[0].text.contains("30 Mbit/s"));
    assert_ne!(other.nodes()[1].generation, nodes[1].generation);
    // Users say more than their class, and other than it.
    let plain = PARTS.replace("class: gold\n", "class: gold\nchain: null\n");
    let (plain, _) = set.with(document::read(&plain, "parts.yaml").unwrap()).unwrap();
    assert!(plain.nodes()[0].text.contains(r#""chain":null"#), "{}", plain.nodes()[0].text);
    // What is kept reads as it was.
    assert_eq!(Set::of(&set.kept()).unwrap().nodes(), nodes);
    // What is referred to stays.
    let said = set.without(DocumentKind::Chain, "full").unwrap_err().to_string();
    assert!(said.contains("there is no Chain `full`"), "{said}");
    assert!(set.without(DocumentKind::NodeTemplate, "stations").unwrap().is_some());
}

#[test]
fn a_node_refers_to_parts_as_a_template_does() {
    let node = NODE.replace("NAME", "gw").replace("rules: |\n", "rules: |\n  $(Chain/one)\n");
    let node = node.replace("from access -> core", "from access -> one\n  from one -> core");
    let chain = "apiVersion: weft/v1\nkind: Chain\nmetadata: {name: one}\nchain: count\n";
    let node = node.replace("rules", "functions: {count: {function: counter}}\nrules");
    let set = set_of(&format!("{chain}---\n{node}")).unwrap();
    assert!(set.nodes()[0].text.contains("chain one = count\n"), "{}", set.nodes()[0].text);
    let said = set_of(&node).unwrap_err();
    let line = 1 + node.lines().position(|line| line.contains("$(Chain")).unwrap();
    assert!(said.starts_with(&format!("site.yaml:{line}:3: there is no Chain `one`")), "{said}");
}

#[test]
fn mistakes_of_parts_are_told() {
    for (right, wrong, says) in [
        (
            "function: marker",
            "function: market",
            "`market` is not a function (did you mean `marker`?)",
        ),
        ("function: marker\n", "", "a Function says its `function`"),
        ("chain: count -> police", "chain: [count]", "this is a text"),
        ("chain: count -> police", "chain: count\ncount: 1", "a Chain says only its `chain`"),
        ("class: gold", "class: silver", "there is no UserClass `silver`"),
        ("committedRate: 20 Mbit/s", "committedRate: fast", "fast"),
        ("count: 10", "counts: 10", "counts"),
        ("chain: count -> police", "chain: count -> polize", "polize"),
        ("{name: police}", "{name: other}", "there is no Function `police`"),
    ] {
        let text = format!("{PARTS}---\n{}", with_parts());
        assert!(text.contains(right), "{right}");
        let said = set_of(&text.replacen(right, wrong, 1)).unwrap_err();
        assert!(said.starts_with("site.yaml:") && said.contains(says), "{wrong}: {said}");
    }
}
