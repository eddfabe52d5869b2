//! Shares of nodes behind N4 move to spare nodes: the controller decides who has one, once.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use weft_http::client::{Client, ClientError};
use weft_mobility_controller::Controller;
use weft_mobility_controller::n4::N4Node;
use weft_mobility_controller::shares::ShareView;
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::note::{Note, Share, ShareStep};
use weft_mobility_transport::{Event, Transport};

use crate::field::{Field, speaking, until};

/// A node that only speaks of shares.
struct Speaker {
    transport: Transport,
    told: Receiver<Share>,
}

impl Speaker {
    fn start(number: u32, name: &str, controller: &Controller) -> Speaker {
        let options = speaking(number, name, controller);
        let (tell, told) = mpsc::channel();
        let deliver = move |event| match event {
            Event::Share(_, share) => tell.send(share).is_ok(),
            _ => true,
        };
        Speaker { transport: Transport::start(options, deliver).unwrap(), told }
    }

    fn say(&self, step: ShareStep, id: u128, address: &str) {
        let share = Share { id, step, address: address.to_owned(), ..Share::default() };
        until("a connection", || {
            self.transport.sender().note(NodeId::CONTROLLER, &Note::Share(share.clone()))
        });
    }

    /// The next of these steps; others are passed over.
    fn hears(&self, steps: &[ShareStep]) -> Share {
        loop {
            let told = self.told.recv_timeout(Duration::from_secs(60)).unwrap();
            if steps.contains(&told.step) {
                return told;
            }
        }
    }

    /// What has become of a move. Who was not connected as it was told has to ask.
    fn hears_decision(&self, id: u128) -> ShareStep {
        let mut decision = None;
        until("a decision", || {
            while let Ok(told) = self.told.try_recv() {
                let is_one = [ShareStep::Committed, ShareStep::Aborted].contains(&told.step);
                decision = decision.or((told.id == id && is_one).then_some(told.step));
            }
            if decision.is_none() {
                self.say(ShareStep::Asks, id, "");
            }
            decision.is_some()
        });
        decision.unwrap()
    }

    /// Waits until the controller has answered a question: what was said before it, it has read.
    fn hears_answer(&self) {
        let no_move = u128::MAX;
        while self.told.try_recv().is_ok() {}
        self.say(ShareStep::Asks, no_move, "");
        assert_eq!(self.hears_decision(no_move), ShareStep::Aborted);
    }
}

/// The controller is asked for its nodes behind N4, as the proxy does it.
fn know(controller: &Controller) {
    let address = "192.0.2.2:8805".parse().unwrap();
    let nodes = vec![N4Node { name: "x".to_owned(), number: 7, address }];
    controller.handle().ask_and_wait(move |engine| engine.n4_plans(nodes)).unwrap();
}

fn n4_address(controller: &Controller) -> String {
    let address = "192.0.2.2:8805".parse().unwrap();
    let nodes = vec![N4Node { name: "x".to_owned(), number: 7, address }];
    let plans = controller.handle().ask_and_wait(move |engine| engine.n4_plans(nodes)).unwrap();
    plans[0].0.address.to_string()
}

fn shares(client: &Client) -> Vec<ShareView> {
    client.get("/v1/shares").unwrap()
}

fn moves(client: &Client, node: &str) -> Result<Vec<ShareView>, ClientError> {
    client.post(&format!("/v1/shares/{node}/move"), String::new())
}

fn refusal(refused: Result<Vec<ShareView>, ClientError>) -> (u16, String) {
    match refused.unwrap_err() {
        ClientError::Refused(problem) => (problem.status, problem.detail),
        error => panic!("{error}"),
    }
}

/// A process of a node says that it has no share.
fn is_spare(speaker: &Speaker, process: u128) {
    speaker.say(ShareStep::Spare, process, "127.0.0.1:4711 192.0.2.9");
}

/// A move to a process begins; its number, as both nodes hear it.
fn begins(client: &Client, [from, to]: [&Speaker; 2], name: &str, process: u128) -> u128 {
    until("a spare node", || {
        is_spare(to, process);
        moves(client, name).is_ok()
    });
    let (take, give) = (to.hears(&[ShareStep::Take]), from.hears(&[ShareStep::Give]));
    assert_eq!((take.id, give.number, give.address.as_str()), (give.id, 7, "127.0.0.1:4711"));
    give.id
}

