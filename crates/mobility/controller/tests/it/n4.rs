//! Nodes behind N4 that register: each has a number for good, and the file comes first.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weft_http::client::{Client, ClientError};
use weft_mobility_controller::Controller;
use weft_mobility_controller::api::sessions::Sessions;
use weft_mobility_controller::n4::N4Node;
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::note::{
    N4Note, Note, Question, SessionsNote, SessionsQuestion, Share, ShareStep,
};
use weft_mobility_transport::{Event, Transport};

use crate::field::{Field, speaking, until};

const N4: &str = "n4:\n  listen: [192.0.2.254, '2001:db8::fe']\n  peers: [198.51.100.0/24]\n  \
                  register: true\n";

/// A node that only speaks of N4.
struct Speaker {
    transport: Transport,
    heard: Receiver<Event>,
}

impl Speaker {
    fn start(number: u32, name: &str, controller: &Controller) -> Speaker {
        let options = speaking(number, name, controller);
        let (tell, heard) = mpsc::channel();
        let deliver = move |event| tell.send(event).is_ok();
        Speaker { transport: Transport::start(options, deliver).unwrap(), heard }
    }

    fn note(&self, note: &Note) {
        until("a connection", || self.transport.sender().note(NodeId::CONTROLLER, note));
    }

    /// Waits for the question of the controller.
    fn is_asked(&self) {
        loop {
            let event = self.heard.recv_timeout(Duration::from_secs(60)).unwrap();
            if event == Event::Asked(Question::N4) {
                return;
            }
        }
    }

    /// What the controller answers to these addresses.
    fn says(&self, addresses: &[&str]) -> N4Note {
        while self.heard.try_recv().is_ok() {}
        let addresses: Vec<IpAddr> = addresses.iter().map(|one| one.parse().unwrap()).collect();
        self.note(&Note::N4(N4Note { addresses, ..N4Note::default() }));
        loop {
            let event = self.heard.recv_timeout(Duration::from_secs(60)).unwrap();
            if let Event::N4(NodeId::CONTROLLER, answer) = event {
                return answer;
            }
        }
    }

    fn number(&self, addresses: &[&str]) -> u16 {
        let answer = self.says(addresses);
        assert_eq!(answer.reason, "");
        answer.number
    }

    fn refusal(&self, addresses: &[&str]) -> String {
        let answer = self.says(addresses);
        assert_eq!(answer.number, 0);
        answer.reason
    }

    fn is_spare(&self, process: u128, address: &str) {
        let address = format!("127.0.0.1:4711 {address}");
        let step = ShareStep::Spare;
        self.note(&Note::Share(Share { id: process, step, address, ..Share::default() }));
    }
}

fn field() -> Field {
    let field = Field::joining();
    let text = std::fs::read_to_string(field.file()).unwrap();
    std::fs::write(field.file(), format!("{text}{N4}")).unwrap();
    field
}

fn of_file(name: &str, number: u16, address: &str) -> N4Node {
    let address = format!("{address}:8805").parse().unwrap();
    N4Node { name: name.to_owned(), number, address }
}

/// The nodes behind N4, as the proxy is told of them while the file has these.
fn behind(controller: &Controller, file: &[N4Node]) -> Vec<(String, u16, String)> {
    let file = file.to_vec();
    let plans = controller.handle().ask_and_wait(move |engine| engine.n4_plans(file)).unwrap();
    let one =
        |(node, ..): (N4Node, bool, u64)| (node.name, node.number, node.address.ip().to_string());
    plans.into_iter().map(one).collect()
}

fn known(name: &str, number: u16, address: &str) -> (String, u16, String) {
    (name.to_owned(), number, address.to_owned())
}

fn delete(client: &Client, name: &str) -> Result<(), String> {
    client.delete(&format!("/v1/nodes/{name}")).map_err(|error| match error {
        ClientError::Refused(problem) => problem.detail,
        error => panic!("{error}"),
    })
}

