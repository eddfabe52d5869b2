//! A node that dies, and its standby that takes over, as both in this process with a controller:
//! everything but what a kernel interface and the network between machines add to it.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weft_dpdk::{Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_mobility_controller::Controller;
use weft_mobility_controller::config::Configuration;
use weft_mobility_protocol::{Incarnation, NodeId};
use weft_mobility_standby::{Options, Pair, Told};
use weft_mobility_transport::{self as transport, Timing, Token};
use weft_node::{Lease, Node, StandbyView, StandingNode};
use weft_node_config::Blueprint;
use weft_rig::{Failure, Rig, uplink};
use weft_traffic::{Rate, Source};

use super::trial::{DESCRIPTORS, FRAME_BYTES, PACKETS, add_bearers, blueprint, store};

const TOKEN: &str = "a-token-of-the-bench";
/// Octets of changes that wait for a standby at most.
const BOUND: usize = 256 << 20;
/// What does not happen within this time does not happen any more.
const PATIENCE: Duration = Duration::from_secs(120);
/// For how long the owner carries packets before it dies.
const STEADY: Duration = Duration::from_secs(1);
/// Between two bursts to each node.
const PAUSE: Duration = Duration::from_micros(200);

/// For how long nothing leaves while a node with so many bearers dies and its standby takes
/// over: from the owner's last packet to the standby's first.
///
/// # Errors
/// When the machine has no room, or the standby does not take over.
pub fn takeover(rig: &Rig, bearers: u32) -> Result<Duration, Failure> {
    let folder = tempfile::tempdir()?;
    let places = [free_address()?, free_address()?];
    let controller = controller(&folder, places)?;
    let control = controller.address();
    let mut owner = Member::start(rig, (NodeId(1), places[0], control), bearers)?;
    let begun = Instant::now();
    while owner.node.is_none() {
        owner.hear()?;
        is_in_time(begun, "the first node does not own the users")?;
        thread::sleep(PAUSE);
    }
    add_bearers(owner.node.as_mut().ok_or("no node")?, bearers)?;
    let mut standby = Member::start(rig, (NodeId(2), places[1], control), bearers)?;
    let (seen, begun) = (standby.pair.view(), Instant::now());
    while !(seen().whole && standby.standing.is_some() && owner.is_followed()) {
        owner.step()?;
        standby.step()?;
        is_in_time(begun, "the standby does not have all records")?;
    }
    let pool = Pool::new(rig.eal, &format!("traffic{}", rig.serial()), PACKETS)?;
    owner.connect(&pool)?;
    standby.connect(&pool)?;
    let mut last = None;
    let begun = Instant::now();
    while begun.elapsed() < STEADY || last.is_none() {
        if owner.carry(&pool)? > 0 {
            last = Some(Instant::now());
        }
        if standby.carry(&pool)? > 0 {
            return Err("a standby has carried packets".into());
        }
        is_in_time(begun, "the owner carries nothing")?;
        thread::sleep(PAUSE);
    }
    // It dies: what is left of it does nothing any more, and takes no time.
    let Member { pair, node: dead, .. } = owner;
    let ending = thread::spawn(move || drop(pair));
    let (last, begun) = (last.unwrap_or(begun), Instant::now());
    while standby.carry(&pool)? == 0 {
        is_in_time(begun, "the standby does not take over")?;
        thread::sleep(PAUSE);
    }
    let waited = last.elapsed();
    let kept = standby.node.as_mut().and_then(|node| node.agent().state_view());
    let now = kept.map_or(0, |view| view.restored_bearers);
    if now < u64::from(bearers) {
        return Err(format!("the standby has {now} of {bearers} bearers").into());
    }
    drop((dead, ending.join(), standby));
    controller.stop();
    Ok(waited)
}

fn is_in_time(begun: Instant, what: &str) -> Result<(), Failure> {
    if begun.elapsed() < PATIENCE { Ok(()) } else { Err(what.into()) }
}

fn free_address() -> Result<SocketAddr, Failure> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A controller of the two, with the lease that is usual.
fn controller(folder: &TempDir, [a, b]: [SocketAddr; 2]) -> Result<Controller, Failure> {
    let path = folder.path().join("site.yaml");
    fs::write(folder.path().join("token"), TOKEN)?;
    fs::write(
        &path,
        format!(
            "apiVersion: weft/v1\nkind: Controller\nmetadata: {{name: bench}}\n\
             listen: 127.0.0.1:0\ntokenFile: token\nrecords: records\nnodes:\n  \
             a: {{number: 1, address: '{a}'}}\n  \
             b: {{number: 2, address: '{b}', standbyFor: a}}\n"
        ),
    )?;
    let configuration = Configuration::load(&path).map_err(|error| error.to_string())?;
    let socket = folder.path().join("controller");
    let controller = Controller::start(configuration, socket, None, |_| {});
    controller.map_err(|error| error.to_string().into())
}

