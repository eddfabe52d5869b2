use super::*;

const FILE: &str = "\
apiVersion: weft/v1
kind: Controller
metadata: {name: site}
listen: 127.0.0.1:9471
tokenFile: token
records: records
api: {listen: '[::1]:9472', tokenFile: api-token}
nodes:
  gateway: {number: 1, address: 'gateway.example:9473'}
  a: {number: 2, address: '192.0.2.2:9473'}
users:
  - {first: 10, count: 5, anchor: gateway, node: a}
  - {first: 15, anchor: gateway, node: a}
";

#[test]
fn a_file_is_read_whole() {
    let read = Configuration::read(FILE, "c.yaml").unwrap();
    assert_eq!((read.name.as_str(), read.window), ("site", 256));
    assert_eq!(read.name_of(NodeId(2)), Some("a"));
    assert_eq!(read.node("gateway").unwrap().address, "gateway.example:9473");
    assert_eq!(read.users[0].iter().count(), 5);
    assert!(read.users[1].contains(User(15)) && !read.users[0].contains(User(15)));
    assert_eq!(read.timing, Timing::default());
    let with = FILE.replace("records: records", "records: records\ntransport: {pause: 7}");
    let timing = Configuration::read(&with, "c.yaml").unwrap().timing;
    assert_eq!(timing.pause.as_millis(), 7);
    let api = read.api.unwrap();
    assert_eq!((api.listen.port(), api.tls), (9472, None));
}

#[test]
fn paths_begin_at_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.yaml");
    std::fs::write(&path, FILE.replace("records: records", "records: /var/lib/weft")).unwrap();
    let read = Configuration::load(&path).unwrap();
    assert_eq!(read.token_file, folder.path().join("token"));
    assert_eq!(read.records, Records::Folder("/var/lib/weft".into()));
    std::fs::write(&path, in_etcd("https://192.0.2.1:2379", CERTIFICATES)).unwrap();
    let replica = Configuration::load(&path).unwrap().replica().unwrap().clone();
    assert_eq!((replica.name.as_str(), replica.lease.as_secs()), ("control-a", 2));
    assert_eq!(replica.etcd.prefix, "/weft/site/");
    assert_eq!(replica.etcd.tls.unwrap().key, folder.path().join("k.pem"));
    let tls = "api: {tls: {certificate: c.pem, key: /k.pem}, listen";
    std::fs::write(&path, FILE.replace("api: {listen", tls)).unwrap();
    let tls = Configuration::load(&path).unwrap().api.unwrap().tls;
    let certificate = folder.path().join("c.pem");
    assert_eq!(tls, Some(Tls { certificate, key: "/k.pem".into() }));
}

#[test]
fn plain_text_leaves_the_machine_only_where_that_is_said() {
    let far = FILE.replace("listen: 127.0.0.1:9471", "listen: '[2001:db8::1]:9471'");
    let said = Configuration::read(&far, "c.yaml").unwrap_err().to_string();
    assert!(said.contains("c.yaml:4:9: nodes would connect without encryption"), "{said}");
    let allowed = far.replace("records: records", "records: records\nplaintext: true");
    let warnings = Configuration::read(&allowed, "c.yaml").unwrap().warnings.to_string();
    assert!(warnings.contains("c.yaml:7:12: connections with nodes are not"), "{warnings}");
    let tls = "records: records\ntls: {certificate: c.pem, key: k.pem, authority: a.pem}";
    let secure = far.replace("records: records", tls);
    let read = Configuration::read(&secure, "c.yaml").unwrap();
    assert_eq!((read.tls.unwrap().key.to_str(), read.warnings.0.len()), (Some("k.pem"), 0));
    for (name, wrong) in [("  a: {number: 2", "  Gateway: {number: 2"), ("name: site", "name: a")] {
        let text = secure.replace(name, wrong);
        let said = Configuration::read(&text, "c.yaml").unwrap_err().to_string();
        assert!(said.contains("would speak for another as well"), "{said}");
    }
}

const CERTIFICATES: &str = ", tls: {certificate: c.pem, key: k.pem, authority: a.pem}";

/// The file of a replica.
fn in_etcd(endpoint: &str, more: &str) -> String {
    let etcd = format!(
        "etcd: {{endpoints: ['{endpoint}']{more}}}\n\
         replica: {{name: control-a, address: 'https://192.0.2.7:9472'}}"
    );
    FILE.replace("records: records", &etcd)
}

