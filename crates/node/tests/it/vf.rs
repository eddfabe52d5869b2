//! Functions in processes behind a NIC's switch, which this test plays: it takes frames
//! by their destination MAC from one memory port to another.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::common::apart::Hosted;
use crate::common::{Far, Rig, eal, udp};
use weft_dpdk::{Batch, Pool, Port, PortOptions};

const NODE: &str = r#"
apiVersion: weft/v1
kind: Node
metadata: {name: before-the-switch}
memory: {packets: 4095}
{workers}
nics:
  fast: {device: eth0, virtualFunctions: {mischief: {mac: "02:00:00:00:00:02"}}}
ports:
  access: {device: "ring:access", direction: uplink}
  core: {device: "ring:core", direction: downlink}
  fabric: {device: "ring:fabric", direction: uplink, mac: "02:00:00:00:00:01", mtu: 1700}
functions:
  mischief:
    function: mischief
    composition: vf
    vf: {port: fabric, device: "vf:mischief"}
    process: {start: elsewhere, socket: "{folder}/mischief", heartbeat: 20000, onFailure: bypass}
  count:
    function: tally
    composition: vf
    vf: {port: fabric, device: "net_null0", mac: "02:00:00:00:00:03", timeout: 50}
    process: {start: elsewhere, socket: "{folder}/count", heartbeat: 20000}
users:
  - {name: ue, count: 8, match: {ipv4: 10.1.0.0}}
rules: |
  chain full = mischief -> count
  from access -> full
  from core -> full
  from full when colour == red -> drop
  from full when direction == uplink -> core
  from full -> access
  from fabric -> drop
"#;

const PATIENCE: Duration = Duration::from_secs(60);
const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MISCHIEF: [u8; 6] = [2, 0, 0, 0, 0, 2];
const COUNT: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// A function in a thread, and the far ends of its devices.
struct Process {
    mac: [u8; 6],
    far: Vec<Far>,
    _function: Hosted,
}

impl Process {
    fn start(name: &str, ring: PathBuf, mac: [u8; 6], devices: usize) -> Process {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let devices: Vec<String> =
            (0..devices).map(|number| format!("ring:vf{serial}-{number}")).collect();
        let pool = Pool::new(eal(), "switch", 1023).unwrap();
        let far = |device: &String| {
            let port = Port::open(eal(), device, &PortOptions::default(), &pool).unwrap();
            Far::of(port)
        };
        let far = devices.iter().map(far).collect();
        Process { mac, far, _function: Hosted::start(name, ring, devices) }
    }
}

/// The node, its functions and the switch between them.
struct Scene {
    rig: Rig,
    processes: Vec<Process>,
    /// Frames that were switched, and one in so many that is lost.
    switched: u64,
    loses: Option<u64>,
    /// What came back from the last function.
    returned: Vec<Vec<u8>>,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new(workers: &str) -> Scene {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().to_str().unwrap();
        let rig = Rig::new(&NODE.replace("{folder}", path).replace("{workers}", workers));
        let processes = vec![
            Process::start("mischief", folder.path().join("mischief"), MISCHIEF, 1),
            Process::start("tally", folder.path().join("count"), COUNT, 2),
        ];
        let mut scene = Scene {
            rig,
            processes,
            switched: 0,
            loses: None,
            returned: Vec::new(),
            _folder: folder,
        };
        scene
            .until(|scene| ["mischief", "count"].iter().all(|name| scene.state(name) == "running"));
        scene
    }

    /// How the process of a function is.
    fn state(&mut self, name: &str) -> String {
        let functions = self.rig.node.agent().snapshot().functions;
        let function = functions.into_iter().find(|one| one.name == name);
        function.and_then(|one| one.process).map_or_else(String::new, |process| process.state)
    }

    /// Switches and lets the node work until something holds.
    fn until(&mut self, mut holds: impl FnMut(&mut Scene) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < until, "drops {:?}", self.rig.node.agent().snapshot().drops);
            self.rig.settle();
            if !self.switch() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn switch(&mut self) -> bool {
        let mut frames = self.rig.receive(2);
        for (at, process) in self.processes.iter_mut().enumerate() {
            for (device, far) in process.far.iter_mut().enumerate() {
                let mut batch = Batch::new();
                while far.rx.receive(&mut batch, 32) > 0 {
                    let received = frames.len();
                    frames.extend(batch.drain().map(|packet| packet.data().to_vec()));
                    if (at, device) == (1, 1) {
                        self.returned.extend_from_slice(&frames[received..]);
                    }
                }
            }
        }
        let any = !frames.is_empty();
        for frame in frames {
            self.switched += 1;
            if self.loses.is_none_or(|every| !self.switched.is_multiple_of(every)) {
                self.carry(&frame);
            }
        }
        any
    }

    fn carry(&mut self, frame: &[u8]) {
        let to: [u8; 6] = frame[..6].try_into().unwrap();
        if to == OURS {
            return self.rig.offer(2, &[frame.to_vec()]);
        }
        let process = self.processes.iter_mut().find(|process| process.mac == to).unwrap();
        let mut batch = Batch::new();
        batch.push(self.rig.pool.packet(frame).unwrap()).unwrap();
        // What it receives at is the first.
        process.far[0].tx.transmit(&mut batch);
    }
}

