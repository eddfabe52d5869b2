//! The node of a trial: ports at an access and a core side, some functions, some
//! users, the rules between them.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use weft_functions::KINDS;
use weft_node::Node;
use weft_node_config as config;
use weft_vf::SOFTWARE;

use crate::Gateway;

use crate::Failure;
use crate::Rig;

/// Packets in the pool of a node.
pub const PACKETS: u32 = 8191;

/// How functions are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Composition {
    /// One call for a burst.
    Call,
    /// As one loop of machine code.
    Fused,
    /// In one thread beside the worker's.
    Thread,
    /// Each in a process of its own.
    Process,
    /// Each along a service path to another node.
    Remote,
    /// Each in a process of its own, behind a switch in a process that stands in for the one
    /// in a NIC.
    #[serde(rename = "software VF")]
    SoftwareVf,
}

impl Composition {
    /// All that need nothing but the node.
    pub const ALL: [Composition; 5] = [
        Composition::Call,
        Composition::Fused,
        Composition::Thread,
        Composition::Process,
        Composition::Remote,
    ];

    /// What series and figures call it.
    pub fn title(self) -> &'static str {
        match self {
            Composition::SoftwareVf => SOFTWARE,
            other => other.name(),
        }
    }

    /// Its name, as a node's file and derived numbers have it.
    pub fn name(self) -> &'static str {
        match self {
            Composition::Call => "call",
            Composition::Fused => "fused",
            Composition::Thread => "thread",
            Composition::Process => "process",
            Composition::Remote => "remote",
            Composition::SoftwareVf => "software_vf",
        }
    }

    /// Whether functions are processes.
    pub fn has_processes(self) -> bool {
        matches!(self, Composition::Process | Composition::SoftwareVf)
    }

    /// Whether functions need a core beside that of the worker.
    pub fn is_elsewhere(self) -> bool {
        !matches!(self, Composition::Call | Composition::Fused)
    }
}

/// What a node is made of, but for its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Function instances: name, and what stands under `functions` in a node's
    /// configuration.
    pub functions: Vec<(String, Value)>,
    /// Chains: name, and the instances in order. Users of a chain without
    /// instances go straight to the core.
    pub chains: Vec<(String, Vec<String>)>,
    /// What instances are told of each user, as in a node's file; numbers and
    /// addresses count up from user to user where the function says so.
    pub settings: Vec<(String, Value)>,
    /// What instances are told of one user alone, user by user; empty where nothing is.
    /// Users are known by an IPv6 prefix then, too: 2001:db8::/64 and on.
    pub each: Vec<Vec<(String, Value)>>,
    /// Users from 10.0.0.0 on, block by block.
    pub users: Vec<Block>,
    /// Whether the core port rewrites Ethernet headers and TTLs as a router does.
    pub routed: bool,
    /// With it the node is a gateway of GTP-U tunnels: users are known by what it
    /// needs, and its function is that instance of all chains.
    pub gateway: Option<Gateway>,
    /// Users are found by a scan over all of their keys instead of in tables.
    pub linear: bool,
    /// How functions are run.
    pub composition: Composition,
    /// Whether the node calls functions that are to be fused where that takes fewer cycles.
    pub chooses: bool,
    /// Whether what runs functions elsewhere sleeps while there is nothing to do.
    pub adaptive: bool,
    /// Packets per second that each function gets of software VF, where it is behind that.
    pub share: u64,
    /// Microseconds that packets may wait for an overloaded worker; 0 for no bound.
    pub delay: u32,
}

/// A share that holds nothing back.
pub const NO_SHARE: u64 = 10_000_000;

/// Users in a row that take the same chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// How many.
    pub count: u32,
    /// The name of their chain; none goes straight to the core.
    pub chain: Option<String>,
}

/// The devices of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devices {
    /// One port at the access side for each worker.
    pub access: Vec<String>,
    /// The port at the core side, at the first worker.
    pub core: String,
    /// Packets that each queue holds.
    pub descriptors: u16,
}

