//! How full all nodes together are.

use super::Proxy;
use crate::codec::rule::LoadControl;

/// What control planes are told of the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Grows with each change, and from one life of the proxy to the next.
    sequence: u32,
    metric: u8,
    /// Nodes that answer.
    pub answering: usize,
}

impl Load {
    /// Of a proxy that starts at this second since 1970.
    pub fn new(now: u64) -> Load {
        Load { sequence: now as u32, metric: 0, answering: 0 }
    }

    /// As control planes are told.
    pub fn control(&self) -> LoadControl {
        LoadControl { sequence: self.sequence, metric: self.metric, refused: None }
    }
}

impl Proxy {
    /// Sums up what nodes have.
    pub(super) fn sum_up_load(&mut self) {
        let (mut sessions, mut most, mut answering) = (0, 0, 0);
        for node in self.nodes.values().filter(|node| node.is_ready()) {
            sessions += u64::from(node.state.sessions);
            most += u64::from(node.state.most);
            answering += 1;
        }
        let metric = (sessions * 100 / most.max(1)).min(100) as u8;
        self.load.answering = answering;
        if metric != self.load.metric {
            self.load.metric = metric;
            self.load.sequence = self.load.sequence.wrapping_add(1);
        }
    }
}
