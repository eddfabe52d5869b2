//! A user that moves between stations whose nodes are processes: gateway, two stations and a
//! controller are programs that speak over sockets and keep their records on a disk, with
//! interfaces of the kernel between them. The bench is host and user.
//!
//! What the controller notes of each step of a move (its log at level `debug`) says where the time
//! of a move goes.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tempfile::TempDir;
use weft_dpdk::{Pool, pin_to_core, tsc};
use weft_http::client::{Client, Server};
use weft_mobility_controller::api;
use weft_rig::environments::af_packet;
use weft_rig::handover::{Course, Devices, Ends, Far, Faults, Handover, NUMBERS, Scene, document};
use weft_rig::machine::program::{Program, free_address};
use weft_rig::namespace::Namespace;
use weft_rig::network::cable::Cable;
use weft_rig::{Failure, Look, Rig};

/// How long the users may take to have their owner.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether they have.
const PAUSE: Duration = Duration::from_millis(5);
/// Packets that the host is late with at most, where its core was taken away: more would leave at
/// once than sockets hold.
const MOST_LATE: u64 = 256;
/// Room in the journal for the time that a move may take.
const LONG_MOVE: f64 = 0.1;
/// Between a time without a move and the next move.
const APART: Duration = Duration::from_millis(3);
const TOKEN: &str = "the-token-of-nodes-that-are-measured";
const NODES: [&str; 3] = ["gateway", "station-1", "station-2"];
const SECONDS_OF_A_DAY: f64 = 86_400.0;

/// The steps of a move as the controller knows them: what begins with each of its states, in order.
pub const STEPS: [(&str, &str); 6] = [
    ("PreparingTarget", "record durable"),
    ("Moving", "target and anchor prepared"),
    ("Switching", "target owns the user"),
    ("Releasing", "downlink goes there"),
    ("Completing", "source has released"),
    ("Settled", "old path removed"),
];

/// What came of a course.
pub struct Outcome {
    /// What should not have happened.
    pub faults: Faults,
    /// The moves, in order.
    pub moves: Vec<Move>,
    /// What the nodes have dropped so far, by reason.
    pub drops: Vec<String>,
    /// The share of the time that was taken from the core of host and user.
    pub disturbance: f64,
}

/// A move of the user.
pub struct Move {
    /// What it did to packets.
    pub handover: Handover,
    /// What as long a time before it did to packets, in which the user stayed.
    pub without: Handover,
    /// How long each of the [`STEPS`] took, in microseconds, those that the controller noted.
    pub steps: [Option<f64>; STEPS.len()],
}

/// Four processes with a user, until they are dropped.
pub struct Site {
    // Processes end before what they work with.
    programs: Vec<Program>,
    controller: Client,
    ends: Ends,
    scene: Scene,
    /// The station where the user is: 1 or 2.
    station: usize,
    log: PathBuf,
    /// Octets of the log that were read.
    read: usize,
    sockets: Vec<PathBuf>,
    _cables: Vec<Cable>,
    _bridge: Namespace,
    _folder: TempDir,
}

impl Site {
    /// Starts the processes, and waits until the user is at the first station.
    ///
    /// # Errors
    /// When the machine lacks something, or a process does not start.
    pub fn start(rig: &Rig, scene: Scene) -> Result<Site, Failure> {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        fs::write(path("token"), TOKEN)?;
        let (bridge, mut cables) = (Namespace::with_bridge(rig)?, Vec::new());
        let (control, places) = (free_address(), NODES.map(|_| free_address()));
        let cores = rig.cores.beside_traffic();
        fs::write(path("site.yaml"), controller_file(control, places, scene.users))?;
        let (log, socket) = (path("site.log"), path("site.controller"));
        let controller = Program::start_on(&cores, &log, |command| {
            command.arg("control").arg(path("site.yaml"));
            command.env("WEFT_CONTROLLER_SOCKET", &socket).env("WEFT_LOG", "debug");
        })?;
        controller.until_ready()?;
        let pool = Pool::new(rig.eal, &format!("ends{}", rig.serial()), scene.buffers)?;
        let (mut programs, mut fars, mut sockets) = (vec![controller], Vec::new(), Vec::new());
        for (number, name) in NODES.iter().enumerate() {
            let (network, outside) = (Cable::lay(rig)?, Cable::lay(rig)?);
            bridge.join_bridge(&network.far)?;
            let devices = Devices {
                network: af_packet(rig, &network.near),
                outside: af_packet(rig, &outside.near),
            };
            let file = path(&format!("{name}.yaml"));
            fs::write(&file, node_file(number, &devices, scene, &path(&format!("{name}-state"))))?;
            let socket = path(&format!("{name}.sock"));
            let program = Program::start_on(&cores, &path(&format!("{name}.log")), |command| {
                command.arg("run").arg(&file).env("WEFT_SOCKET", &socket);
                command.args(["--handover-controller", &control.to_string()]);
                command.args(["--handover-listen", &places[number].to_string()]);
                command.arg("--handover-token-file").arg(path("token"));
            })?;
            program.until_ready()?;
            programs.push(program);
            fars.push(Far::open(
                rig.eal,
                &af_packet(rig, &outside.far),
                scene.descriptors(),
                &pool,
            )?);
            sockets.push(socket);
            cables.extend([network, outside]);
        }
        let [host, first, second] = <[Far; 3]>::try_from(fars).map_err(|_| "not three nodes")?;
        let mut ends = Ends::new(pool, host, [first, second], scene.users, scene.frame_bytes)?;
        ends.most_late = MOST_LATE;
        let controller = Client::of("controller", Server::Socket(socket))?;
        let (_cables, _bridge, _folder) = (cables, bridge, folder);
        let site = Site {
            programs,
            controller,
            ends,
            scene,
            station: 1,
            log,
            read: 0,
            sockets,
            _cables,
            _bridge,
            _folder,
        };
        site.until_settled()?;
        Ok(site)
    }

