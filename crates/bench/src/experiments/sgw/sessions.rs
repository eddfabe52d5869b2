//! A serving gateway whose sessions commands establish, modify and delete.

use serde_json::{Value, json};
use weft_node::Agent;
use weft_node::bearer::{Action, BearerCommand, BearerId, BearerSettings, Detection, Settings};
use weft_node_config::UserKey;

use weft_rig::{Failure, Gateway};

/// Packets that each queue holds.
pub(super) const DESCRIPTORS: u16 = 1024;
/// First TEID of sessions that commands establish; apart from those with traffic.
const TEIDS: u32 = 0x1000_0000;
/// The gateway's address towards its peer, and two addresses of the peer's side.
const LOCAL: &str = "203.0.113.1";
const PEERS: [&str; 2] = ["203.0.113.10", "203.0.113.11"];

/// Sessions that come and go: always as many, the oldest of which is deleted, one of
/// middle age modified, and a new one established.
pub(super) struct Sessions {
    count: u64,
    /// Commands that are given at once.
    pub batch: usize,
    /// The next to be established.
    next: u64,
    /// Which of three commands comes next.
    phase: u8,
    /// The tunnels of a session, before and after it is modified.
    settings: [Settings; 2],
}

impl Sessions {
    /// So many of them; none is there yet.
    ///
    /// # Errors
    /// When the node takes no such settings.
    pub fn new(agent: &Agent, count: u32, batch: usize) -> Result<Sessions, Failure> {
        let settings = |peer: &str| {
            let tunnel = json!({"teid": TEIDS, "peer": peer, "local": LOCAL});
            let settings = agent.settings(Gateway::INSTANCE, &json!({ "uplink": tunnel }));
            settings.map_err(|wrong| wrong.to_string())
        };
        let settings = [settings(PEERS[0])?, settings(PEERS[1])?];
        Ok(Sessions { count: count.into(), batch, next: 0, phase: 0, settings })
    }

    /// Establishes all of them at once.
    ///
    /// # Errors
    /// When the node refuses one.
    pub fn establish_all(&mut self, agent: &mut Agent) -> Result<(), Failure> {
        let all: Vec<_> = (0..self.count).map(|id| self.establish(id)).collect();
        self.next = self.count;
        agent.change_bearers(&all)?;
        Ok(())
    }

    /// Establishes the next ones, a batch of them; whether there were any left.
    ///
    /// # Errors
    /// When the node refuses one.
    pub fn establish_some(&mut self, agent: &mut Agent) -> Result<bool, Failure> {
        let end = (self.next + self.batch as u64).min(self.count);
        if self.next == end {
            return Ok(false);
        }
        let batch: Vec<_> = (self.next..end).map(|id| self.establish(id)).collect();
        self.next = end;
        agent.change_bearers(&batch)?;
        Ok(true)
    }

    /// Applies a batch of commands; returns how many.
    pub fn signal(&mut self, agent: &mut Agent) -> Result<u64, Failure> {
        let batch: Vec<_> = (0..self.batch).map(|_| self.command()).collect();
        agent.change_bearers(&batch)?;
        Ok(batch.len() as u64)
    }

    fn command(&mut self) -> BearerCommand {
        let phase = self.phase;
        self.phase = (phase + 1) % 3;
        match phase {
            0 => BearerCommand::Remove { id: BearerId(self.next - self.count) },
            1 => {
                self.next += 1;
                self.establish(self.next - 1)
            }
            _ => {
                let id = self.next - self.count / 2 - 1;
                let settings = vec![self.given(id, 1)];
                let (id, action) = (BearerId(id), None);
                BearerCommand::Change { id, action, settings, end_marker: false }
            }
        }
    }

    fn establish(&self, id: u64) -> BearerCommand {
        let keys = vec![UserKey::Teid { network: 0, first: TEIDS + self.place(id) }];
        BearerCommand::Add {
            id: BearerId(id),
            detection: Detection::User { like: "ue".to_owned(), nth: 0, keys, user: None },
            action: Action::Forward,
            settings: vec![self.given(id, 0)],
        }
    }

    fn given(&self, id: u64, which: usize) -> BearerSettings {
        let (function, settings) = (Gateway::INSTANCE.to_owned(), self.settings[which].clone());
        BearerSettings { function, settings, nth: self.place(id) }
    }

    /// TEIDs are used again once their session is long gone.
    fn place(&self, id: u64) -> u32 {
        (id % (2 * self.count)) as u32
    }
}

/// The configuration of the gateway; JSON is YAML.
pub(super) fn document([access, core]: &[String; 2], bearers: u32, sessions: u32) -> Value {
    let [near, far] = Gateway::addresses();
    json!({
        "apiVersion": "weft/v1",
        "kind": "Node",
        "metadata": {"name": "bench"},
        "workers": {"polling": "busy"},
        "memory": {"packets": weft_rig::setup::PACKETS},
        "limits": {"users": bearers + sessions + 1},
        "gtpu": {"echoInterval": 0},
        "ports": {
            "access": {"device": access, "direction": "uplink", "descriptors": DESCRIPTORS,
                       "addresses": [near], "mac": "02:00:00:00:00:02"},
            "core": {"device": core, "direction": "downlink", "descriptors": DESCRIPTORS,
                     "addresses": [far], "nextHopMac": "02:00:00:00:00:99"},
        },
        "functions": {Gateway::INSTANCE: Gateway::Relay.function()},
        "users": [{"name": "ue", "count": bearers, "match": Gateway::Relay.selector("10.0.0.0"),
                   "functions": {Gateway::INSTANCE: Gateway::Relay.settings("10.0.0.0")}}],
        "rules": format!("from access -> {0}\nfrom {0} -> core\n", Gateway::INSTANCE),
    })
}
