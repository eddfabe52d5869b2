//! Both ends of a ring in one process: what an honest function does comes back as
//! if it had been called, and what a hostile one sends does no harm.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_compose::{Instance, Kind};
use weft_dataplane::offload::{Back, NextHops, Policy, ResumePoint, WINDOW};
use weft_dpdk::{
    Annotations, Batch, Eal, EalOptions, Packet, Pool, Port, PortOptions, RxQueue, TxQueue,
};
use weft_function::{
    ConfigError, ContextError, Emit, NoSettings, Setup, TagTable, UserPlaneFunction, Verdict,
};
use weft_offload::frame::{Form, FrameKind};
use weft_offload::process::protocol::{Connection, Message, VERSION, Welcome};
use weft_offload::process::supervisor::{Plan, Seat, Start};
use weft_offload::process::{
    Answer, InquiryKind, Question, ResourceLimits, Status, Supervisor, control_path,
};

struct Nothing;

impl UserPlaneFunction for Nothing {
    const NAME: &'static str = "nothing";
    const SUMMARY: &'static str = "Does nothing.";
    type Config = NoSettings;
    type Settings = NoSettings;
    type Context = ();

    fn new(_: NoSettings, _: &Setup<'_>) -> Result<Nothing, ConfigError> {
        Ok(Nothing)
    }

    fn process(&mut self, _: &mut Packet, (): &mut (), _: &mut Emit<'_>) -> Verdict {
        Verdict::Forward
    }

    fn export(&self, (): &(), _: &mut Vec<u8>) {}

