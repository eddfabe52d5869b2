//! Both ends of a ring in one process: what an honest function does comes back as
//! if it had been called, and what a hostile one sends does no harm.

use std::time::Duration;

use crate::common::{IMPATIENCE, PLACE, Rig, attach, receive, wait};
use weft_compose::Instance as _;
use weft_dataplane::offload::{Back, NextHops, Policy, WINDOW};
use weft_function::{Metadata, PacketMetadata, StepValue};
use weft_offload::frame::FrameKind;
use weft_offload::process::protocol::Message;
use weft_offload::process::{ContextsAnswer, InquiryKind, Question, Status};

/// FAULTS 54, above the ring: frames that a function must not send.
#[test]
fn a_hostile_function_can_only_lose_its_own_packets() {
    let mut rig = Rig::new("hostile", Policy::Drop);
    rig.send(&[1, 2, 3, 4]);
    let frames = rig.arrive(4);
    assert_eq!(frames.len(), 4);
    let (record, header) = rig.form.read(frames[1].data()).unwrap();
    assert_eq!((record.now, record.metadata.user, header), (99, 2, rig.form.header_length()));

    // Random bytes, a frame cut off, a ticket that was never given, a packet of another user.
    rig.answer(&[0xff; 80]);
    rig.answer(&frames[0].data()[..40]);
    let mut forged = frames[0].data().to_vec();
    rig.form.write(&weft_offload::frame::Record { ticket: 1000, ..record }, &mut forged);
    rig.answer(&forged);
    let metadata = PacketMetadata { user: 9, bearer: 9, group: 9, port: 9, ..record.metadata };
    rig.form.write(&weft_offload::frame::Record { metadata, ..record }, &mut forged);
    rig.answer(&forged);
    // The same ticket twice.
    rig.answer(&forged);
    let back = rig.back(6);
    let [Back::Lost(first), Back::Packet(packet, ticket, None)] = &back[..] else {
        panic!("{back:?}")
    };
    assert_eq!(first.metadata.user, 1);
    let came = packet.metadata();
    assert_eq!((came.user, came.bearer, came.group, came.port), (2, 2, 0, 0));
    assert_eq!((ticket.place, came.step), (PLACE, StepValue::NONE));
    wait(|| {
        rig.end.remote_queue.collect(|back| panic!("{back:?}"));
        rig.supervisor.view().strays == 4
    });
    assert_eq!(rig.end.remote_queue.away(), 2);

    // Drops are told with a reason; what is passed over is lost.
    rig.form.write(
        &weft_offload::frame::Record { ticket: 3, what: FrameKind::Dropped, reason: 200, ..record },
        &mut forged,
    );
    rig.answer(&forged);
    let back = rig.back(2);
    assert!(matches!(back[..], [Back::Lost(_), Back::Dropped(_, 200)]), "{back:?}");
    assert_eq!(rig.end.remote_queue.away(), 0);
}

#[test]
fn what_was_away_is_lost_with_the_function_and_what_was_held_is_not() {
    let mut rig = Rig::new("dying", Policy::Hold(2));
    rig.send(&[1, 2, 3]);
    // It breaks the protocol.
    rig.connection.send(&Message::Ready).unwrap();
    wait(|| rig.supervisor.view().status == Status::Absent);
    assert_eq!(rig.supervisor.view().failures, 1);
    let mut lost = Vec::new();
    rig.end.remote_queue.take_news(|ticket| lost.push(ticket.metadata.user));
    assert_eq!(lost, [1, 2, 3]);
    assert!(!rig.end.remote_queue.is_up());
    assert_eq!(rig.end.remote_queue.credit(), 2);
    let mut hold = |user| {
        let mut packet = rig.pool.packet(&[0; 60]).unwrap();
        *packet.metadata_mut() = PacketMetadata { user, ..PacketMetadata::default() };
        rig.end.remote_queue.take(packet, PLACE, None, (0, &NextHops::NOWHERE)).is_ok()
    };
    assert_eq!([hold(4), hold(5), hold(6)], [true, true, false]);
    assert_eq!(rig.end.remote_queue.credit(), 0);
}