fn up(user: u8, text: &[u8]) -> Vec<u8> {
    udp([10, 1, 0, user], [198, 51, 100, 1], text)
}

#[test]
fn a_chain_over_two_functions_of_the_switch() {
    let mut scene = Scene::new("");
    let sent: Vec<Vec<u8>> =
        (0..200u32).map(|n| up(n as u8 % 8, format!(".0 {n}").as_bytes())).collect();
    for frames in sent.chunks(20) {
        scene.rig.offer(0, frames);
        scene.rig.settle();
    }
    let mut came = Vec::new();
    scene.until(|scene| {
        came.extend(scene.rig.receive(1));
        came.len() >= sent.len()
    });
    assert_eq!(came, sent, "all of them, in order");
    assert_eq!(scene.switched, 3 * 200, "to the first, on to the second, and back");
    // Tags travel, and the verdict of a function counts as its own.
    scene.rig.offer(0, &[up(1, b".2 red"), up(1, b"d0 drop"), up(2, b"c0 twice")]);
    scene.until(|scene| {
        came.extend(scene.rig.receive(1));
        came.len() >= 202 && scene.rig.drops("mischief") == 1 && scene.rig.drops("rule") == 1
    });
    assert_eq!(came[200..], [up(2, b"c0 twice"), up(2, b"c0 twice")]);
    assert_eq!(scene.rig.drops("function_lost"), 0);
    // What each function has handled counts as if the packets had come back behind each.
    let functions = scene.rig.node.agent().snapshot().functions;
    let handled: Vec<_> = functions.iter().map(|one| (one.name.as_str(), one.packets)).collect();
    assert_eq!(handled, [("mischief", 203), ("count", 203)]);
}

#[test]
fn a_function_that_is_gone_is_left_out_of_the_way() {
    let mut scene = Scene::new("");
    let through = |scene: &mut Scene, count: u8, ends: &str| -> u64 {
        let before = (scene.switched, scene.rig.drops(ends));
        let frames: Vec<_> = (0..count).map(|n| up(n % 8, b".0")).collect();
        scene.rig.offer(0, &frames);
        let mut came = 0;
        scene.until(|scene| {
            came += scene.rig.receive(1).len() as u64;
            came + scene.rig.drops(ends) - before.1 == u64::from(count)
        });
        scene.switched - before.0
    };
    assert_eq!(through(&mut scene, 16, "none"), 3 * 16);
    let ring = scene._folder.path().join("count");
    scene.processes.pop();
    scene.until(|scene| scene.state("count") != "running");
    // Packets come back before it and find its policy.
    assert_eq!(through(&mut scene, 16, "function_down"), 2 * 16);
    scene.processes.push(Process::start("tally", ring, COUNT, 2));
    scene.until(|scene| scene.state("count") == "running");
    assert_eq!(through(&mut scene, 16, "none"), 3 * 16);
}

#[test]
fn what_the_switch_loses_is_counted_and_its_credit_regained() {
    let mut scene = Scene::new("");
    scene.loses = Some(3);
    let (mut through, mut sent) = (0, 0);
    // More than may be away at once: lost ones must not use up the credit.
    for _ in 0..8 {
        let frames: Vec<Vec<u8>> = (0..100).map(|n| up(n % 8, b".0")).collect();
        frames.chunks(20).for_each(|frames| {
            scene.rig.offer(0, frames);
            scene.rig.settle();
        });
        sent += 100;
        scene.until(|scene| {
            through += scene.rig.receive(1).len() as u64;
            // Time passes only here, so nothing that is on its way is given up early.
            let quiet = !scene.switch() && scene.rig.receive(2).is_empty();
            if quiet {
                scene.rig.advance(5_000_000);
            }
            through + scene.rig.drops("function_lost") == sent
        });
    }
    assert!(scene.rig.drops("function_lost") > 300, "{}", scene.rig.drops("function_lost"));
    assert!(through > 0);
}

#[test]
fn frames_of_others_are_strays() {
    let mut scene = Scene::new("workers: {count: 2}");
    scene.rig.offer(0, &[up(1, b".0 one"), up(2, b".0 two")]);
    let mut came = 0;
    scene.until(|scene| {
        came += scene.rig.receive(1).len();
        came == 2
    });
    // What came back from the last function is sent again by others.
    let frames = std::mem::take(&mut scene.returned);
    assert_eq!(frames.len(), 2);
    let strays = |scene: &mut Scene| -> u64 {
        let functions = scene.rig.node.agent().snapshot().functions;
        functions.iter().filter_map(|one| one.process.as_ref()).map(|one| one.strays).sum()
    };
    let before = strays(&mut scene);
    let mut forged = frames[0].clone();
    forged[6..12].copy_from_slice(&MISCHIEF);
    // From another sender, the same once more, and one for a worker that is not there.
    let mut astray = frames[1].clone();
    astray[32] = 9;
    for frame in [forged, frames[0].clone(), astray] {
        scene.carry(&frame);
    }
    scene.until(|scene| strays(scene) == before + 3);
    assert_eq!(scene.rig.receive(1).len(), 0, "none of them goes on");
}