    /// Sends packets to the user, who returns them, and moves it to and fro.
    ///
    /// # Errors
    /// When a move fails.
    pub fn perform(&mut self, rig: &Rig, course: &Course) -> Result<Outcome, Failure> {
        let core = rig.cores.traffic()?;
        let seconds = course.pause.as_secs_f64() + LONG_MOVE;
        let room = (course.rate * seconds * f64::from(course.moves + 2)) as usize;
        let Site { ends, controller, station, .. } = self;
        let (order, are_over) =
            (Orders { controller, station, core: rig.cores.system }, Flag::new(false));
        let (orders, disturbance) = thread::scope(|scope| {
            let carrying = scope.spawn(|| {
                let _registration = rig.eal.register_thread();
                pin_to_core(core).map_err(|error| format!("core {core}: {error}"))?;
                let look = Look::now(core).map_err(|error| error.to_string())?;
                ends.start(course.rate, room);
                while !are_over.load(Ordering::Acquire) {
                    ends.turn();
                }
                ends.finish();
                let between = look.since().map_err(|error| error.to_string())?;
                Ok::<f64, String>(between.disturbance())
            });
            let ordering = scope.spawn(|| order.give(course).map_err(|error| error.to_string()));
            let orders = ordering.join();
            are_over.store(true, Ordering::Release);
            let disturbance = carrying.join().map_err(|_| PANICKED)??;
            Ok::<_, String>((orders.map_err(|_| PANICKED)??, disturbance))
        })?;
        let changes = self.changes()?;
        let (faults, packets) = (self.ends.faults(), self.ends.packets());
        let moves = orders.iter().map(|order| Move {
            handover: Handover::of_packets(order.cycles, packets),
            without: Handover::of_packets(before(order.cycles), packets),
            steps: steps(&changes, order),
        });
        let moves = moves.collect();
        Ok(Outcome { faults, moves, drops: self.drops(), disturbance })
    }

    fn until_settled(&self) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let nodes: Vec<api::Node> = self.controller.get("/v1/nodes")?;
            if nodes.iter().any(|node| node.users == self.scene.users as usize) {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        let says: Vec<_> = self.programs.iter().map(Program::last_line).collect();
        Err(format!("the user has no owner: {}", says.join("; ")).into())
    }

    /// What nodes have dropped, by reason.
    fn drops(&self) -> Vec<String> {
        let mut drops = Vec::new();
        for (socket, name) in self.sockets.iter().zip(NODES) {
            let view = Client::new(socket).and_then(|node| node.get::<Value>("/v1/snapshot"));
            let Ok(view) = view else { continue };
            for one in view["drops"].as_array().into_iter().flatten() {
                let (reason, packets) = (one["reason"].as_str(), one["packets"].as_u64());
                if let (Some(reason), Some(packets @ 1..)) = (reason, packets) {
                    drops.push(format!("{packets} {reason} at {name}"));
                }
            }
        }
        drops
    }

    /// States that the user has come into since the last call, and when: seconds since midnight
    /// (UTC).
    fn changes(&mut self) -> Result<Vec<(f64, String)>, Failure> {
        let text = fs::read_to_string(&self.log)?;
        let changes = text[self.read..].lines().filter_map(change).collect();
        self.read = text.len();
        Ok(changes)
    }
}

type Flag = AtomicBool;

const PANICKED: &str = "a thread of the measurement panicked";

/// An order to move the user.
struct Ordered {
    /// When it was given and when the move had ended, in cycles.
    cycles: (u64, u64),
    /// The same in seconds since midnight (UTC).
    seconds: (f64, f64),
}

