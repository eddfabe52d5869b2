//! Open vSwitch's userspace datapath: bridges in a row, linked by veth pairs, with
//! one flow in each direction.
//!
//! The programs are Debian's, in an instance of our own: the system's Open
//! vSwitch, if one runs, knows nothing of it. All bridges lie in one network
//! namespace and one process, which may use the core of the system under test
//! only. Its ports are AF_PACKET sockets, as Debian's plain build has no others.

mod instance;

use std::env;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Failure;
use crate::network::iproute::{AF_PACKET_RING, ip};
use crate::{FarDevices, Rig};
pub use instance::{Instance, Switch};

/// Said where the programs are not there.
pub const MISSING: &str =
    "Open vSwitch is not installed (apt install openvswitch-switch): not compared.";

/// What names of namespaces and directories begin with; a process follows.
const PREFIX: &str = "weft-ovs-";

/// Bridges in a row. They are gone when it is dropped.
#[derive(Debug)]
pub struct Bridges {
    /// Ends first: its interfaces go with the namespace.
    instance: Option<Instance>,
    /// The process and a number, as names have them.
    serial: String,
    length: usize,
}

impl Bridges {
    /// Makes so many bridges, whose work is done at `core`.
    ///
    /// # Errors
    /// Without the rights for it, or when Open vSwitch does not start.
    pub fn new(length: usize, core: usize) -> Result<Bridges, Failure> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let serial = format!("{}-{serial}", std::process::id());
        let mut bridges = Bridges { instance: None, serial, length };
        bridges.connect(core)?;
        let directory = env::temp_dir().join(bridges.namespace());
        let (namespace, core) = (bridges.namespace(), core.to_string());
        let place = ["ip", "netns", "exec", &namespace, "taskset", "--cpu-list", &core];
        let switch = Switch { program: "ovs-vswitchd", place: &place, settings: &[] };
        let instance = Instance::start(directory, &switch)?;
        let instance = bridges.instance.insert(instance);
        (1..=length).try_for_each(|bridge| join(instance, bridge))?;
        Ok(bridges)
    }

    /// The devices at which packets go in and come out.
    pub fn ends(&self, rig: &Rig) -> FarDevices {
        let device = |side: char| {
            format!("net_af_packet{},iface={},{AF_PACKET_RING}", rig.serial(), self.end(side))
        };
        FarDevices { access: device('a'), core: device('b') }
    }

    /// Lays the pairs between bridges, and those to the ends, which are here.
    fn connect(&self, core: usize) -> Result<(), Failure> {
        let namespace = self.namespace();
        ip(&["netns", "add", &namespace])?;
        for (side, port) in [('a', entry(1)), ('b', exit(self.length))] {
            let end = self.end(side);
            ip(&["link", "add", &end, "type", "veth", "peer", "name", &port, "netns", &namespace])?;
            ip(&["link", "set", &end, "up"])?;
        }
        for bridge in 1..self.length {
            let (from, to) = (exit(bridge), entry(bridge + 1));
            ip(&["-n", &namespace, "link", "add", &from, "type", "veth", "peer", "name", &to])?;
        }
        for bridge in 1..=self.length {
            for port in [entry(bridge), exit(bridge)] {
                ip(&["-n", &namespace, "link", "set", &port, "up"])?;
            }
        }
        // What the generator's core would do for the first port is the system's work.
        let steer =
            format!("echo {:x} > /sys/class/net/{}/queues/rx-0/rps_cpus", 1_u128 << core, entry(1));
        ip(&["netns", "exec", &namespace, "sh", "-ec", &steer])
    }

    /// The name of its network namespace, and of its directory among temporary
    /// files.
    pub fn namespace(&self) -> String {
        format!("{PREFIX}{}", self.serial)
    }

    /// Our interface at one end of the row.
    fn end(&self, side: char) -> String {
        format!("wo{}{side}", self.serial)
    }
}

impl Drop for Bridges {
    fn drop(&mut self) {
        drop(self.instance.take());
        // With the namespace its interfaces go, and with these their other ends.
        let _ = ip(&["netns", "delete", &self.namespace()]);
    }
}

/// Whether the programs are there.
pub fn is_installed() -> bool {
    ["ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl"].iter().all(|program| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    })
}

/// Makes one bridge, of the interfaces laid for it.
fn join(instance: &Instance, bridge: usize) -> Result<(), Failure> {
    let (name, from, to) = (format!("b{bridge}"), entry(bridge), exit(bridge));
    // Without flows a secure bridge forwards nothing.
    instance.configure(&format!(
        "add-br {name} -- set Bridge {name} datapath_type=netdev fail_mode=secure \
         -- add-port {name} {from} -- set Interface {from} ofport_request=1 \
         -- add-port {name} {to} -- set Interface {to} ofport_request=2"
    ))?;
    instance.add_flow(&name, "in_port=1,actions=output:2")?;
    instance.add_flow(&name, "in_port=2,actions=output:1")
}

/// The port of a bridge towards the first.
fn entry(bridge: usize) -> String {
    format!("b{bridge}-in")
}

/// The port of a bridge towards the last.
fn exit(bridge: usize) -> String {
    format!("b{bridge}-out")
}
