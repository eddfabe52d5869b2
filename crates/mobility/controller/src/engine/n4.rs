//! N4 as the engine has it: what its proxy has to remember, the nodes behind it, and their shares.

mod nodes;
mod sessions;
mod shares;

use std::net::SocketAddr;

use super::Engine;
use super::events::Happening;
use crate::n4::N4Node;
use crate::shares::ShareRecord;

pub use nodes::{Behind, NotBehind};
pub use sessions::{Asking, NotAsked};
pub use shares::{NotMoved, Shares};

impl Engine {
    /// What N4 has to remember.
    pub fn n4_records(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.n4.all()
    }

    /// Remembers for N4: durable when the engine answers.
    pub fn keep_n4(&mut self, kept: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        for (key, octets) in kept {
            let changes = self.n4.take(key, octets);
            self.changes.extend(changes);
        }
    }

    /// A node behind N4 is otherwise than before: it is told to those who listen.
    pub fn tell_n4(&mut self, node: String, state: &str) {
        self.tell_event(Happening::n4(node, state));
    }

    /// Nodes behind N4, those of the file and those that have registered: where their shares are,
    /// whether these take no further sessions, and what they can carry.
    pub fn n4_plans(&mut self, of_file: Vec<N4Node>) -> Vec<(N4Node, bool, u64)> {
        let nodes = self.nodes_behind(of_file);
        let planned = nodes.iter().map(|node| {
            let mut node = node.clone();
            let record = self.shares.record(node.number);
            let record = record.filter(|record| record.home == node.name);
            if let Some(holder) = record.and_then(|record| record.holder.as_ref()) {
                node.address = SocketAddr::new(holder.address, node.address.port());
            }
            let at = record.map_or(&*node.name, ShareRecord::at);
            let (is_cordoned, capacity) = self.standing_of(at).unwrap_or_default();
            (node, is_cordoned, capacity)
        });
        let planned = planned.collect();
        self.shares.set_nodes(nodes);
        planned
    }

    /// Whether a node takes no further sessions, and what it can carry, by its name; none of a
    /// node that the controller does not know.
    fn standing_of(&self, name: &str) -> Option<(bool, u64)> {
        let member = self.members.named(name).and_then(|number| self.members.get(number))?;
        Some((self.is_cordoned(member.number), member.capacity))
    }
}