impl Setup {
    /// A node that forwards the packets of so many users by one rule.
    pub fn forwarding(users: u32) -> Setup {
        let users = vec![Block { count: users, chain: None }];
        Setup {
            functions: Vec::new(),
            chains: Vec::new(),
            settings: Vec::new(),
            each: Vec::new(),
            users,
            routed: false,
            gateway: None,
            linear: false,
            composition: Composition::Call,
            chooses: false,
            adaptive: false,
            share: NO_SHARE,
            delay: 0,
        }
    }

    /// A node in which the packets of so many users take all these functions.
    pub fn chain(users: u32, functions: Vec<(String, Value)>) -> Setup {
        if functions.is_empty() {
            return Setup::forwarding(users);
        }
        let names = functions.iter().map(|(name, _)| name.clone()).collect();
        Setup {
            functions,
            chains: vec![("all".to_owned(), names)],
            settings: Vec::new(),
            each: Vec::new(),
            users: vec![Block { count: users, chain: Some("all".to_owned()) }],
            routed: false,
            gateway: None,
            linear: false,
            composition: Composition::Call,
            chooses: false,
            adaptive: false,
            share: NO_SHARE,
            delay: 0,
        }
    }

    /// A gateway for so many bearers, with these functions behind its own.
    pub fn gateway(gateway: Gateway, bearers: u32, behind: Vec<(String, Value)>) -> Setup {
        let mut functions = vec![(Gateway::INSTANCE.to_owned(), gateway.function())];
        functions.extend(behind);
        Setup { gateway: Some(gateway), ..Setup::chain(bearers, functions) }.routed()
    }

    /// The same, with instances told this of each user.
    pub fn told(self, settings: Vec<(String, Value)>) -> Setup {
        Setup { settings, ..self }
    }

    /// The same as a router.
    pub fn routed(self) -> Setup {
        Setup { routed: true, ..self }
    }

    /// The same with a scan over all users in the place of tables.
    pub fn linear(self) -> Setup {
        Setup { linear: true, ..self }
    }

    /// The same with functions that are run this way.
    pub fn composed(self, composition: Composition) -> Setup {
        Setup { composition, ..self }
    }

    /// The same, where functions that are processes let each other have the core that they
    /// share.
    pub fn taking_turns(self, composition: Composition) -> Setup {
        let setup = self.composed(composition);
        if composition.has_processes() { setup.adaptive() } else { setup }
    }

    /// The same; the node calls functions that are to be fused where that takes fewer cycles.
    pub fn choosing(self) -> Setup {
        Setup { chooses: true, ..self }
    }

    /// The same; what runs functions elsewhere sleeps while there is nothing to do.
    pub fn adaptive(self) -> Setup {
        Setup { adaptive: true, ..self }
    }

    /// The same with such a share for each function.
    pub fn shared(self, share: u64) -> Setup {
        Setup { share, ..self }
    }

    /// The same; packets wait for so many microseconds at most where the worker is overloaded.
    pub fn within(self, delay: u32) -> Setup {
        Setup { delay, ..self }
    }

    /// Builds the node; [`Setup::compose`] sees to what runs its functions elsewhere.
    ///
    /// # Errors
    /// When the configuration is wrong, or the machine lacks something.
    pub fn build(&self, rig: &Rig, devices: &Devices) -> Result<Node, Failure> {
        build(rig, &self.document(devices))
    }

