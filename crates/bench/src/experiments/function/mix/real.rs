//! The real functions of a mix: what is in their tables, and packets that each takes.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_wire::{Error, EtherType, MacAddress, Protocol, ethernet, ipv4, ipv6, udp};

use crate::experiments::function::functions::{configure, esp, flows};
use weft_rig::Failure;
use weft_rig::Rig;
use weft_rig::Setup;
use weft_rig::USERS;
use weft_rig::traffic::capture;
use weft_rig::traffic::datagram::datagram;

/// A node without a function.
pub const NONE: &str = "none";
/// All of them, in the order that one chain has them in.
pub const FUNCTIONS: [&str; 4] = ["lwaftr", "nat", "route", ENCRYPT];
/// The one that needs a cryptographic device.
pub const ENCRYPT: &str = "esp-encrypt";

const LINK: usize = ethernet::HEADER_LENGTH;
/// Octets of the IP packet of a user in a shortest frame.
const INSIDE: usize = 46;
const PORTS: [u16; 2] = [1000, 2000];
/// First octets of addresses that none of these nodes has.
const ABROAD: std::ops::RangeInclusive<u32> = 20..=120;

/// What the real functions have in their tables.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tables {
    /// Routes.
    #[schemars(range(min = 1000))]
    routes: u32,
    /// Softwires.
    #[schemars(range(min = 1000))]
    softwires: u32,
}

/// A node, and the packets that it takes.
#[derive(Clone)]
pub struct Case {
    pub setup: Setup,
    pub capture: PathBuf,
}

impl Tables {
    /// A node with these functions in one chain.
    ///
    /// # Errors
    /// When tables or packets cannot be written, or there are fewer entries than users.
    pub fn case(self, rig: &Rig, functions: &[&str]) -> Result<Case, Failure> {
        if self.routes.min(self.softwires) < USERS {
            return Err(format!("tables: {USERS} entries at least, one for each user").into());
        }
        let mut instances = Vec::new();
        for &function in functions {
            let config = match function {
                "route" => configure::route(rig.scratch(), self.routes)?,
                "lwaftr" => configure::lwaftr(rig.scratch(), self.softwires)?,
                "nat" => configure::nat(USERS * flows::FLOWS_OF_A_USER),
                _ => json!({"device": esp::DEVICE, "associations": USERS}),
            };
            let instance = json!({"function": function, "config": config});
            instances.push((function.to_owned(), instance));
        }
        let encrypts = functions.contains(&ENCRYPT);
        let told = |user| -> Vec<(String, Value)> {
            encrypts.then(|| (ENCRYPT.to_owned(), esp::sealing(user))).into_iter().collect()
        };
        let setup =
            Setup { each: (0..USERS).map(told).collect(), ..Setup::chain(USERS, instances) };
        Ok(Case { setup, capture: self.capture(rig, functions.contains(&"lwaftr"))? })
    }

    /// One packet of each user, in its softwire or not, to a route of its own.
    fn capture(self, rig: &Rig, in_softwires: bool) -> Result<PathBuf, Failure> {
        let path = rig.scratch().join(format!("real-{in_softwires}.pcap"));
        if !path.exists() {
            let routes = (0..self.routes).map(flows::prefix);
            let routes: Vec<u32> = routes.filter(|route| ABROAD.contains(&(route >> 24))).collect();
            // 617 has no factor in common with the number of users.
            let frames = (0..USERS).map(|number| number * 617 % USERS).map(|user| {
                let destination = routes.get(user as usize % routes.len().max(1));
                frame(user, destination.map_or(0, |route| route | 7).into(), in_softwires)
            });
            capture::write(&path, frames)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(path)
    }
}

fn frame(user: u32, destination: Ipv4Addr, in_softwire: bool) -> Result<Vec<u8>, Error> {
    let outer = if in_softwire { ipv6::HEADER_LENGTH } else { 0 };
    let mut frame = vec![0; LINK + outer + INSIDE];
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 2]),
        ether_type: if in_softwire { EtherType::IPV6 } else { EtherType::IPV4 },
    };
    link.emit(&mut frame)?;
    let (ipv4, psid, b4) = flows::softwire(user);
    let (source, port) = match in_softwire {
        true => (ipv4, psid << 10 | 5),
        false => ((0x0a00_0000 + user).into(), PORTS[0]),
    };
    if in_softwire {
        let tunnel = ipv6::Repr {
            source: b4,
            destination: flows::ADDRESS.parse().unwrap_or(Ipv6Addr::LOCALHOST),
            next_header: Protocol::IPV4,
            payload_length: INSIDE as u16,
            ..ipv6::Repr::default()
        };
        tunnel.emit(&mut frame[LINK..])?;
    }
    datagram(&mut frame[LINK + outer..], [source, destination], [port, PORTS[1]])?;
    let mut ip = ipv4::Packet::new_checked(&mut frame[LINK + outer..])?;
    let pseudo_header = ip.pseudo_header();
    udp::Datagram::new_checked(ip.payload_mut())?.fill_checksum(&pseudo_header);
    Ok(frame)
}
