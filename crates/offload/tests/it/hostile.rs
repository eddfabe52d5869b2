//! FAULTS 54: a function process that speaks the control protocol to keep its supervisor
//! busy or to fill the node's memory. Its packets come under its policy, and the node goes
//! on and ends when it is told to.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{Rig, receive, wait};
use weft_compose::Instance as _;
use weft_dataplane::offload::Policy;
use weft_offload::process::Status;
use weft_offload::process::protocol::{Message, PortCounters};

/// Sends messages without end, until it is told to stop or the node hangs up.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn of(rig: &Rig, message: &Message) -> Flood {
        let mut octets = Vec::new();
        (0..1000).for_each(|_| message.write(&mut octets));
        let mut stream: UnixStream = rig.connection.stream().try_clone().unwrap();
        stream.set_nonblocking(false).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) && stream.write_all(&octets).is_ok() {}
        });
        Flood { stop, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The process fails for this reason, which is short, and its policy applies.
fn fails(rig: &mut Rig, reason: &str) {
    wait(|| rig.supervisor.view().status == Status::Absent);
    let told = rig.supervisor.view().last_failure.unwrap();
    assert!(told.contains(reason) && told.len() < 400, "{told}");
    wait(|| rig.end.remote_queue.has_news());
    rig.end.remote_queue.take_news(|_| {});
    assert!(!rig.end.remote_queue.is_up());
}

/// Drops the supervisor, as a node does that ends; how long that took.
fn ends(rig: Rig) -> Duration {
    let begun = Instant::now();
    drop(rig.supervisor);
    begun.elapsed()
}

#[test]
fn fault_54_answers_that_were_not_asked_for() {
    let mut rig = Rig::new("pong", Policy::Drop);
    let _flood = Flood::of(&rig, &Message::Pong(0));
    fails(&mut rig, "an answer that was not asked for");
    assert!(ends(rig) < Duration::from_secs(5));
}

#[test]
fn fault_54_contexts_that_were_not_asked_for() {
    let mut rig = Rig::new("contexts", Policy::Drop);
    for slot in 0..16 {
        let message = Message::Context { worker: 0, slot, context: vec![7; 60_000] };
        let _ = rig.connection.send(&message);
    }
    fails(&mut rig, "a context that was not asked for");
    assert_eq!(rig.supervisor.view().checkpointed, 0);
}

/// One checkpoint has each context once at most.
#[test]
fn fault_54_a_checkpoint_without_an_end() {
    let mut rig = Rig::checkpointing("endless");
    assert!(matches!(receive(&mut rig.connection), Message::Checkpoint { .. }));
    let _flood = Flood::of(&rig, &Message::Context { worker: 0, slot: 1, context: vec![7; 100] });
    fails(&mut rig, "a context that was not asked for");
}

#[test]
fn fault_54_refusals_of_a_mebibyte() {
    let mut rig = Rig::new("refusals", Policy::Drop);
    rig.end.away.import(2, 0, &[7]).unwrap();
    assert!(matches!(receive(&mut rig.connection), Message::Import { .. }));
    // The first is an answer, the others are none.
    let reason = "\u{7}".repeat(1 << 19);
    let _flood = Flood::of(&rig, &Message::NotImported { worker: 0, slot: 2, reason });
    fails(&mut rig, "the refusal of a context that was not asked for");
}

#[test]
fn fault_54_a_message_out_of_turn_is_not_repeated() {
    let mut rig = Rig::new("turn", Policy::Drop);
    let mut sent = rig.connection.send(&Message::Refuse("x".repeat(1 << 19)));
    // The socket takes a part at a time.
    while sent.is_ok() && rig.connection.is_sending() {
        sent = rig.connection.flush();
    }
    fails(&mut rig, "it sent a message out of turn");
}

/// What it may send, but far more often than it needs to: orders, health checks and the end
/// of the node come through.
#[test]
fn fault_54_a_flood_does_not_starve_the_supervisor() {
    let counted = Message::Counted(PortCounters::default());
    let mut rig = Rig::impatient("flood");
    let _flood = Flood::of(&rig, &counted);
    // It does not answer while it floods.
    fails(&mut rig, "it has not answered");

    let rig = Rig::new("busy", Policy::Drop);
    let flood = Flood::of(&rig, &counted);
    std::thread::sleep(Duration::from_millis(200));
    let took = ends(rig);
    assert!(took < Duration::from_secs(5), "{took:?}");
    drop(flood);
}

#[test]
fn fault_54_a_process_that_does_not_read() {
    let mut rig = Rig::new("deaf", Policy::Drop);
    let context = vec![7; 1 << 19];
    for _ in 0..200 {
        rig.end.away.import(2, 0, &context).unwrap();
    }
    fails(&mut rig, "it does not read what it is told");
}

/// One that fails as soon as it is there keeps nothing busy.
#[test]
fn fault_54_a_process_that_comes_again_and_again() {
    let mut rig = Rig::new("again", Policy::Drop);
    let ring = rig.folder.0.join("ring.sock");
    rig.connection.send(&Message::Ready).unwrap();
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        let stream = UnixStream::connect(weft_offload::process::control_path(&ring));
        if let Ok(mut stream) = stream {
            let _ = stream.write_all(&[1, 0, 0, 0, 255]);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let failures = rig.supervisor.view().failures;
    assert!((2..=20).contains(&failures), "{failures}");
}