    /// What stands in a node's file.
    pub(super) fn document(&self, devices: &Devices) -> Value {
        let Devices { access, core, descriptors } = devices;
        let mut ports = Map::new();
        let [near, far] = Gateway::addresses();
        for (worker, device) in access.iter().enumerate() {
            let mut port = json!({
                "device": device, "direction": "uplink", "worker": worker,
                "descriptors": descriptors,
            });
            if self.gateway.is_some() {
                port["addresses"] = json!([&near]);
                port["mac"] = json!("02:00:00:00:00:02");
            }
            ports.insert(format!("access{worker}"), port);
        }
        let mut sink = json!({"device": core, "direction": "downlink", "descriptors": descriptors});
        if self.routed {
            sink["nextHopMac"] = json!("02:00:00:00:00:99");
        }
        if self.gateway.is_some() {
            sink["addresses"] = json!([far]);
        }
        ports.insert("core".to_owned(), sink);
        json!({
            "apiVersion": "weft/v1",
            "kind": "Node",
            "metadata": {"name": "bench"},
            "fused": if self.chooses { "auto" } else { "always" },
            "classification": if self.linear { "linear" } else { "table" },
            "workers": {
                "count": access.len(),
                "polling": if self.adaptive { "adaptive" } else { "busy" },
            },
            "memory": {"packets": PACKETS},
            "limits": {"delay": self.delay},
            "ports": ports,
            "functions": self.functions.iter().cloned().collect::<Map<_, _>>(),
            "users": self.user_blocks(),
            "rules": self.rules(access.len()),
        })
    }

    /// Users that are told apart, all of the first chain.
    fn users_one_by_one(&self) -> Vec<Value> {
        let chain = self.users.first().and_then(|block| block.chain.as_ref());
        let user = |(number, settings): (u32, &Vec<(String, Value)>)| {
            let ipv4 = Ipv4Addr::from([10, 0, 0, 0]).to_bits() + number;
            let ipv6 = 0x2001_0db8_u128 << 96 | u128::from(number) << 64;
            let (ipv4, ipv6) = (Ipv4Addr::from_bits(ipv4), Ipv6Addr::from_bits(ipv6));
            let mut user = json!({
                "name": format!("ue{number}"),
                "match": {"ipv4": ipv4.to_string(), "ipv6": format!("{ipv6}/64")},
            });
            if !settings.is_empty() {
                user["functions"] = settings.iter().cloned().collect::<Map<_, _>>().into();
            }
            if let Some(chain) = chain {
                user["chain"] = json!(chain);
            }
            user
        };
        (0..).zip(&self.each).map(user).collect()
    }

    pub(super) fn user_blocks(&self) -> Vec<Value> {
        if !self.each.is_empty() {
            return self.users_one_by_one();
        }
        let mut first = u32::from_be_bytes([10, 0, 0, 0]);
        let mut blocks = Vec::new();
        for (number, Block { count, chain }) in self.users.iter().enumerate() {
            if *count == 0 {
                continue;
            }
            let address = Ipv4Addr::from_bits(first).to_string();
            let mut block =
                json!({"name": format!("ue{number}"), "count": count, "match": {"ipv4": &address}});
            let mut settings: Map<String, Value> = self.settings.iter().cloned().collect();
            if let Some(gateway) = self.gateway {
                block["match"] = gateway.selector(&address);
                settings.insert(Gateway::INSTANCE.to_owned(), gateway.settings(&address));
            }
            if !settings.is_empty() {
                block["functions"] = Value::Object(settings);
            }
            if let Some(chain) = chain {
                block["chain"] = json!(chain);
            }
            blocks.push(block);
            first += count;
        }
        blocks
    }

    fn rules(&self, workers: usize) -> String {
        let mut rules = String::new();
        let chains = self.chains.iter().filter(|(_, functions)| !functions.is_empty());
        for (name, functions) in chains.clone() {
            rules += &format!("chain {name} = {}\n", functions.join(" -> "));
        }
        for worker in 0..workers {
            for (name, _) in chains.clone() {
                rules += &format!("from access{worker} when chain == {name} -> {name}\n");
            }
            rules += &format!("from access{worker} -> core\n");
        }
        for (name, _) in chains {
            rules += &format!("from {name} -> core\n");
        }
        rules
    }
}

/// Builds a node of what would stand in its file.
pub(super) fn build(rig: &Rig, document: &Value) -> Result<Node, Failure> {
    // JSON is YAML.
    let text = document.to_string();
    let blueprint = config::read(&text, "bench", KINDS).map_err(|error| error.to_string())?;
    Ok(Node::build(rig.eal, blueprint)?)
}
