//! Documents: applied, rolled out to nodes, taken back, and there again.

use std::collections::BTreeMap;

use weft_etcd::local::{Members, is_installed};
use weft_http::client::{Client, ClientError, Server};
use weft_mobility_controller::Controller;
use weft_mobility_controller::api::documents::{Apply, Documents, File, Outcome, RolloutState};

use crate::field::{Field, in_the_end, until};

const SITE: &str = "apiVersion: weft/v1\nkind: Site\nmetadata: {name: north}\n\
                    rollout: {watch: 1, answer: 20, drops: 1}\n";

/// A station's configuration; the field's stations refuse one that says `refuse`, and drop
/// packets by one that says `harm`.
fn station(name: &str, remark: &str) -> String {
    format!(
        "---\napiVersion: weft/v1\nkind: Node\nmetadata: {{name: {name}}}\nports:\n  \
         access: {{device: net_null0, direction: uplink}}\n  \
         core: {{device: net_null1, direction: downlink}}\n\
         rules: |\n  from access -> core\n  from core -> access\n# {remark}\n"
    )
}

fn stations(a: &str, b: &str) -> String {
    format!("{SITE}{}{}", station("a", a), station("b", b))
}

fn apply(client: &Client, text: &str) -> Result<Outcome, ClientError> {
    let files = vec![File { name: "site.yaml".to_owned(), text: text.to_owned() }];
    let body = Apply { files, dry_run: false };
    client.post("/v1/documents", serde_json::to_string(&body).unwrap())
}

fn rollout(client: &Client) -> Option<RolloutState> {
    client.get("/v1/rollout").ok()
}

fn until_phase(client: &Client, phase: &str) -> RolloutState {
    let mut last = None;
    until(phase, || {
        last = rollout(client);
        last.as_ref().is_some_and(|state| state.phase == phase)
    });
    last.unwrap()
}

/// By what remark each station runs.
fn remarks(field: &Field) -> BTreeMap<u32, String> {
    let settings = field.shared.settings.lock().unwrap();
    let remark = |text: &str| text.lines().last().unwrap().trim_start_matches("# ").to_owned();
    settings.iter().map(|(node, text)| (node.0, remark(text))).collect()
}

fn both(a: &str, b: &str) -> BTreeMap<u32, String> {
    [(2, a.to_owned()), (3, b.to_owned())].into()
}

#[test]
fn nodes_come_to_run_as_documents_say() {
    let field = Field::joining();
    let mut controller = field.controller();
    let client = field.client();
    field.meet(&client);
    let outcome = apply(&client, &stations("one", "one")).unwrap();
    assert_eq!((outcome.revision, outcome.changes.len()), (1, 3));
    let state = until_phase(&client, "complete");
    assert_eq!((state.revision, state.good), (1, 1));
    assert!(state.nodes.iter().all(|node| node.state == "current"), "{state:?}");
    assert_eq!(remarks(&field), both("one", "one"));
    // The same again is no revision.
    assert_eq!(apply(&client, &stations("one", "one")).unwrap().revision, 1);

    for (remark, why) in [("refuse", "b: it says refuse"), ("harm", "b: it drops ")] {
        let newest = apply(&client, &stations("two", remark)).unwrap().revision;
        let state = until_phase(&client, "rolled-back");
        assert_eq!(state.revision, newest + 1);
        assert!(state.reason.starts_with(why), "{state:?}");
        until("stations of before", || remarks(&field) == both("one", "one"));
    }
    // Another controller knows all of it.
    controller.stop();
    controller = field.controller();
    field.meet(&client);
    let state = until_phase(&client, "rolled-back");
    assert_eq!((state.revision, state.good), (5, 5));
    let revisions: Vec<Documents> = client.get("/v1/revisions").unwrap();
    let notes: Vec<_> = revisions.iter().map(|one| one.note.as_str()).collect();
    let back = |from: u64| format!("back to revision {}, as {from} did harm", from - 1);
    let (second, first) = (back(4), back(2));
    let applied = "apply site.yaml";
    assert_eq!(notes, [second.as_str(), applied, first.as_str(), applied, applied]);
    let third: Documents = client.get("/v1/documents?revision=3").unwrap();
    let now: Documents = client.get("/v1/documents").unwrap();
    assert_eq!(third.documents, now.documents);
    until("current stations", || {
        rollout(&client).is_some_and(|state| state.nodes.iter().all(|one| one.state == "current"))
    });
    // One that is deleted is not told any more.
    client.delete("/v1/documents/Node/b").unwrap();
    let state = until_phase(&client, "complete");
    assert_eq!((state.revision, state.nodes.len()), (6, 1));
    controller.stop();
}

#[test]
fn mistakes_change_nothing() {
    let field = Field::joining();
    let controller = field.controller();
    let client = field.client();
    let text = stations("one", "one").replace("from core -> access", "from core -> acces");
    let line = 1 + text.lines().position(|line| line.ends_with("-> acces")).unwrap();
    let ClientError::Refused(problem) = apply(&client, &text).unwrap_err() else { panic!() };
    assert_eq!((problem.status, problem.mistakes[0].line), (422, line));
    assert_eq!(problem.mistakes[0].file, "site.yaml");
    let ClientError::Refused(problem) = apply(&client, SITE.repeat(9000).as_str()).unwrap_err()
    else {
        panic!()
    };
    assert_eq!(problem.status, 413);
    let ClientError::Refused(problem) = client.delete("/v1/documents/Node/x").unwrap_err() else {
        panic!()
    };
    assert_eq!(problem.status, 404);
    let documents: Documents = client.get("/v1/documents").unwrap();
    assert_eq!((documents.revision, documents.documents.len()), (0, 0));
    assert_eq!(until_phase(&client, "complete").revision, 0);
    controller.stop();
}

/// With records in etcd another replica goes on where the leader has stopped.
#[test]
fn another_replica_goes_on_with_a_rollout() {
    if !is_installed() {
        eprintln!("skipped: there is no etcd (Debian package etcd-server)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let members = Members::start(folder.path(), 1, &[]).unwrap();
    let etcd = members.options("/").endpoints;
    let field = Field::joining();
    let socket = |name: &str| field.folder.path().join(format!("{name}.controller"));
    let start = |name: &str| {
        in_the_end(|| {
            let configuration = field.replica(name, &etcd);
            Controller::start(configuration, socket(name), None, |error| panic!("{error}"))
        })
    };
    let client = |name: &str| Client::of("controller", Server::Socket(socket(name))).unwrap();
    let first = start("one");
    until("a leader", || client("one").get::<RolloutState>("/v1/rollout").is_ok());
    field.meet(&client("one"));
    apply(&client("one"), &stations("one", "one")).unwrap();
    until_phase(&client("one"), "complete");
    apply(&client("one"), &stations("two", "two")).unwrap();
    // Between the two stations, or before.
    first.stop();
    let second = start("two");
    until("a leader", || client("two").get::<RolloutState>("/v1/rollout").is_ok());
    field.meet(&client("two"));
    let state = until_phase(&client("two"), "complete");
    assert_eq!((state.revision, state.good), (2, 2));
    assert_eq!(remarks(&field), both("two", "two"));
    second.stop();
}