/// Takes a node out, once the controller knows that it is not connected any more.
fn taken_out(client: &Client, name: &str) {
    let mut said = Ok(());
    until("an end of the connection", || {
        said = delete(client, name);
        !said.as_ref().is_err_and(|why| why.contains("it is connected"))
    });
    assert_eq!(said, Ok(()));
}

#[test]
fn a_node_that_registers_has_a_number_for_good() {
    let field = field();
    let controller = field.controller();
    let client = field.client();
    field.meet(&client);
    let (x, y) = (Speaker::start(11, "x", &controller), Speaker::start(70_000, "y", &controller));
    x.is_asked();
    y.is_asked();
    assert!(behind(&controller, &[]).is_empty());
    // Its own number, and where it has none that fits, the lowest that is no node's own.
    assert_eq!(x.number(&["192.0.2.11"]), 11);
    assert_eq!(y.number(&["2001:db8::70", "192.0.2.70"]), 4);
    let both = [known("y", 4, "2001:db8::70"), known("x", 11, "192.0.2.11")];
    assert_eq!(behind(&controller, &[]), both);
    // It may say so again, and be elsewhere.
    assert_eq!(x.number(&["192.0.2.11"]), 11);
    assert_eq!(y.number(&["192.0.2.70"]), 4);

    // The next controller knows both, and asks.
    drop((x, y));
    controller.stop();
    let controller = field.controller();
    assert_eq!(behind(&controller, &[]), [known("y", 4, "192.0.2.70"), both[1].clone()]);
    let x = Speaker::start(11, "x", &controller);
    x.is_asked();
    assert_eq!(x.number(&["192.0.2.11"]), 11);

    // One that is deleted is none any more, and nothing has its number but itself.
    assert!(delete(&client, "x").unwrap_err().contains("it is connected"));
    drop(x);
    taken_out(&client, "x");
    taken_out(&client, "y");
    assert!(behind(&controller, &[]).is_empty());
    let z = Speaker::start(4, "z", &controller);
    assert_eq!(z.number(&["192.0.2.70"]), 5);
    let y = Speaker::start(4_000_000, "y", &controller);
    assert_eq!(y.number(&["192.0.2.71"]), 4);
    controller.stop();
}

/// What a node says may be a lie: it has no address that is another's.
#[test]
fn addresses_of_others_are_refused() {
    let field = field();
    let controller = field.controller();
    let (x, y) = (Speaker::start(11, "x", &controller), Speaker::start(12, "y", &controller));
    assert_eq!(x.number(&["192.0.2.11"]), 11);
    y.is_spare(1, "192.0.2.99");
    behind(&controller, &[of_file("file", 9, "192.0.2.9")]);
    let z = Speaker::start(13, "z", &controller);
    // What the spare node has said is heard by the time its question is answered.
    assert!(y.refusal(&[]).contains("`n4.listen`"));
    for (address, words) in [
        ("192.0.2.11", "192.0.2.11 is the address of x"),
        ("192.0.2.9", "192.0.2.9 is the address of file"),
        ("192.0.2.99", "192.0.2.99 is the address of y"),
        ("192.0.2.254", "192.0.2.254 is an address of `n4.listen`"),
        ("2001:db8::fe", "2001:db8::fe is an address of `n4.listen`"),
        ("198.51.100.7", "198.51.100.7 is in `n4.peers`"),
        ("0.0.0.0", "is no address of one machine"),
        ("255.255.255.255", "is no address of one machine"),
        ("224.0.0.1", "is no address of one machine"),
        ("ff02::1", "is no address of one machine"),
        ("127.0.0.1", "is no address of one machine"),
        ("::ffff:192.0.2.11", "192.0.2.11 is the address of x"),
    ] {
        let said = z.refusal(&[address]);
        assert!(said.contains(words) && said.lines().count() == 1, "{address}: {said}");
    }
    let refused = controller.handle().ask_and_wait(|engine| engine.n4_refused()).unwrap();
    assert_eq!(refused.last().unwrap().0, "z");
    assert_eq!(z.number(&["192.0.2.13"]), 13);
    let refused = controller.handle().ask_and_wait(|engine| engine.n4_refused()).unwrap();
    assert!(refused.iter().all(|(name, _)| name != "z"));
    controller.stop();
}

