//! What each step of a packet's way costs, by the paper's names and ours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_yaml::values::Entries;

use crate::cost::Cost;
use crate::quantity::Bytes;

/// Bytes in front of a frame between nodes: Ethernet, IPv4, UDP, VXLAN-GPE, and the
/// base and service path headers of NSH (RFC 8300 §2.2, §2.3).
const TUNNEL: f64 = 14.0 + 20.0 + 8.0 + 8.0 + 8.0;

/// What the steps of a packet's way cost. What is left out costs nothing.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Costs {
    /// A file that `weft bench calibrate` wrote, seen from the directory of this one.
    /// What stands beside this key takes the place of what was calibrated.
    pub calibration: Option<String>,
    /// Cycles of the NIC.
    pub nic: NicCosts,
    /// Cycles of the CPU.
    pub cpu: CpuCosts,
    /// C_SF: cycles of the CPU for each function, by name.
    pub functions: Entries<Cost>,
    /// The same in fused composition, where it differs.
    pub fused: Entries<Cost>,
    /// Bytes that a packet has in front of it between nodes, in `remote` composition;
    /// 58 B unless given.
    pub tunnel: Option<Bytes>,
}

/// Cycles of the NIC, spent of its `frequency`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NicCosts {
    /// C_NIC,RX: a packet from the line.
    pub receive: Option<f64>,
    /// C_NIC,switch: taking a packet, switching it, giving it to the CPU again.
    pub switch: Option<f64>,
    /// C_NIC,TX: a packet to the line.
    pub transmit: Option<f64>,
    /// How many switching decisions a chain of n functions takes.
    pub decisions: Decisions,
}

/// How many switching decisions a chain of n functions takes. The paper's text
/// counts n, its formula n + 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum Decisions {
    /// n + 1, as C_NIC,SR-IOV has it (§V).
    #[default]
    Formula,
    /// n, as the text of §IV.D has it.
    Text,
}

impl Decisions {
    /// Switching decisions for each packet of a chain of n functions.
    pub fn of(self, functions: usize) -> f64 {
        match self {
            Decisions::Formula => functions as f64 + 1.0,
            Decisions::Text => functions as f64,
        }
    }
}

/// Cycles of the CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CpuCosts {
    /// C_CPU,RX: a packet from the NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive: Option<Cost>,
    /// C_CPU,TX: a packet to the NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transmit: Option<Cost>,
    /// What the driver of a virtual function costs more than that of a physical one,
    /// for each packet that it receives and transmits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_function: Option<Cost>,
    /// A node's own work on each packet: parse, classify, forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Cost>,
    /// Entering a chain that has any function, once for each packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<Cost>,
    /// The way to each function, in every composition but fused, where all packets of a burst
    /// go there. It is paid for the visit of a burst: where chains share bursts, fewer packets
    /// share it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop: Option<Cost>,
    /// Telling apart packets of different chains in one burst: what a packet costs more whose
    /// predecessor takes another chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<Cost>,
    /// Entering the machine code of a fused chain, once for each packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_code: Option<Cost>,
    /// C_SW: a link in software between two functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub software_link: Option<Cost>,
    /// A virtual switch, each time a packet passes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_switch: Option<Cost>,
    /// One end of the way to a thread of the node: giving or taking a packet, in `thread`
    /// composition; as `ring` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<Cost>,
    /// One end of a ring between cores or processes: giving or taking a packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<Cost>,
    /// Putting a packet into a tunnel to another node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encapsulate: Option<Cost>,
    /// Taking it out again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decapsulate: Option<Cost>,
}

impl Costs {
    /// These, with what they do not say taken from others.
    pub fn over(mut self, base: Costs) -> Costs {
        let CpuCosts {
            receive,
            transmit,
            virtual_function,
            node,
            chain,
            hop,
            mix,
            machine_code,
            software_link,
            virtual_switch,
            thread,
            ring,
            encapsulate,
            decapsulate,
        } = self.cpu;
        self.cpu = CpuCosts {
            receive: receive.or(base.cpu.receive),
            transmit: transmit.or(base.cpu.transmit),
            virtual_function: virtual_function.or(base.cpu.virtual_function),
            node: node.or(base.cpu.node),
            chain: chain.or(base.cpu.chain),
            hop: hop.or(base.cpu.hop),
            mix: mix.or(base.cpu.mix),
            machine_code: machine_code.or(base.cpu.machine_code),
            software_link: software_link.or(base.cpu.software_link),
            virtual_switch: virtual_switch.or(base.cpu.virtual_switch),
            thread: thread.or(base.cpu.thread),
            ring: ring.or(base.cpu.ring),
            encapsulate: encapsulate.or(base.cpu.encapsulate),
            decapsulate: decapsulate.or(base.cpu.decapsulate),
        };
        for (own, base) in [(&mut self.functions, base.functions), (&mut self.fused, base.fused)] {
            let new = base.0.into_iter().filter(|(name, _)| !own.names().any(|own| own == name));
            let new: Vec<_> = new.collect();
            own.0.extend(new);
        }
        self
    }

    /// C_SF of a function; none if it is not known.
    pub fn function(&self, name: &str, is_fused: bool) -> Option<&Cost> {
        let of = |entries: &Entries<Cost>, name: &str| {
            entries.0.iter().position(|(known, _)| known == name)
        };
        match of(&self.fused, name).filter(|_| is_fused) {
            Some(index) => Some(&self.fused.0[index].1),
            None => of(&self.functions, name).map(|index| &self.functions.0[index].1),
        }
    }

    /// Bytes that a packet has in front of it between nodes.
    pub fn tunnel_bytes(&self) -> f64 {
        self.tunnel.map_or(TUNNEL, |bytes| bytes.0)
    }
}
