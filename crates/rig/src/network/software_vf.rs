//! Chains over software VF: each function in a process of its own behind a virtual function
//! of a switch, which is a process, too, with a fixed share for each.
//!
//! The switch has a core of its own where the machine has three; on two it shares that of
//! the functions, and sleeps while nothing is to be done so that these can work.

use std::fs;

use serde_json::{Map, Value, json};
use weft_functions::KINDS;
use weft_node_config as config;
use weft_switch::Child;
use weft_switch::child::program;

use crate::Failure;
use crate::Rig;
use crate::composition::FABRIC_MTU;

const NIC: &str = "bench";
const NODE: &str = "fabric";

impl Rig {
    /// Puts the functions of a node's file behind software VF, each with a share of so many
    /// packets per second, and starts the switch.
    pub(crate) fn software_vf(&self, document: &mut Value, rate: u64) -> Result<Child, Failure> {
        let sockets = self.scratch().join(format!("vf{}", self.serial()));
        let functions = document["functions"].as_object_mut().into_iter().flatten();
        let mut virtual_functions = Map::new();
        for (number, (name, function)) in (1..).zip(functions) {
            let mac = format!("02:00:00:00:02:{number:02x}");
            virtual_functions.insert(format!("vf-{name}"), json!({"mac": mac, "rate": rate}));
            function["composition"] = json!("vf");
            function["vf"] =
                json!({"port": NODE, "device": format!("vf:vf-{name}"), "timeout": 1000});
            function["process"] = json!({"heartbeat": 10_000, "checkpoint": 0});
        }
        // All that functions are sent and send is the node's; it holds back none of it.
        let own = rate.saturating_mul(2 * virtual_functions.len() as u64).min(100_000_000);
        virtual_functions.insert(NODE.to_owned(), json!({"mac": "02:00:00:00:02:00", "rate": own}));
        document["nics"][NIC] = json!({
            "software": {
                "sockets": sockets,
                "start": "elsewhere",
                "core": self.cores.switch.or(self.cores.traffic),
                "polling": if self.cores.switch.is_some() { "busy" } else { "adaptive" },
            },
            "virtualFunctions": virtual_functions,
        });
        document["ports"][NODE] =
            json!({"device": format!("vf:{NODE}"), "direction": "uplink", "mtu": FABRIC_MTU});
        // JSON is YAML.
        let text = document.to_string();
        let file = sockets.with_extension("yaml");
        fs::write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
        let blueprint = config::read(&text, "bench", KINDS).map_err(|error| error.to_string())?;
        let switch = blueprint.switches.first().ok_or("a node without a switch")?;
        Ok(Child::start(&program(), &file, switch, |_| ())?)
    }
}