/// What the file says of a name, a number or an address holds, and a node that is in its way gets
/// another number or none.
#[test]
fn the_file_comes_before_what_registers() {
    let field = field();
    let controller = field.controller();
    field.meet(&field.client());
    let x = Speaker::start(11, "x", &controller);
    assert_eq!(x.number(&["192.0.2.11"]), 11);
    // Its number: it is asked, and has another one.
    let file = [of_file("a", 11, "192.0.2.1")];
    assert_eq!(behind(&controller, &file), [known("a", 11, "192.0.2.1")]);
    x.is_asked();
    assert_eq!(x.number(&["192.0.2.11"]), 4);
    assert_eq!(behind(&controller, &file)[0], known("x", 4, "192.0.2.11"));
    // Its address: it is none.
    let file = [of_file("a", 7, "192.0.2.11")];
    assert_eq!(behind(&controller, &file), [known("a", 7, "192.0.2.11")]);
    assert!(x.refusal(&["192.0.2.11"]).contains("is the address of a"));
    // Its name: it is what the file says.
    let file = [of_file("x", 8, "192.0.2.8")];
    assert_eq!(behind(&controller, &file), [known("x", 8, "192.0.2.8")]);
    assert_eq!(x.number(&["192.0.2.11"]), 8);
    // Without the file it is what it was, and numbers of the file are no other node's.
    assert_eq!(behind(&controller, &[]), [known("x", 4, "192.0.2.11")]);
    for number in [7, 8] {
        let name = format!("n{number}");
        let other = Speaker::start(number, &name, &controller);
        let got = other.number(&[&format!("192.0.2.{}", 100 + number)]);
        assert!(![4, 7, 8, 11].contains(&got), "{got}");
    }
    controller.stop();
}

/// A spare node is none behind N4, and a node whose share is elsewhere is not deleted.
#[test]
fn shares_of_nodes_that_register_move() {
    let field = field();
    let controller = field.controller();
    let client = field.client();
    let (x, y) = (Speaker::start(11, "x", &controller), Speaker::start(12, "y", &controller));
    assert_eq!((x.number(&["192.0.2.11"]), y.number(&["192.0.2.12"])), (11, 12));
    // It starts again as a spare node.
    y.is_spare(7, "192.0.2.12");
    until("one node", || behind(&controller, &[]) == [known("x", 11, "192.0.2.11")]);
    let moves = || -> Result<Vec<serde_json::Value>, ClientError> {
        client.post("/v1/shares/x/move", String::new())
    };
    until("a move", || moves().is_ok());
    let id = loop {
        match x.heard.recv_timeout(Duration::from_secs(60)).unwrap() {
            Event::Share(_, share) if share.step == ShareStep::Give => break share.id,
            _ => continue,
        }
    };
    x.note(&Note::Share(Share { id, step: ShareStep::Commits, ..Share::default() }));
    until("a move", || behind(&controller, &[]) == [known("x", 11, "192.0.2.12")]);
    // It is behind N4 by that share alone.
    assert_eq!(y.number(&["192.0.2.12"]), 11);
    drop(x);
    let mut said = String::new();
    until("a refusal", || {
        said = delete(&client, "x").unwrap_err();
        !said.contains("it is connected")
    });
    assert!(said.contains("its share of N4 is at y"), "{said}");
    // The node that has it dies for good: the share is at its home.
    drop(y);
    taken_out(&client, "y");
    assert_eq!(behind(&controller, &[]), [known("x", 11, "192.0.2.11")]);
    taken_out(&client, "x");
    assert!(behind(&controller, &[]).is_empty());
    controller.stop();
}

