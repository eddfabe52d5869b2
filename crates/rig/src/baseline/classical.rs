//! The classical chain of Hahn et al.: functions behind rings of their own, with a switch
//! between them.
//!
//! The switch is Open vSwitch with its userspace datapath and DPDK, on one core, with
//! source and sink as ports of its own: a capture without end, and a null device. Each
//! function is a virtio device behind vhost-user that gives every packet back, on the other
//! core: all polled by one thread of `dpdk-testpmd`, which is the fair case, since no two
//! threads that poll share a core; or each by a process of its own, as in the paper, where
//! an idle process keeps the core from the others.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_dpdk::tsc;

use super::open_vswitch::{self, Instance, Switch};
use super::testpmd;
use crate::Failure;
use crate::{Measured, Rig, Slices};

/// Where Debian's package has the switch with DPDK; the plain one stays the system's.
const PROGRAM: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
/// How it is started without huge pages: what it would add by itself needs them.
const PAGES: &str = "--no-huge --legacy-mem --no-shconf --no-pci --no-telemetry -m 768";

/// Said where a program is not there.
pub const MISSING: &str = "Open vSwitch with DPDK or dpdk-testpmd is not installed \
     (apt install openvswitch-switch-dpdk dpdk-dev): no classical chain.";

/// Packets that a function's ring holds, and buffers for those of all, or of one.
const RING: u32 = 1024;
const BUFFERS: u32 = 32_767;
const BUFFERS_OF_ONE: u32 = 8_191;
/// How long it may take until packets come through.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two looks at how many came through.
const PAUSE: Duration = Duration::from_millis(40);
/// How long is measured at least: each look starts a program.
const LEAST: Duration = Duration::from_millis(400);

/// The bridge, and its ports.
const BRIDGE: &str = "chain";
const SOURCE: usize = 1;
const SINK: usize = 2;

/// Who polls the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// One thread all of them.
    Together,
    /// A process each.
    Apart,
}

/// Whether the programs are there.
pub fn is_installed(rig: &Rig) -> bool {
    Path::new(PROGRAM).exists() && open_vswitch::is_installed() && testpmd::is_installed(rig)
}

/// Cycles of the switch's core for a packet that went through so many functions, and how disturbed the trial was.
///
/// # Errors
/// When a program does not start, or no packet comes through.
pub fn cycles(
    rig: &Rig,
    (functions, polled): (usize, Polled),
    capture: &Path,
    length: Duration,
) -> Result<(Measured, f64), Failure> {
    let traffic = rig.cores.traffic()?;
    let slow = rig.slowness()?;
    let chain = Chain::start((functions, polled), capture, (rig.cores.system, traffic))?;
    let start = Instant::now();
    while chain.delivered()? == 0 {
        if start.elapsed() > PATIENCE {
            return Err("no packet came through the classical chain".into());
        }
        thread::sleep(PAUSE);
    }
    let length = length.max(LEAST);
    let mut slices = Slices::of(length);
    let (mut at, mut gone) = (tsc::now(), chain.delivered()?);
    let end = Instant::now() + length;
    while Instant::now() < end {
        thread::sleep(PAUSE);
        let asked = tsc::now();
        let delivered = chain.delivered()?;
        // The answer is of some moment between.
        let now = asked + tsc::now().wrapping_sub(asked) / 2;
        slices.push(now.wrapping_sub(at), delivered - gone);
        (at, gone) = (now, delivered);
    }
    let cycles = slices.cost(0.0).ok_or("no packet came through the classical chain any more")?;
    Ok((cycles, slow.max(rig.slowness()?)))
}

/// A switch and what polls its functions. All end with it.
struct Chain {
    instance: Instance,
    functions: Vec<Functions>,
}

/// A program that polls functions.
struct Functions(Child);