#[test]
fn a_window_is_never_overrun_and_promises_are_kept_free() {
    let mut rig = Rig::new("window", Policy::Drop);
    let window = rig.end.remote_queue.credit();
    rig.end.remote_queue.credits.reserve();
    assert_eq!(rig.end.remote_queue.credit(), window - 1);
    rig.end.remote_queue.credits.release();
    rig.end.remote_queue.credits.admit(10);
    assert_eq!(rig.end.remote_queue.credit(), window - 10);
    rig.end.remote_queue.credits.begin();
    for user in 0..window as u32 {
        rig.send(&[user]);
    }
    assert_eq!(rig.end.remote_queue.credit(), 0);
    let mut packet = rig.pool.packet(&[0; 60]).unwrap();
    *packet.metadata_mut() = PacketMetadata::default();
    assert!(rig.end.remote_queue.take(packet, PLACE, None, (0, &NextHops::NOWHERE)).is_err());
    assert_eq!(rig.end.away.kind().name, "nothing");
}

/// A front end that knows nothing of tickets, and drops what it likes.
#[test]
fn plain_frames_that_do_not_come_back_are_given_up() {
    let mut plain = Rig::plain("plain");
    let window = plain.end.remote_queue.credit();
    for first in (0..window as u32).step_by(32) {
        plain.send(&(first..first + 32).collect::<Vec<_>>());
        assert_eq!(plain.arrive(32).len(), 32);
    }
    assert_eq!(plain.end.remote_queue.credit(), 0);
    let mut lost = 0;
    wait(|| {
        plain.end.remote_queue.collect(|back| match back {
            Back::Lost(ticket) => {
                assert_eq!(ticket.metadata.user, lost);
                lost += 1;
            }
            other => panic!("{other:?}"),
        });
        lost == window as u32
    });
    assert_eq!(plain.supervisor.view().strays, 0);
    assert_eq!(plain.end.remote_queue.credit(), window);

    // What comes back in time is claimed by its user.
    plain.send(&[0, 1, 2]);
    for frame in plain.arrive(3).drain(1..) {
        plain.answer(frame.data());
    }
    let mut back = Vec::new();
    wait(|| {
        plain.end.remote_queue.collect(|one| back.push(one));
        back.len() == 2
    });
    assert!(back.iter().all(|one| matches!(one, Back::Plain(_))), "{back:?}");
    let mut passed_over = Vec::new();
    let claimed =
        plain.end.remote_queue.claim(1, 0, |ticket| passed_over.push(ticket.metadata.user));
    assert_eq!(claimed.map(|(ticket, _)| ticket.place), Some(PLACE));
    assert_eq!(passed_over, [0]);
    assert!(plain.end.remote_queue.claim(2, 0, |_| panic!("it was the next")).is_some());
    assert_eq!(plain.end.remote_queue.away(), 0);
}

