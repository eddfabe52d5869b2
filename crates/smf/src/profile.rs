//! A profile of a control plane: one YAML file, read and checked whole.

pub(crate) use check::nth_prefix;

mod check;
mod yaml;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use schemars::schema_for;
use serde_json::Value;
use weft_yaml::mistake::Mistakes;
use weft_yaml::shape;

/// A control plane as a file describes it.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name of the profile.
    pub name: String,
    /// Where it speaks from; the address is its Node ID.
    pub local: SocketAddr,
    /// The user plane.
    pub user_plane: SocketAddr,
    /// All that is drawn at random follows from it.
    pub seed: u64,
    /// After so long a request is sent again (T1, TS 29.244 §6.4).
    pub t1: Duration,
    /// How often (N1).
    pub n1: u32,
    /// Time between two heartbeats, if there are any.
    pub heartbeat: Option<Duration>,
    /// Requests that wait for their answers at most.
    pub outstanding: u32,
    /// Answers that take longer are late.
    pub answer_within: Duration,
    /// The sessions.
    pub sessions: Sessions,
    /// The rules of each.
    pub rules: Rules,
    /// How they change.
    pub load: Option<Load>,
    /// Whether they stay.
    pub keep: bool,
}

/// The sessions: each is one user.
#[derive(Clone, Debug)]
pub struct Sessions {
    /// How many.
    pub count: u32,
    /// Establishments a second until all are there; without it as fast as answers come.
    pub rate: Option<f64>,
    /// IPv4 address of the first user.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 prefix of the first user, and its length.
    pub ipv6: Option<(Ipv6Addr, u8)>,
    /// The user plane's ends of tunnels.
    pub tunnels: Tunnels,
    /// Far ends of tunnels.
    pub stations: Vec<IpAddr>,
    /// TEID of the first session there.
    pub station_teid: u32,
}

/// The user plane's ends of tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnels {
    /// It chooses them, with an IPv4 address if `ipv4`, else with an IPv6 address.
    Choose {
        /// Which family.
        ipv4: bool,
    },
    /// The control plane gives them.
    Given {
        /// Address of the user plane.
        address: IpAddr,
        /// TEID of the first tunnel of the first session.
        first_teid: u32,
    },
}

impl Tunnels {
    /// Whether the outer header is IPv4.
    pub fn is_ipv4(self) -> bool {
        match self {
            Tunnels::Choose { ipv4 } => ipv4,
            Tunnels::Given { address, .. } => address.is_ipv4(),
        }
    }
}

/// Rules of one session.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Packet detection rules.
    pub pdrs: Vec<Pdr>,
    /// Forwarding action rules.
    pub fars: Vec<Far>,
    /// QoS enforcement rules.
    pub qers: Vec<Qer>,
    /// Usage reporting rules.
    pub urrs: Vec<Urr>,
}

/// Source and destination interfaces (TS 29.244 §8.2.2, §8.2.24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Towards users.
    Access,
    /// Towards the data network.
    Core,
    /// N6 or SGi.
    Sgi,
    /// The control plane.
    ControlPlane,
}

/// A packet detection rule.
#[derive(Clone, Debug)]
pub struct Pdr {
    /// Number of the rule.
    pub id: u16,
    /// The lower, the earlier.
    pub precedence: u32,
    /// Where packets come from.
    pub source: Interface,
    /// Their network instance.
    pub instance: Option<String>,
    /// Which of the session's tunnels they come in.
    pub tunnel: Option<u32>,
    /// Whether they have the user's address.
    pub user: bool,
    /// Their QoS flows.
    pub qfis: Vec<u8>,
    /// SDF filters.
    pub filters: Vec<String>,
    /// The FAR.
    pub far: u32,
    /// QERs.
    pub qers: Vec<u32>,
    /// URRs.
    pub urrs: Vec<u32>,
}

/// A forwarding action rule.
#[derive(Clone, Debug)]
pub struct Far {
    /// Number of the rule.
    pub id: u32,
    /// Where packets go; without it they are dropped.
    pub destination: Option<Interface>,
    /// Their network instance.
    pub instance: Option<String>,
    /// Whether they get an outer header to the session's station.
    pub tunnel: bool,
}

/// Something of both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directions<T> {
    /// From users.
    pub uplink: T,
    /// To users.
    pub downlink: T,
}

/// A QoS enforcement rule.
#[derive(Clone, Copy, Debug)]
pub struct Qer {
    /// Number of the rule.
    pub id: u32,
    /// Highest rates, kbit/s.
    pub mbr: Option<Directions<u64>>,
    /// Guaranteed rates, kbit/s.
    pub gbr: Option<Directions<u64>>,
    /// QoS flow identifier.
    pub qfi: Option<u8>,
}

/// A usage reporting rule.
#[derive(Clone, Copy, Debug)]
pub struct Urr {
    /// Number of the rule.
    pub id: u32,
    /// Bytes of both directions.
    pub volume_threshold: Option<u64>,
    /// Seconds.
    pub time_threshold: Option<u32>,
    /// Seconds between reports.
    pub period: Option<u32>,
}

/// How sessions change.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How long.
    pub duration: Duration,
    /// Requests a second.
    pub rate: f64,
    /// Weights of requests, in the order of [`Kind::LOAD`](crate::Kind::LOAD).
    pub weights: [u32; 6],
}

impl Profile {
    /// Reads a profile from `path`.
    ///
    /// # Errors
    /// [`Mistakes`]: as many as can be found at once.
    pub fn load(path: &Path) -> Result<Profile, Mistakes> {
        Profile::read(&weft_yaml::load(path)?, &path.display().to_string())
    }

    /// Reads a profile. `file` is what mistakes call it.
    ///
    /// # Errors
    /// [`Mistakes`]: as many as can be found at once.
    pub fn read(text: &str, file: &str) -> Result<Profile, Mistakes> {
        let mut source = weft_yaml::parse(text, file, "ControlPlane")?;
        shape::read(&mut source)
            .and_then(|profile| check::profile(&profile, &mut source))
            .ok_or_else(|| Mistakes::of(file, std::mem::take(&mut source.mistakes)))
    }

    /// JSON schema (2020-12) of profiles.
    pub fn schema() -> Value {
        schema_for!(yaml::ControlPlaneFile).to_value()
    }
}

impl Rules {
    /// Tunnels of one session: PDRs that packets come to in a tunnel.
    pub fn tunnels(&self) -> u32 {
        self.pdrs.iter().filter_map(|pdr| pdr.tunnel).map(|nth| nth + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