/// One of the two nodes.
struct Member<'r> {
    rig: &'r Rig,
    blueprint: Blueprint,
    devices: [String; 2],
    pair: Pair,
    told: Receiver<Told>,
    lease: Lease,
    standing: Option<StandingNode>,
    node: Option<Node>,
    ends: Option<Ends>,
    _folder: TempDir,
}

/// The far ends of its ports.
struct Ends {
    source: Source,
    tx: TxQueue,
    rx: RxQueue,
}

impl<'r> Member<'r> {
    fn start(
        rig: &'r Rig,
        (node, listen, controller): (NodeId, SocketAddr, SocketAddr),
        bearers: u32,
    ) -> Result<Member<'r>, Failure> {
        let (devices, blueprint) = blueprint(rig, bearers)?;
        let folder = tempfile::tempdir()?;
        let options = Options {
            transport: transport::Options {
                node,
                name: if node == NodeId(1) { "a" } else { "b" }.to_owned(),
                listen,
                token: Token::new(TOKEN).ok_or("a token that is none")?,
                controllers: vec![controller.to_string()],
                term: 0,
                places: Vec::new(),
                registration: None,
                admits: false,
                timing: Timing { pause_most: Duration::from_millis(200), ..Timing::default() },
                security: None,
            },
            incarnation: Incarnation(node.0),
            waits: true,
            bound: BOUND,
        };
        let (tell, told) = channel();
        let lease = Lease::default();
        let extended = lease.clone();
        let pair = Pair::start(
            options,
            store(&folder)?,
            move |one| drop(tell.send(one)),
            move |until| extended.extend(until),
        )
        .map_err(|error| error.to_string())?;
        let (standing, node, ends, _folder) = (None, None, None, folder);
        Ok(Member { rig, blueprint, devices, pair, told, lease, standing, node, ends, _folder })
    }

    /// Does what it is told.
    fn hear(&mut self) -> Result<(), Failure> {
        loop {
            match self.told.try_recv() {
                Ok(Told::All(records)) => {
                    drop(self.standing.take());
                    let built = Node::stand_by(self.rig.eal, self.blueprint.clone(), &records);
                    self.standing = Some(built?);
                }
                Ok(Told::Changed(changes)) => {
                    if let Some(standing) = &mut self.standing {
                        standing.apply(&changes)?;
                    }
                }
                Ok(Told::Anew) => self.standing = None,
                Ok(Told::Own(store, _)) => {
                    let mut node = match self.standing.take() {
                        Some(standing) => standing.own(store)?,
                        None => Node::restore(self.rig.eal, self.blueprint.clone(), store)?,
                    };
                    node.agent().hold_by(self.lease.clone(), StandbyView::default);
                    self.node = Some(node);
                }
                Ok(Told::Leave) => {}
                Ok(Told::End(why)) => return Err(why.into()),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err("a pair has ended".into()),
            }
        }
    }

    fn step(&mut self) -> Result<(), Failure> {
        self.hear()?;
        if let Some(node) = self.node.as_mut().filter(|_| self.lease.holds()) {
            node.step();
        }
        Ok(())
    }

    /// Whether the standby has what is durable here.
    fn is_followed(&self) -> bool {
        let view = self.pair.view()();
        view.whole && view.waiting == 0
    }

    fn connect(&mut self, pool: &Pool) -> Result<(), Failure> {
        let options = PortOptions { descriptors: DESCRIPTORS, ..PortOptions::default() };
        let [access, core] = &self.devices;
        let access = Port::open(self.rig.eal, access, &options, pool)?;
        let core = Port::open(self.rig.eal, core, &options, pool)?;
        let queues = access.take_tx(0).zip(core.take_rx(0));
        let (tx, rx) = queues.ok_or("a device without queues")?;
        let source = Source::of(&uplink(1, FRAME_BYTES, Rate::Unlimited))?;
        self.ends = Some(Ends { source, tx, rx });
        Ok(())
    }

    /// Offers the node packets of a user, and lets it work; how many have left it.
    fn carry(&mut self, pool: &Pool) -> Result<usize, Failure> {
        if let Some(Ends { source, tx, .. }) = &mut self.ends {
            source.send(tx, pool);
        }
        self.step()?;
        let Some(Ends { rx, .. }) = &mut self.ends else { return Ok(0) };
        let mut batch = weft_dpdk::Batch::new();
        let count = rx.receive(&mut batch, weft_dpdk::Batch::CAPACITY);
        Ok(count)
    }
}