/// A guest that has attached gives buffers when its driver is ready, and not before.
#[test]
fn what_finds_no_room_at_a_function_waits_and_holds_back_what_comes() {
    const ROOM: usize = 64;
    let mut rig = Rig::small("small", ROOM);
    let users: Vec<u32> = (0..ROOM as u32).collect();
    users.chunks(32).for_each(|users| rig.send(users));
    assert_eq!(rig.end.remote_queue.credit(), WINDOW - ROOM);
    rig.send(&[64, 65]);
    assert_eq!(rig.end.remote_queue.credit(), 30, "those that may wait");
    let rest: Vec<u32> = (66..96).collect();
    rig.send(&rest);
    assert_eq!(rig.end.remote_queue.credit(), 0);
    // What has not been sent is not late.
    std::thread::sleep(IMPATIENCE + Duration::from_millis(250));
    let mut lost = 0;
    while lost < ROOM {
        rig.end.remote_queue.collect(|back| match back {
            Back::Lost(_) => lost += 1,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(rig.end.remote_queue.away(), 32);
    let mut came = Vec::new();
    while came.len() < 96 {
        came.extend(rig.arrive(1));
        rig.end.remote_queue.collect(|back| panic!("{back:?}"));
    }
    let numbers: Vec<_> = came.iter().map(|frame| frame.data()[0]).collect();
    assert_eq!(numbers, (0..96).collect::<Vec<u8>>());
}

#[test]
fn what_was_held_waits_for_room() {
    const ROOM: usize = 64;
    // Fewer than may be away while packets go on that were held.
    const HELD: u32 = 150;
    let mut rig = Rig::small("waiting", ROOM);
    rig.end.remote_queue.close(HELD as usize);
    (0..HELD).for_each(|user| rig.send(&[user]));
    rig.end.remote_queue.open();
    let mut came = Vec::new();
    while came.len() < HELD as usize {
        while let Some(sent) = rig.end.remote_queue.next_held(0) {
            assert!(sent.is_ok());
        }
        rig.end.remote_queue.flush(|_| panic!("it waits"));
        rig.end.remote_queue.collect(|back| assert!(matches!(back, Back::Lost(_)), "{back:?}"));
        came.extend(rig.arrive(1));
    }
    let numbers: Vec<_> = came.iter().map(|frame| u32::from(frame.data()[0])).collect();
    assert_eq!(numbers, (0..HELD).collect::<Vec<_>>());
}

#[test]
fn who_is_not_expected_is_refused() {
    let rig = Rig::new("refused", Policy::Drop);
    let mut second = attach(&rig.folder.0.join("ring.sock"));
    assert!(matches!(receive(&mut second), Message::Refuse(_)));
    assert_eq!(rig.supervisor.view().status, Status::Running);
}

fn ask(rig: &Rig, ticket: u64, slots: &[u32], what: InquiryKind) {
    rig.supervisor.ask(Question { ticket, worker: 0, slots: slots.to_vec(), what });
}

fn answered(rig: &Rig) -> ContextsAnswer {
    let mut answers = Vec::new();
    wait(|| {
        answers.extend(rig.supervisor.answers());
        !answers.is_empty()
    });
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

#[test]
fn contexts_are_asked_for_behind_orders_and_come_back_with_their_ticket() {
    let mut rig = Rig::new("asked", Policy::Drop);
    rig.end.away.import(2, 0, &[7]).unwrap();
    ask(&rig, 5, &[2], InquiryKind::Import);
    assert!(matches!(receive(&mut rig.connection), Message::Import { slot: 2, .. }));
    let Message::Fence(fence) = receive(&mut rig.connection) else { panic!("no fence") };
    rig.connection.send(&Message::Fenced(fence)).unwrap();
    assert_eq!(answered(&rig), ContextsAnswer::Imported { ticket: 5, outcome: Ok(()) });

    ask(&rig, 6, &[2], InquiryKind::Import);
    let Message::Fence(fence) = receive(&mut rig.connection) else { panic!("no fence") };
    let reason = "damaged".to_owned();
    rig.connection.send(&Message::NotImported { worker: 0, slot: 2, reason }).unwrap();
    rig.connection.send(&Message::Fenced(fence)).unwrap();
    let outcome = Err("damaged".to_owned());
    assert_eq!(answered(&rig), ContextsAnswer::Imported { ticket: 6, outcome });

    ask(&rig, 7, &[2, 3], InquiryKind::Export);
    for slot in [2, 3] {
        assert_eq!(receive(&mut rig.connection), Message::Export { worker: 0, slot, now: 0 });
        let context = vec![slot as u8; 100];
        rig.connection.send(&Message::Exported { worker: 0, slot, context }).unwrap();
    }
    let contexts = vec![Some(vec![2; 100]), Some(vec![3; 100])];
    assert_eq!(answered(&rig), ContextsAnswer::Exported { ticket: 7, contexts, lost: false });

    // An answer without a question is a breach of the protocol.
    rig.connection.send(&Message::Exported { worker: 0, slot: 2, context: vec![] }).unwrap();
    wait(|| rig.supervisor.view().status == Status::Absent);
    assert_eq!(rig.supervisor.view().failures, 1);
}

#[test]
fn fault_53_a_process_that_dies_leaves_its_checkpoints_and_no_question_open() {
    let mut rig = Rig::checkpointing("checkpoints");
    assert!(matches!(receive(&mut rig.connection), Message::Checkpoint { .. }));
    let context = vec![9];
    rig.connection.send(&Message::Context { worker: 0, slot: 2, context }).unwrap();
    ask(&rig, 1, &[2, 3], InquiryKind::Export);
    ask(&rig, 2, &[2], InquiryKind::Import);
    for _ in 0..2 {
        assert!(matches!(receive(&mut rig.connection), Message::Export { .. }));
    }
    // One comes before it dies: not all that was asked for.
    rig.connection.send(&Message::Exported { worker: 0, slot: 2, context: vec![10] }).unwrap();
    rig.connection.send(&Message::Ready).unwrap();
    let mut answers = Vec::new();
    wait(|| {
        answers.extend(rig.supervisor.answers());
        answers.len() == 2
    });
    let contexts = vec![Some(vec![9]), None];
    assert_eq!(
        answers[0],
        ContextsAnswer::Exported { ticket: 1, contexts: contexts.clone(), lost: true }
    );
    assert!(matches!(&answers[1], ContextsAnswer::Imported { ticket: 2, outcome: Err(_) }));
    // Nor is one that is asked for now.
    ask(&rig, 3, &[2, 3], InquiryKind::Export);
    assert_eq!(answered(&rig), ContextsAnswer::Exported { ticket: 3, contexts, lost: true });
}