/// Gives orders.
struct Orders<'s> {
    controller: &'s Client,
    station: &'s mut usize,
    core: usize,
}

impl Orders<'_> {
    fn give(self, course: &Course) -> Result<Vec<Ordered>, Failure> {
        pin_to_core(self.core)?;
        let mut orders = Vec::new();
        for _ in 0..course.moves {
            thread::sleep(course.pause);
            *self.station = 3 - *self.station;
            let to = NODES[*self.station];
            let (ordered, at) = (tsc::now(), of_day());
            let body = json!({"user": 0, "to": to}).to_string();
            let mut order: api::Handover = self.controller.post("/v1/handovers", body)?;
            while !order.finished {
                order = self.controller.get(&format!("/v1/handovers/{}?wait=20", order.id))?;
            }
            if order.moved != 1 {
                return Err(format!("the user did not move to {to}").into());
            }
            orders.push(Ordered { cycles: (ordered, tsc::now()), seconds: (at, of_day()) });
        }
        thread::sleep(course.pause);
        Ok(orders)
    }
}

/// As long a time, which ends so much before the order that packets of the move have no part in it.
fn before((ordered, settled): (u64, u64)) -> (u64, u64) {
    let end = ordered - (APART.as_secs_f64() * tsc::hz() as f64) as u64;
    (end - (settled - ordered), end)
}

/// Seconds since midnight (UTC).
fn of_day() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs_f64() % SECONDS_OF_A_DAY
}

/// A change of state in the controller's log: when, and the new state.
fn change(line: &str) -> Option<(f64, String)> {
    let (time, rest) = line.split_once(' ')?;
    let (_, state) = rest.split_once("to=\"")?;
    let (state, _) = state.split_once('"')?;
    // 2026-01-31T23:59:59.123456Z
    let (_, time) = time.strip_suffix('Z')?.split_once('T')?;
    let mut parts = time.split(':').map(|part| part.parse::<f64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    Some((hours * 3600.0 + minutes * 60.0 + seconds, state.to_owned()))
}

/// How long each step of a move took, in microseconds.
fn steps(changes: &[(f64, String)], order: &Ordered) -> [Option<f64>; STEPS.len()] {
    let (began, mut last) = (order.seconds.0, 0.0);
    let since = |at: f64| (at - began).rem_euclid(SECONDS_OF_A_DAY);
    let whole = since(order.seconds.1);
    STEPS.map(|(state, _)| {
        let mut within = changes.iter().filter(|(at, into)| into == state && since(*at) <= whole);
        let at = since(within.next()?.0);
        let took = at - last;
        last = at;
        Some(took * 1e6)
    })
}

fn controller_file(listen: SocketAddr, places: [SocketAddr; 3], users: u32) -> String {
    let nodes: serde_json::Map<_, _> = NODES
        .iter()
        .zip(NUMBERS.into_iter().zip(places))
        .map(|(name, (number, address))| {
            ((*name).to_owned(), json!({"number": number, "address": address.to_string()}))
        })
        .collect();
    // JSON is YAML.
    json!({
        "apiVersion": "weft/v1",
        "kind": "Controller",
        "metadata": {"name": "site"},
        "listen": listen.to_string(),
        "tokenFile": "token",
        "records": "records",
        "nodes": nodes,
        "users": [{"first": 0, "count": users, "anchor": NODES[0], "node": NODES[1]}],
    })
    .to_string()
}

fn node_file(number: usize, devices: &Devices, scene: Scene, state: &Path) -> String {
    let mut file = document(number, devices, scene);
    file["metadata"]["name"] = json!(NODES[number]);
    file["state"] = json!({"directory": state});
    if number > 0 {
        // The user returns each packet by the station that it came from.
        file["handover"]["radio"] = json!("uplink");
    }
    file.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_from_the_log() {
        let log = "2026-01-31T23:59:59.900000Z DEBUG weft: changed user=0 from=\"Settled\" to=\"Storing\" event=\"Move\"\n\
                   2026-01-31T23:59:59.950000Z DEBUG weft: changed user=0 from=\"Storing\" to=\"PreparingTarget\" event=\"Stored\"\n\
                   something else\n\
                   2026-02-01T00:00:00.050000Z DEBUG weft: changed user=0 from=\"Moving\" to=\"Switching\" event=\"Imported\"\n";
        let changes: Vec<_> = log.lines().filter_map(change).collect();
        assert_eq!(changes.len(), 3);
        let order = Ordered { cycles: (0, 0), seconds: (86_399.899, 0.1) };
        let steps = steps(&changes, &order).map(|step| step.map(f64::round));
        assert_eq!(steps, [Some(51_000.0), None, Some(100_000.0), None, None, None]);
    }
}