/// A node that is asked for sessions, until it is stopped.
struct Asked {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Asked {
    fn start(
        speaker: Speaker,
        answer: impl Fn(SessionsQuestion) -> SessionsNote + Send + 'static,
    ) -> Asked {
        let stop: Arc<AtomicBool> = Arc::default();
        let told = stop.clone();
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let heard = speaker.heard.recv_timeout(Duration::from_millis(20));
                if let Ok(Event::Asked(Question::Sessions(question))) = heard {
                    speaker.note(&Note::Sessions(answer(question)));
                }
            }
        });
        Asked { stop, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// So many sessions, as a node says them that has five.
fn five(question: SessionsQuestion) -> SessionsNote {
    let last = (question.first + u32::from(question.count)).min(5);
    let one = |nth: u32| {
        format!(
            r#"{{"seid":"{nth:016x}","cpSeid":"1","cpAddress":"198.51.100.1","teids":[{nth}],
                "ueAddresses":["10.45.0.{nth}"],"rules":[2,2,0,1]}}"#
        )
    };
    let all: Vec<_> = (question.first..last).map(one).collect();
    let next = if last < 5 { last } else { 0 };
    SessionsNote { id: question.id, next, sessions: format!("[{}]", all.join(",")) }
}

fn sessions(client: &Client, query: &str) -> Result<Sessions, (u16, String)> {
    client.get(&format!("/v1/sessions?{query}")).map_err(|error| match error {
        ClientError::Refused(problem) => (problem.status, problem.detail),
        error => panic!("{error}"),
    })
}

/// The controller has no list of sessions: nodes say which they have as they are asked, in pages, and
/// one that says nothing, or what means nothing, is left out.
#[test]
fn nodes_are_asked_for_their_sessions() {
    let field = field();
    let controller = field.controller();
    let client = field.client();
    let (x, y) = (Speaker::start(11, "x", &controller), Speaker::start(12, "y", &controller));
    assert_eq!((x.number(&["192.0.2.11"]), y.number(&["192.0.2.12"])), (11, 12));
    assert_eq!(behind(&controller, &[]).len(), 2);
    let x = Asked::start(x, five);
    // Of another question.
    let y = Asked::start(y, |asked| five(SessionsQuestion { id: asked.id + 1, ..asked }));
    let page = sessions(&client, "count=3").unwrap();
    assert_eq!((page.sessions.len(), page.next.as_deref()), (3, Some("11.3")));
    assert_eq!((&*page.sessions[2].node, page.sessions[2].teids[0]), ("x", 2));
    let page = sessions(&client, "count=3&from=11.3").unwrap();
    assert_eq!((page.sessions.len(), page.next), (2, None));
    assert_eq!(page.unanswered[0].node, "y");
    assert!(page.unanswered[0].reason.contains("has not answered"), "{:?}", page.unanswered);
    let page = sessions(&client, "node=x&ue=10.45.0.1&controlPlane=198.51.100.1").unwrap();
    assert_eq!((page.sessions.len(), page.unanswered), (5, Vec::new()));
    for (query, status) in
        [("node=z", 404), ("from=7", 400), ("ue=nowhere", 400), ("count=-1", 400), ("other=1", 400)]
    {
        assert_eq!(sessions(&client, query).unwrap_err().0, status, "{query}");
    }
    y.stop();
    until("a node that has gone", || {
        let page = sessions(&client, "node=y").unwrap();
        page.unanswered[0].reason.contains("is not connected")
    });
    x.stop();
    // More than was asked for, and back to where it began for ever.
    let x = Speaker::start(11, "x", &controller);
    x.is_asked();
    let x = Asked::start(x, |asked| SessionsNote {
        next: asked.first.max(1),
        ..five(SessionsQuestion { first: 0, count: if asked.count == 1 { 5 } else { 2 }, ..asked })
    });
    let page = sessions(&client, "node=x&count=1").unwrap();
    assert!(page.unanswered[0].reason.contains("means nothing"), "{:?}", page.unanswered);
    let page = sessions(&client, "node=x&count=1000").unwrap();
    assert_eq!((page.sessions.len(), page.next), (4, None));
    x.stop();
    controller.stop();
}
