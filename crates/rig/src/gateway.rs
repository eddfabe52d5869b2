//! What makes a gateway of a node: tunnels that end at its access side, bearers
//! that they carry, and packets for them.

use std::net::IpAddr;

use serde_json::{Value, json};
use weft_traffic::{CapturedShare, Encapsulation, Load, Rate, Selection};
use weft_wire::gtpu::Teid;

use crate::Failure;
use crate::traffic::flood::FloodedTunnel;
use crate::traffic::offered::{PEER as USERS_PEER, uplink};

/// The base station, and the node's address towards it.
const STATION: [u8; 4] = [192, 0, 2, 10];
const ACCESS: [u8; 4] = [192, 0, 2, 1];
/// The peer behind the node, and the node's address towards it.
const PEER: &str = "203.0.113.10";
const CORE: &str = "203.0.113.1";
/// TEIDs of the first bearer, before and behind the node.
const FIRST_TEID: u32 = 0x1000;
const FIRST_TEID_BEHIND: u32 = 0x0200_0000;
/// The first of TEIDs that no bearer has.
const UNKNOWN_TEID: u32 = 0x4000_0000;

/// What a gateway does with each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// Moves it from the tunnel it came in to the bearer's next one: a serving
    /// gateway.
    Relay,
    /// Takes it out of its tunnel: a UPF, uplink.
    Decapsulate,
    /// Puts it into the tunnel of its bearer, found by the user's address: a UPF,
    /// downlink.
    Encapsulate,
}

impl Gateway {
    /// The name of its function instance.
    pub const INSTANCE: &'static str = "tunnel";

    /// Its function.
    pub fn function(self) -> Value {
        let name = match self {
            Gateway::Relay => "gtpu-relay",
            Gateway::Decapsulate => "gtpu-decapsulate",
            Gateway::Encapsulate => "gtpu-encapsulate",
        };
        json!({ "function": name })
    }

    /// How the packets of bearers in a row, of users from this address on, are
    /// known.
    pub fn selector(self, first_user: &str) -> Value {
        match self {
            Gateway::Encapsulate => json!({ "ipv4": first_user }),
            Gateway::Relay | Gateway::Decapsulate => json!({ "teid": FIRST_TEID }),
        }
    }

    /// What is set for them.
    pub fn settings(self, first_user: &str) -> Value {
        let tunnel = json!({"teid": FIRST_TEID_BEHIND, "peer": PEER, "local": CORE});
        match self {
            Gateway::Relay => json!({ "uplink": tunnel }),
            Gateway::Decapsulate => {
                json!({"peer": IpAddr::from(STATION), "ipv4": first_user})
            }
            Gateway::Encapsulate => json!({ "tunnel": tunnel }),
        }
    }

    /// The node's own addresses, which tunnels end at, by port.
    pub fn addresses() -> [Value; 2] {
        [json!(format!("{}/24", IpAddr::from(ACCESS))), json!(format!("{CORE}/24"))]
    }

    /// Packets of so many bearers, drawn at random, in frames of so many bytes with
    /// their checksum, tunnel and all.
    pub fn load(self, bearers: u32, frame_bytes: usize, rate: Rate) -> Load {
        let mut load = uplink(bearers, frame_bytes, rate);
        if self != Gateway::Encapsulate {
            load.shares[0].template.encapsulation = Encapsulation::Gtpu {
                source: STATION.into(),
                destination: ACCESS.into(),
                first_teid: Teid(FIRST_TEID),
                qfi: None,
            };
        }
        load
    }

    /// As many packets of bearers again, among as many that are to be dropped: half
    /// of those are in tunnels that do not exist, the others damaged.
    ///
    /// # Errors
    /// When frames are too short for their headers.
    pub fn load_beside_bad(self, bearers: u32, frame_bytes: usize) -> Result<Load, Failure> {
        let mut load = self.load(bearers, frame_bytes, Rate::Unlimited);
        let mut unknown = load.shares[0].clone();
        load.shares[0].weight = 2;
        unknown.template.stream += 1;
        if let Encapsulation::Gtpu { first_teid, .. } = &mut unknown.template.encapsulation {
            *first_teid = Teid(UNKNOWN_TEID);
        }
        let target = FloodedTunnel {
            outer: [STATION.into(), ACCESS.into()],
            teid: Teid(FIRST_TEID),
            inner: [[10, 0, 0, 0].into(), USERS_PEER.into()],
        };
        // The checksum is not in memory.
        let packets = target.damaged(frame_bytes.saturating_sub(4));
        let packets = packets.map_err(|error| error.to_string())?;
        let stream = unknown.template.stream + 1;
        load.shares.push(unknown);
        load.captured.push(CapturedShare { stream, packets, weight: 1 });
        Ok(load)
    }

    /// The same, one packet of each bearer in turn.
    pub fn load_in_turn(self, bearers: u32, frame_bytes: usize, rate: Rate) -> Load {
        let mut load = self.load(bearers, frame_bytes, rate);
        load.shares[0].selection = Selection::RoundRobin;
        load
    }
}