#[test]
fn a_share_is_where_its_record_says_whatever_is_lost() {
    let field = Field::joining();
    let mut controller = field.controller();
    let client = field.client();
    let (x, y) = (Speaker::start(11, "x", &controller), Speaker::start(12, "y", &controller));
    know(&controller);
    let none = || refusal(moves(&client, "y"));
    assert_eq!(none().0, 404, "it has no share");
    until("a node", || refusal(moves(&client, "x")).1.contains("there is no spare node"));

    // The node that takes it gives up: so does the move, and later words change nothing.
    let id = begins(&client, [&x, &y], "x", 1);
    assert!(refusal(moves(&client, "x")).1.contains("moves already"));
    y.say(ShareStep::Commits, id, "");
    y.say(ShareStep::Aborts, id, "");
    assert_eq!([x.hears_decision(id), y.hears_decision(id)], [ShareStep::Aborted; 2]);
    x.say(ShareStep::Commits, id, "");
    assert_eq!(x.hears_decision(id), ShareStep::Aborted);
    assert_eq!(shares(&client)[0].holder, "x");
    assert!(shares(&client)[0].failed.is_some());

    // It commits, and that cannot be undone; another number is no move.
    let second = begins(&client, [&x, &y], "x", 1);
    assert_ne!(id, second);
    x.say(ShareStep::Commits, second ^ 1, "");
    assert_eq!(x.hears_decision(second ^ 1), ShareStep::Aborted);
    assert_eq!(shares(&client)[0].moves_to.as_deref(), Some("y"));
    x.say(ShareStep::Commits, second, "");
    assert_eq!([x.hears_decision(second), y.hears_decision(second)], [ShareStep::Committed; 2]);
    for speaker in [&x, &y] {
        speaker.say(ShareStep::Aborts, second, "");
        assert_eq!(speaker.hears_decision(second), ShareStep::Committed);
    }
    // A word from before comes late: the share is not lost, and the node is not spare.
    is_spare(&y, 1);
    y.hears_answer();
    assert_eq!(shares(&client)[0].holder, "y");
    assert!(refusal(moves(&client, "y")).1.contains("there is no spare node"));
    assert_eq!(n4_address(&controller), "192.0.2.9:8805");

    // The next controller knows all of that, and shuts the node out whose share is elsewhere.
    drop((x, y));
    controller.stop();
    controller = field.controller();
    know(&controller);
    let (x, y) = (Speaker::start(11, "x", &controller), Speaker::start(12, "y", &controller));
    x.say(ShareStep::Asks, second, "");
    assert_eq!(x.hears_decision(second), ShareStep::Committed);
    assert_eq!(x.hears(&[ShareStep::Elsewhere]).name, "y");
    assert_eq!(n4_address(&controller), "192.0.2.9:8805");

    // It comes home, and who asks late hears that.
    is_spare(&y, 1);
    y.hears_answer();
    assert_eq!(shares(&client)[0].holder, "y");
    let third = begins(&client, [&y, &x], "y", 2);
    y.say(ShareStep::Commits, third, "");
    assert_eq!([x.hears_decision(third), y.hears_decision(third)], [ShareStep::Committed; 2]);
    y.say(ShareStep::Commits, third, "");
    assert_eq!(y.hears_decision(third), ShareStep::Committed);
    assert_eq!(n4_address(&controller), "192.0.2.2:8805");

    // A move that is under way when the controller dies goes on; a node that has lost a share has it
    // no more.
    let fourth = begins(&client, [&x, &y], "x", 4);
    drop((x, y));
    controller.stop();
    controller = field.controller();
    know(&controller);
    let (x, y) = (Speaker::start(11, "x", &controller), Speaker::start(12, "y", &controller));
    assert_eq!(x.hears(&[ShareStep::Give]).id, fourth);
    x.say(ShareStep::Commits, fourth, "");
    assert_eq!(y.hears_decision(fourth), ShareStep::Committed);
    assert_eq!(shares(&client)[0].holder, "y");
    is_spare(&y, 5);
    until("a share at its home", || shares(&client)[0].holder == "x");
    controller.stop();
}

/// What a node says that is no such word changes nothing.
#[test]
fn words_without_sense_change_nothing() {
    let field = Field::joining();
    let controller = field.controller();
    let client = field.client();
    let x = Speaker::start(11, "x", &controller);
    know(&controller);
    for said in ["", "127.0.0.1:1", "127.0.0.1:1 nowhere", " ", "a b c"] {
        x.say(ShareStep::Spare, 0, said);
    }
    for step in [ShareStep::Commits, ShareStep::Aborts, ShareStep::Asks] {
        x.say(step, 99, "");
        assert_eq!(x.hears_decision(99), ShareStep::Aborted);
    }
    assert!(refusal(moves(&client, "x")).1.contains("there is no spare node"));
    assert_eq!(shares(&client).len(), 1);
    // A step of a controller ends the connection of a node that says it.
    x.say(ShareStep::Give, 1, "");
    until("another connection", || x.transport.sender().is_connected(NodeId::CONTROLLER));
    assert_eq!(shares(&client)[0].holder, "x");
    controller.stop();
}