impl Chain {
    fn start(
        (functions, polled): (usize, Polled),
        capture: &Path,
        (system, traffic): (usize, usize),
    ) -> Result<Chain, Failure> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("weft-ovs-{}-dpdk{serial}", std::process::id());
        let directory = env::temp_dir().join(name);
        let extra = format!("other_config:dpdk-extra={PAGES}");
        let polling = format!("other_config:pmd-cpu-mask={:#x}", 1_u128 << system);
        // All else that the switch does.
        let others = format!("other_config:dpdk-lcore-mask={:#x}", 1_u128 << traffic);
        let settings = ["other_config:dpdk-init=true", &extra, &polling, &others];
        let switch = Switch { program: PROGRAM, place: &[], settings: &settings };
        let instance = Instance::start(directory.clone(), &switch)?;
        instance.configure(&format!(
            "add-br {BRIDGE} -- set Bridge {BRIDGE} datapath_type=netdev fail_mode=secure"
        ))?;
        device(&instance, SINK, "net_null0,no-rx=1")?;
        let mut before = SOURCE;
        for number in 1..=functions {
            let port = SINK + number;
            instance.configure(&format!(
                "add-port {BRIDGE} f{number} -- set Interface f{number} type=dpdkvhostuser \
                 ofport_request={port}"
            ))?;
            flow(&instance, before, port)?;
            before = port;
        }
        flow(&instance, before, SINK)?;
        let all: Vec<usize> = (1..=functions).collect();
        let functions = match polled {
            Polled::Together => vec![Functions::start(&directory, &all, traffic)?],
            Polled::Apart => {
                let each = all.chunks(1).map(|one| Functions::start(&directory, one, traffic));
                each.collect::<Result<_, Failure>>()?
            }
        };
        // Nothing is in the way of functions that attach.
        let source = format!("net_pcap0,rx_pcap={},infinite_rx=1", capture.display());
        device(&instance, SOURCE, &source)?;
        Ok(Chain { instance, functions })
    }

    /// Packets that went all the way.
    fn delivered(&self) -> Result<u64, Failure> {
        let said = self.instance.ports(BRIDGE, SINK)?;
        let processes = self.functions.iter().map(|Functions(child)| child.id().to_string());
        sent(&said).ok_or_else(|| {
            let processes: Vec<_> = processes.collect();
            let processes = processes.join(", ");
            format!("the switch does not say what it sent (functions: process {processes})").into()
        })
    }
}

/// Makes a port of a DPDK device.
fn device(instance: &Instance, port: usize, device: &str) -> Result<(), Failure> {
    let (name, device) = (format!("p{port}"), format!("options:dpdk-devargs=\"{device}\""));
    let port = format!("ofport_request={port}");
    instance.set(&[
        "add-port",
        BRIDGE,
        &name,
        "--",
        "set",
        "Interface",
        &name,
        "type=dpdk",
        &port,
        &device,
    ])
}

fn flow(instance: &Instance, from: usize, to: usize) -> Result<(), Failure> {
    instance.add_flow(BRIDGE, &format!("in_port={from},actions=output:{to}"))
}

/// What a port has sent, as `ovs-ofctl dump-ports` says it.
fn sent(said: &str) -> Option<u64> {
    let (_, behind) = said.split_once("tx pkts=")?;
    behind.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Functions {
    /// Starts a program that polls these functions at `core`, in one thread.
    fn start(directory: &Path, functions: &[usize], core: usize) -> Result<Functions, Failure> {
        let (megabytes, buffers) = match functions {
            [_] => ("128", BUFFERS_OF_ONE),
            _ => ("512", BUFFERS),
        };
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "dpdk-testpmd"]);
        command.args(["--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "-m", megabytes]);
        command.args(["--lcores", &format!("0@{core},1@{core}")]);
        for number in functions {
            let socket: PathBuf = directory.join(format!("f{number}"));
            command.arg(format!(
                "--vdev=net_virtio_user{number},path={},queues=1,queue_size={RING}",
                socket.display()
            ));
        }
        command.args(["--", "--nb-cores=1", "--forward-mode=io", "--port-topology=loop"]);
        command.args(["--auto-start", "--interactive", &format!("--total-num-mbufs={buffers}")]);
        // It ends when its input does.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|error| format!("dpdk-testpmd: setpriv: {error}"))?;
        Ok(Functions(child))
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        // It keeps nothing that would have to be put in order.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_says_what_it_sent() {
        let said = "OFPST_PORT reply (xid=0x4): 1 ports\n  port  2: rx pkts=7, bytes=0, drop=0\n\
                    \x20          tx pkts=198848, bytes=0, drop=0, errs=0, coll=?\n";
        assert_eq!(sent(said), Some(198_848));
        assert_eq!(sent("tx pkts=?, bytes=?"), None);
        assert_eq!(sent(""), None);
    }
}