#[test]
fn replicas_share_an_etcd_that_not_all_can_reach() {
    let said = |text: &str| Configuration::read(text, "c.yaml").unwrap_err().to_string();
    let read = Configuration::read(&in_etcd("http://127.0.0.1:2379", ""), "c.yaml").unwrap();
    let replica = read.replica().unwrap();
    assert_eq!(replica.address.as_deref(), Some("https://192.0.2.7:9472"));
    assert_eq!((read.warnings.0.len(), replica.etcd.endpoints.len()), (0, 1));
    let far = "http://192.0.2.1:2379";
    let plain = said(&in_etcd(far, ""));
    assert!(plain.contains("c.yaml:6:"), "{plain}");
    assert!(plain.contains("etcd would be spoken to in plain text"), "{plain}");
    let allowed = Configuration::read(&in_etcd(far, ", plaintext: true"), "c.yaml").unwrap();
    assert!(allowed.warnings.to_string().contains("etcd is spoken to in plain text"));
    for (text, words) in [
        (in_etcd(far, CERTIFICATES), "there are certificates for etcd, so it is https://"),
        (in_etcd("https://192.0.2.1:2379", ""), "https:// needs `etcd.tls`"),
        (in_etcd("192.0.2.1:2379", ""), "`192.0.2.1:2379` is not https://HOST:PORT"),
        (in_etcd("https://192.0.2.1", CERTIFICATES), "is not https://HOST:PORT"),
        (
            in_etcd("https://[::1]:1", &format!("{CERTIFICATES}, plaintext: true")),
            "no member of etcd is spoken to",
        ),
        (in_etcd("http://[::1]:2379", ", lease: 0"), "must be 1 to 60 seconds, not 0"),
        (in_etcd("http://[::1]:2379", ", lease: 61"), "must be 1 to 60 seconds, not 61"),
        (FILE.replace("records: records\n", ""), "give `records` or `etcd`"),
        (FILE.replace("records: records", "records: r\nreplica: {name: a}"), "give `etcd`"),
        (
            in_etcd("http://[::1]:2379", "").replace("replica:", "records: r\nreplica:"),
            "not in both",
        ),
        (
            FILE.replace("records: records", "etcd: {endpoints: ['http://[::1]:1']}"),
            "there is a `replica`",
        ),
        (in_etcd("http://[::1]:2379", "").replace("control-a", "a/b"), "`a/b` is not a name"),
    ] {
        let said = said(&text);
        assert!(said.contains(words), "{words}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
}

#[test]
fn mistakes_are_told_where_they_stand() {
    for (right, wrong, said) in [
        (
            "listen: 127.0.0.1:9471",
            "listen: localhost",
            "c.yaml:4:9: `localhost` is not an address",
        ),
        ("name: site", "name: a/b", "c.yaml:3:18: `a/b` is not a name"),
        ("number: 2,", "number: 1,", "c.yaml:10:15: 1 is the number of gateway already"),
        ("number: 2,", "number: 0,", "c.yaml:10:15: 0 is the controller's own number"),
        ("192.0.2.2:9473", "192.0.2.2", "c.yaml:10:27: `192.0.2.2` is not HOST:PORT"),
        ("first: 15,", "first: 14,", "c.yaml:13:13: some of these users are named before"),
        ("node: a}\n  -", "node: gateway}\n  -", "the anchor cannot own a user itself"),
        ("node: a}\n  -", "node: gatewy}\n  -", "there is no node `gatewy`"),
        ("count: 5", "count: 0", "c.yaml:12:24: must be 1 to 16777216"),
        (
            "tokenFile: api-token",
            "tokenFile: api-token, tls: {certificate: '', key: k}",
            "c.yaml:7:70: a path is not empty",
        ),
        ("kind: Controller", "kind: Node", "the kind of a controller is `Controller`, not `Node`"),
        ("tokenFile: token", "tokenFil: token", "tokenFile"),
        (
            "records: records",
            "records: records\ntransport: {silence: 100}",
            "c.yaml:7:22: no peer would be heard: `alive` is 2000 ms",
        ),
    ] {
        let mistakes = Configuration::read(&FILE.replacen(right, wrong, 1), "c.yaml").unwrap_err();
        let text = mistakes.to_string();
        assert!(text.contains(said), "{wrong}: {text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    }
}

#[test]
fn the_schema_says_what_there_is() {
    let schema = Configuration::schema().to_string();
    for key in ["tokenFile", "records", "window", "anchor", "address"] {
        assert!(schema.contains(key), "{key}");
    }
}

const N4: &str = "n4:
  listen: [10.0.0.254, '2001:db8::fe']
  peers: [10.0.0.0/24]
  nodes:
    a: {number: 1, address: 10.0.1.1}
    b: {number: 65535, address: '2001:db8::1'}
";

#[test]
fn n4_is_read_whole() {
    let read = Configuration::read(&format!("{FILE}{N4}"), "c.yaml").unwrap().n4.unwrap();
    assert_eq!(read.node_id, Ok("10.0.0.254".parse().unwrap()));
    assert_eq!((read.port, read.n1, read.lease.as_secs(), read.associations), (8805, 3, 30, 64));
    assert_eq!(read.node("b").unwrap().address, "[2001:db8::1]:8805".parse().unwrap());
    let named = N4.replace("  peers", "  nodeId: upf.example\n  peers");
    let named = Configuration::read(&format!("{FILE}{named}"), "c.yaml").unwrap().n4.unwrap();
    assert_eq!(named.node_id, Err("upf.example".to_owned()));
    let open =
        format!("{FILE}membership: {{}}\n{}", N4.replace("  nodes:", "  register: true\n  nodes:"));
    let open = Configuration::read(&open, "c.yaml").unwrap().n4.unwrap();
    assert!(open.registers && !read.registers && open.nodes == read.nodes);
    for (address, is_of_peers) in [("10.0.0.7", true), ("10.0.1.7", false), ("::10.0.0.7", false)] {
        assert_eq!(read.is_of_peers(address.parse().unwrap()), is_of_peers, "{address}");
    }
    let any = N4 { peers: vec![("::".parse().unwrap(), 0)], ..read };
    assert!(any.is_of_peers("2001:db8::1".parse().unwrap()));
    assert!(!any.is_of_peers("10.0.0.7".parse().unwrap()));
}

#[test]
fn what_cannot_be_of_n4_is_told() {
    for (right, wrong, said) in [
        ("number: 65535", "number: 1", "1 is the number of a already"),
        ("number: 65535", "number: 0", "numbers are 1 to 65535"),
        ("'2001:db8::1'", "10.0.1.1", "another node or N4 itself has this address"),
        ("'2001:db8::1'", "10.0.0.254", "another node or N4 itself has this address"),
        (", '2001:db8::fe'", "", "N4 listens at no address of this family"),
        ("'2001:db8::fe'", "10.0.0.253", "there is at most one address of each family"),
        ("10.0.0.254", "0.0.0.0", "this is no address of one machine"),
        ("[10.0.0.254, '2001:db8::fe']", "[]", "there is at least one address"),
        ("  peers", "  timers: {lease: 0}\n  peers", "must be 1 to 86400, not 0"),
    ] {
        let text = format!("{FILE}{}", N4.replace(right, wrong));
        let mistakes = Configuration::read(&text, "c.yaml").unwrap_err().to_string();
        assert!(mistakes.contains(said), "{wrong}: {mistakes}");
    }
    let peers = "  peers: [10.0.0.0/24]\n";
    let nodes = N4.split("  nodes:").next().unwrap();
    for (n4, said) in [
        (nodes.to_owned(), "no nodes are behind N4: name them in `nodes`"),
        (format!("{nodes}  register: true\n"), "nodes register only where they may join"),
        (
            format!("membership: {{}}\n{}  register: true\n", nodes.replace(peers, "")),
            "name the networks of control planes in `peers`",
        ),
    ] {
        let mistakes = Configuration::read(&format!("{FILE}{n4}"), "c.yaml").unwrap_err();
        assert!(mistakes.to_string().contains(said), "{n4}: {mistakes}");
    }
    let pair = FILE.replace("'192.0.2.2:9473'", "'192.0.2.2:9473', standbyFor: gateway");
    let pair = pair.split("users:").next().unwrap();
    let said = Configuration::read(&format!("{pair}{N4}"), "c.yaml").unwrap_err().to_string();
    assert!(said.contains("this node stands by another one"), "{said}");
}

/// The examples of controllers are right, and by the schema.
#[test]
fn examples_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let validator = jsonschema::validator_for(&Configuration::schema()).unwrap();
    let mut count = 0;
    for file in folder.read_dir().unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        if text.contains("\nkind: Controller\n") {
            count += 1;
            let read = Configuration::read(&text, "example");
            assert_eq!(read.unwrap_or_else(|error| panic!("{error}")).warnings.to_string(), "");
        }
    }
    assert!(
        count >= 3 && validator.is_valid(&serde_json::json!({
            "apiVersion": "weft/v1", "kind": "Controller", "metadata": {"name": "a"},
            "listen": "127.0.0.1:1", "tokenFile": "t", "records": "r",
            "n4": {"listen": ["10.0.0.1"], "nodes": {"a": {"number": 1, "address": "10.0.0.2"}}},
        }))
    );
}