    fn import(&mut self, _: u16, _: &[u8]) -> Result<(), ContextError> {
        Ok(())
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
/// When a frame is given up that a front end does not bring back. A machine under load keeps a
/// thread waiting for a good part of it.
const IMPATIENCE: Duration = Duration::from_secs(1);
const PLACE: ResumePoint = ResumePoint { state: 7, plan: 3, onward: 0 };

fn eal() -> &'static Eal {
    static EAL: OnceLock<&'static Eal> = OnceLock::new();
    EAL.get_or_init(|| {
        let options =
            EalOptions { memory_megabytes: 160, huge_pages: false, ..EalOptions::default() };
        Eal::start(&options).expect("memory for the environment")
    })
}

/// A node's end with one worker, and a front end that this test plays by hand.
struct Rig {
    seat: Seat,
    supervisor: Supervisor,
    pool: Pool,
    form: Form,
    rx: RxQueue,
    tx: TxQueue,
    connection: Connection,
    folder: Folder,
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Rig {
    fn new(name: &str, policy: Policy) -> Rig {
        Rig::of(name, policy, Duration::from_secs(60), false, WINDOW)
    }

    /// With a front end that knows only plain frames, and soon is impatient with it.
    fn plain(name: &str) -> Rig {
        Rig::of(name, Policy::Drop, IMPATIENCE, true, WINDOW)
    }

    /// With a front end that knows only plain frames, and gives few of them room at a time.
    fn small(name: &str, room: usize) -> Rig {
        Rig::of(name, Policy::Hold(200), IMPATIENCE, true, room)
    }

    fn of(name: &str, policy: Policy, heartbeat: Duration, plain: bool, room: usize) -> Rig {
        let folder = std::env::temp_dir().join(format!("weft-ring-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let ring = folder.join("ring.sock");
        let pool = Pool::new(eal(), name, 1023).unwrap();
        let tags = TagTable::default();
        let plan = Plan {
            instance: name,
            kind: Kind::of::<Nothing>(),
            config: &Value::Null,
            tags: &tags,
            workers: 1,
            contexts: 16,
            number: 1,
            ring: ring.clone(),
            own_folder: false,
            start: Start::Elsewhere,
            restart: weft_offload::process::Restart::default(),
            wanted: true,
            plain,
            user: None,
            limits: ResourceLimits::default(),
            policy,
            heartbeat,
            checkpoint: None,
            fabric: None,
            max_sleep_us: None,
        };
        let (supervisor, mut seats) = Supervisor::start(eal(), &plan, || 0).unwrap();
        let seat = seats.remove(0);
        let (mut connection, welcome) = match plain {
            true => (Connection::new(UnixStream::pair().unwrap().0).unwrap(), None),
            false => greet(&ring),
        };
        let device = format!(
            "net_virtio_user_{name},path={},queues=1,queue_size={room},packed_vq=1,mrg_rxbuf=0,in_order=1",
            ring.display(),
        );
        let options = PortOptions { descriptors: room as u16, ..PortOptions::default() };
        let port = Port::open(eal(), &device, &options, &pool).unwrap();
        let (rx, tx) = (port.take_rx(0).unwrap(), port.take_tx(0).unwrap());
        if welcome.is_some() {
            connection.send(&Message::Ready).unwrap();
        }
        wait(|| supervisor.view().status == Status::Running);
        let (path, tags) = welcome.map_or((0, 0), |welcome| (welcome.path, welcome.tags.len()));
        let form = Form::new(path, tags);
        let mut rig =
            Rig { seat, supervisor, pool, form, rx, tx, connection, folder: Folder(folder) };
        assert!(rig.seat.remote_queue.has_news());
        rig.seat.remote_queue.take_news(|_| panic!("nothing was away"));
        rig
    }

    /// Sends packets of the users with these slots away.
    fn send(&mut self, users: &[u32]) {
        for user in users {
            let mut packet = self.pool.packet(&[user.to_le_bytes()[0]; 60]).unwrap();
            *packet.annotations_mut() = Annotations {
                user: *user,
                bearer: *user,
                network_offset: 14,
                ..Annotations::default()
            };
            self.seat.remote_queue.take(packet, PLACE, None, (99, &NextHops::NOWHERE)).unwrap();
        }
        self.seat.remote_queue.flush(|_| panic!("there is room"));
    }

    /// The frames that the function finds in its ring.
    fn arrive(&mut self, count: usize) -> Vec<Packet> {
        let mut batch = Batch::new();
        let until = Instant::now() + PATIENCE;
        while batch.len() < count && Instant::now() < until {
            self.rx.receive(&mut batch, 32);
        }
        batch.drain().collect()
    }

    fn answer(&mut self, bytes: &[u8]) {
        let mut batch = Batch::new();
        batch.push(self.pool.packet(bytes).unwrap()).unwrap();
        let until = Instant::now() + PATIENCE;
        while !batch.is_empty() && Instant::now() < until {
            self.tx.transmit(&mut batch);
        }
    }

    /// What the node believes to have come back, after so many frames came.
    fn back(&mut self, frames: u64) -> Vec<Back> {
        let mut all = Vec::new();
        let until = Instant::now() + PATIENCE;
        let mut came = 0;
        let strays = self.supervisor.view().strays;
        while came < frames && Instant::now() < until {
            let before = all.len();
            self.seat.remote_queue.collect(|back| all.push(back));
            came += (all.len() - before) as u64;
            if self.supervisor.view().strays - strays + all.len() as u64 >= frames {
                break;
            }
        }
        all
    }
}

/// Attaches, as far as the node's word to begin.
fn greet(ring: &Path) -> (Connection, Option<Box<Welcome>>) {
    let mut connection = attach(ring);
    let welcome = match receive(&mut connection) {
        Message::Welcome(welcome) => welcome,
        other => panic!("{other:?}"),
    };
    assert_eq!(usize::from(welcome.descriptors), WINDOW);
    assert_eq!(receive(&mut connection), Message::Start(vec![0]));
    (connection, Some(welcome))
}

fn attach(ring: &Path) -> Connection {
    let stream = UnixStream::connect(control_path(ring)).unwrap();
    let mut connection = Connection::new(stream).unwrap();
    let function = "nothing".to_owned();
    // Who refuses may have hung up before this.
    let _ = connection.send(&Message::Hello {
        version: VERSION,
        process: std::process::id(),
        function,
    });
    connection
}

fn receive(connection: &mut Connection) -> Message {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(message) = connection.receive().unwrap() {
            return message;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no message came");
}

fn wait(mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// FAULTS 54, above the ring: frames that a function must not send.
#[test]
fn a_hostile_function_can_only_lose_its_own_packets() {
    let mut rig = Rig::new("hostile", Policy::Drop);
    rig.send(&[1, 2, 3, 4]);
    let frames = rig.arrive(4);
    assert_eq!(frames.len(), 4);
    let (record, header) = rig.form.read(frames[1].data()).unwrap();
    assert_eq!((record.now, record.annotations.user, header), (99, 2, rig.form.header_length()));

    // Random bytes, a frame cut off, a ticket that was never given, a packet of another user.
    rig.answer(&[0xff; 80]);
    rig.answer(&frames[0].data()[..40]);
    let mut forged = frames[0].data().to_vec();
    rig.form.write(&weft_offload::frame::Record { ticket: 1000, ..record }, &mut forged);
    rig.answer(&forged);
    let annotations = Annotations { user: 9, bearer: 9, group: 9, port: 9, ..record.annotations };
    rig.form.write(&weft_offload::frame::Record { annotations, ..record }, &mut forged);
    rig.answer(&forged);
    // The same ticket twice.
    rig.answer(&forged);
    let back = rig.back(6);
    let [Back::Lost(first), Back::Packet(packet, ticket, None)] = &back[..] else {
        panic!("{back:?}")
    };
    assert_eq!(first.annotations.user, 1);
    let came = packet.annotations();
    assert_eq!((came.user, came.bearer, came.group, came.port), (2, 2, 0, 0));
    assert_eq!((ticket.place, came.state), (PLACE, PLACE.state));
    wait(|| {
        rig.seat.remote_queue.collect(|back| panic!("{back:?}"));
        rig.supervisor.view().strays == 4
    });
    assert_eq!(rig.seat.remote_queue.away(), 2);

    // Drops are told with a reason; what is passed over is lost.
    rig.form.write(
        &weft_offload::frame::Record { ticket: 3, what: FrameKind::Dropped, reason: 200, ..record },
        &mut forged,
    );
    rig.answer(&forged);
    let back = rig.back(2);
    assert!(matches!(back[..], [Back::Lost(_), Back::Dropped(_, 200)]), "{back:?}");
    assert_eq!(rig.seat.remote_queue.away(), 0);
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
    rig.seat.remote_queue.take_news(|ticket| lost.push(ticket.annotations.user));
    assert_eq!(lost, [1, 2, 3]);
    assert!(!rig.seat.remote_queue.is_up());
    assert_eq!(rig.seat.remote_queue.credit(), 2);
    let mut hold = |user| {
        let mut packet = rig.pool.packet(&[0; 60]).unwrap();
        *packet.annotations_mut() = Annotations { user, ..Annotations::default() };
        rig.seat.remote_queue.take(packet, PLACE, None, (0, &NextHops::NOWHERE)).is_ok()
    };
    assert_eq!([hold(4), hold(5), hold(6)], [true, true, false]);
    assert_eq!(rig.seat.remote_queue.credit(), 0);
}

#[test]
fn a_window_is_never_overrun_and_promises_are_kept_free() {
    let mut rig = Rig::new("window", Policy::Drop);
    let window = rig.seat.remote_queue.credit();
    rig.seat.remote_queue.reserve_credit();
    assert_eq!(rig.seat.remote_queue.credit(), window - 1);
    rig.seat.remote_queue.release_credit();
    rig.seat.remote_queue.admit(10);
    assert_eq!(rig.seat.remote_queue.credit(), window - 10);
    rig.seat.remote_queue.begin();
    for user in 0..window as u32 {
        rig.send(&[user]);
    }
    assert_eq!(rig.seat.remote_queue.credit(), 0);
    let mut packet = rig.pool.packet(&[0; 60]).unwrap();
    *packet.annotations_mut() = Annotations::default();
    assert!(rig.seat.remote_queue.take(packet, PLACE, None, (0, &NextHops::NOWHERE)).is_err());
    assert_eq!(rig.seat.away.kind().name, "nothing");
}

/// A front end that knows nothing of tickets, and drops what it likes.
#[test]
fn plain_frames_that_do_not_come_back_are_given_up() {
    let mut plain = Rig::plain("plain");
    let window = plain.seat.remote_queue.credit();
    for first in (0..window as u32).step_by(32) {
        plain.send(&(first..first + 32).collect::<Vec<_>>());
        assert_eq!(plain.arrive(32).len(), 32);
    }
    assert_eq!(plain.seat.remote_queue.credit(), 0);
    let mut lost = 0;
    wait(|| {
        plain.seat.remote_queue.collect(|back| match back {
            Back::Lost(ticket) => {
                assert_eq!(ticket.annotations.user, lost);
                lost += 1;
            }
            other => panic!("{other:?}"),
        });
        lost == window as u32
    });
    assert_eq!(plain.supervisor.view().strays, 0);
    assert_eq!(plain.seat.remote_queue.credit(), window);

    // What comes back in time is claimed by its user.
    plain.send(&[0, 1, 2]);
    for frame in plain.arrive(3).drain(1..) {
        plain.answer(frame.data());
    }
    let mut back = Vec::new();
    wait(|| {
        plain.seat.remote_queue.collect(|one| back.push(one));
        back.len() == 2
    });
    assert!(back.iter().all(|one| matches!(one, Back::Plain(_))), "{back:?}");
    let mut passed_over = Vec::new();
    let claimed =
        plain.seat.remote_queue.claim(1, 0, |ticket| passed_over.push(ticket.annotations.user));
    assert_eq!(claimed.map(|(ticket, _)| ticket.place), Some(PLACE));
    assert_eq!(passed_over, [0]);
    assert!(plain.seat.remote_queue.claim(2, 0, |_| panic!("it was the next")).is_some());
    assert_eq!(plain.seat.remote_queue.away(), 0);
}

/// A guest that has attached gives buffers when its driver is ready, and not before.
#[test]
fn what_finds_no_room_at_a_function_waits_and_holds_back_what_comes() {
    const ROOM: usize = 64;
    let mut rig = Rig::small("small", ROOM);
    let users: Vec<u32> = (0..ROOM as u32).collect();
    users.chunks(32).for_each(|users| rig.send(users));
    assert_eq!(rig.seat.remote_queue.credit(), WINDOW - ROOM);
    rig.send(&[64, 65]);
    assert_eq!(rig.seat.remote_queue.credit(), 30, "those that may wait");
    let rest: Vec<u32> = (66..96).collect();
    rig.send(&rest);
    assert_eq!(rig.seat.remote_queue.credit(), 0);
    // What has not been sent is not late.
    std::thread::sleep(IMPATIENCE + Duration::from_millis(250));
    let mut lost = 0;
    while lost < ROOM {
        rig.seat.remote_queue.collect(|back| match back {
            Back::Lost(_) => lost += 1,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(rig.seat.remote_queue.away(), 32);
    let mut came = Vec::new();
    while came.len() < 96 {
        came.extend(rig.arrive(1));
        rig.seat.remote_queue.collect(|back| panic!("{back:?}"));
    }
    let numbers: Vec<_> = came.iter().map(|frame| frame.data()[0]).collect();
    assert_eq!(numbers, (0..96).collect::<Vec<u8>>());
}

#[test]
fn what_was_held_waits_for_room() {
    const ROOM: usize = 64;
    let mut rig = Rig::small("waiting", ROOM);
    rig.seat.remote_queue.close(200);
    (0..200).for_each(|user| rig.send(&[user]));
    rig.seat.remote_queue.open();
    let mut came = Vec::new();
    while came.len() < 200 {
        while let Some(sent) = rig.seat.remote_queue.next_held(0) {
            assert!(sent.is_ok());
        }
        rig.seat.remote_queue.flush(|_| panic!("it waits"));
        rig.seat.remote_queue.collect(|back| assert!(matches!(back, Back::Lost(_)), "{back:?}"));
        came.extend(rig.arrive(1));
    }
    let numbers: Vec<_> = came.iter().map(|frame| frame.data()[0]).collect();
    assert_eq!(numbers, (0..200).collect::<Vec<u8>>());
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

fn answered(rig: &Rig) -> Answer {
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
    rig.seat.away.import(2, 0, &[7]).unwrap();
    ask(&rig, 5, &[2], InquiryKind::Import);
    assert!(matches!(receive(&mut rig.connection), Message::Import { slot: 2, .. }));
    let Message::Fence(fence) = receive(&mut rig.connection) else { panic!("no fence") };
    rig.connection.send(&Message::Fenced(fence)).unwrap();
    assert_eq!(answered(&rig), Answer::Imported { ticket: 5, outcome: Ok(()) });

    ask(&rig, 6, &[2], InquiryKind::Import);
    let Message::Fence(fence) = receive(&mut rig.connection) else { panic!("no fence") };
    let reason = "damaged".to_owned();
    rig.connection.send(&Message::NotImported { worker: 0, slot: 2, reason }).unwrap();
    rig.connection.send(&Message::Fenced(fence)).unwrap();
    let outcome = Err("damaged".to_owned());
    assert_eq!(answered(&rig), Answer::Imported { ticket: 6, outcome });

    ask(&rig, 7, &[2, 3], InquiryKind::Export);
    for slot in [2, 3] {
        assert_eq!(receive(&mut rig.connection), Message::Export { worker: 0, slot, now: 0 });
        let context = vec![slot as u8; 100];
        rig.connection.send(&Message::Exported { worker: 0, slot, context }).unwrap();
    }
    let contexts = vec![Some(vec![2; 100]), Some(vec![3; 100])];
    assert_eq!(answered(&rig), Answer::Exported { ticket: 7, contexts, lost: false });

    // An answer without a question is a breach of the protocol.
    rig.connection.send(&Message::Exported { worker: 0, slot: 2, context: vec![] }).unwrap();
    wait(|| rig.supervisor.view().status == Status::Absent);
    assert_eq!(rig.supervisor.view().failures, 1);
}

#[test]
fn a_process_that_dies_leaves_its_checkpoints_and_no_question_open() {
    let mut rig = Rig::new("checkpoints", Policy::Drop);
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
    assert_eq!(answers[0], Answer::Exported { ticket: 1, contexts: contexts.clone(), lost: true });
    assert!(matches!(&answers[1], Answer::Imported { ticket: 2, outcome: Err(_) }));
    // Nor is one that is asked for now.
    ask(&rig, 3, &[2, 3], InquiryKind::Export);
    assert_eq!(answered(&rig), Answer::Exported { ticket: 3, contexts, lost: true });
}
