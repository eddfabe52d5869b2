//! Both ends of a ring in one process: a node's with one worker, and a front end that a test
//! plays by hand.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_compose::Kind;
use weft_dataplane::offload::{Back, NextHops, Policy, ResumePoint, WINDOW};
use weft_dpdk::{Batch, Eal, EalOptions, Packet, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_function::{
    ConfigError, ContextError, Emit, Metadata, NoSettings, PacketMetadata, Setup, TagTable,
    UserPlaneFunction, Verdict,
};
use weft_offload::frame::Form;
use weft_offload::process::protocol::{Connection, Message, VERSION, Welcome};
use weft_offload::process::supervisor::{Plan, Start, WorkerEnd};
use weft_offload::process::{ResourceLimits, Restart, Status, Supervisor, control_path};

pub struct Nothing;

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

pub const PATIENCE: Duration = Duration::from_secs(60);
/// When a frame is given up that a front end does not bring back. A machine under load keeps a
/// thread waiting for a good part of it.
pub const IMPATIENCE: Duration = Duration::from_secs(1);
pub const PLACE: ResumePoint = ResumePoint { state: 7, plan: 3, onward: 0 };

pub fn eal() -> &'static Eal {
    static EAL: OnceLock<&'static Eal> = OnceLock::new();
    EAL.get_or_init(|| {
        let options =
            EalOptions { memory_megabytes: 160, huge_pages: false, ..EalOptions::default() };
        Eal::start(&options).expect("memory for the environment")
    })
}

/// A node's end with one worker, and a front end that this test plays by hand.
pub struct Rig {
    pub end: WorkerEnd,
    pub supervisor: Supervisor,
    pub pool: Pool,
    pub form: Form,
    pub rx: RxQueue,
    pub tx: TxQueue,
    pub connection: Connection,
    pub folder: Folder,
}

pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Rig {
    pub fn new(name: &str, policy: Policy) -> Rig {
        Rig::of(name, policy, (Duration::from_secs(60), None), false, WINDOW)
    }

    /// That is asked for checkpoints.
    pub fn checkpointing(name: &str) -> Rig {
        let times = (Duration::from_secs(60), Some(Duration::from_millis(10)));
        Rig::of(name, Policy::Drop, times, false, WINDOW)
    }

    /// That must answer soon.
    pub fn impatient(name: &str) -> Rig {
        Rig::of(name, Policy::Drop, (Duration::from_millis(200), None), false, WINDOW)
    }

    /// With a front end that knows only plain frames, and soon is impatient with it.
    pub fn plain(name: &str) -> Rig {
        Rig::of(name, Policy::Drop, (IMPATIENCE, None), true, WINDOW)
    }

    /// With a front end that knows only plain frames, and gives few of them room at a time.
    pub fn small(name: &str, room: usize) -> Rig {
        Rig::of(name, Policy::Hold(200), (IMPATIENCE, None), true, room)
    }

    pub fn of(
        name: &str,
        policy: Policy,
        (heartbeat, checkpoint): (Duration, Option<Duration>),
        plain: bool,
        room: usize,
    ) -> Rig {
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
            restart: Restart::default(),
            wanted: true,
            plain,
            user: None,
            limits: ResourceLimits::default(),
            policy,
            heartbeat,
            checkpoint,
            fabric: None,
            max_sleep_us: None,
        };
        let (supervisor, mut ends) = Supervisor::start(eal(), &plan, || 0).unwrap();
        let end = ends.remove(0);
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
            Rig { end, supervisor, pool, form, rx, tx, connection, folder: Folder(folder) };
        assert!(rig.end.remote_queue.has_news());
        rig.end.remote_queue.take_news(|_| panic!("nothing was away"));
        rig
    }

    /// Sends packets of the users with these slots away.
    pub fn send(&mut self, users: &[u32]) {
        for user in users {
            let mut packet = self.pool.packet(&[user.to_le_bytes()[0]; 60]).unwrap();
            *packet.metadata_mut() = PacketMetadata {
                user: *user,
                bearer: *user,
                network_offset: 14,
                ..PacketMetadata::default()
            };
            self.end.remote_queue.take(packet, PLACE, None, (99, &NextHops::NOWHERE)).unwrap();
        }
        self.end.remote_queue.flush(|_| panic!("there is room"));
    }

    /// The frames that the function finds in its ring.
    pub fn arrive(&mut self, count: usize) -> Vec<Packet> {
        let mut batch = Batch::new();
        let until = Instant::now() + PATIENCE;
        while batch.len() < count && Instant::now() < until {
            self.rx.receive(&mut batch, 32);
        }
        batch.drain().collect()
    }

    pub fn answer(&mut self, bytes: &[u8]) {
        let mut batch = Batch::new();
        batch.push(self.pool.packet(bytes).unwrap()).unwrap();
        let until = Instant::now() + PATIENCE;
        while !batch.is_empty() && Instant::now() < until {
            self.tx.transmit(&mut batch);
        }
    }

    /// What the node believes to have come back, after so many frames came.
    pub fn back(&mut self, frames: u64) -> Vec<Back> {
        let mut all = Vec::new();
        let until = Instant::now() + PATIENCE;
        let mut came = 0;
        let strays = self.supervisor.view().strays;
        while came < frames && Instant::now() < until {
            let before = all.len();
            self.end.remote_queue.collect(|back| all.push(back));
            came += (all.len() - before) as u64;
            if self.supervisor.view().strays - strays + all.len() as u64 >= frames {
                break;
            }
        }
        all
    }
}

/// Attaches, as far as the node's word to begin.
pub fn greet(ring: &Path) -> (Connection, Option<Box<Welcome>>) {
    let mut connection = attach(ring);
    let welcome = match receive(&mut connection) {
        Message::Welcome(welcome) => welcome,
        other => panic!("{other:?}"),
    };
    assert_eq!(usize::from(welcome.descriptors), WINDOW);
    assert_eq!(receive(&mut connection), Message::Start(vec![0]));
    (connection, Some(welcome))
}

pub fn attach(ring: &Path) -> Connection {
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

pub fn receive(connection: &mut Connection) -> Message {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(message) = connection.receive().unwrap() {
            return message;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no message came");
}

pub fn wait(mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}
