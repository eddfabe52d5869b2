//! Load and overload control information in responses, for control planes that want to know
//! (§6.2.3, §6.2.4).

use std::net::IpAddr;

use super::UserPlane;
use crate::codec::element::{CpFeatures, GracePeriod};
use crate::codec::rule::{LoadControl, OverloadControl};

/// Responses that tell of an overload behind each request for which there was no room.
const TOLD: u32 = 64;
/// Part of the messages that should not be sent then, in percent, and for how many seconds.
const REDUCTION: u8 = 20;
const VALIDITY: u64 = 10;

/// How full the node is, as it was told last.
#[derive(Debug)]
pub(super) struct Load {
    /// Grows with each change, and from one life of the node to the next.
    sequence: u32,
    metric: u8,
    /// Responses that are yet to tell of an overload.
    overload: u32,
    overload_sequence: u32,
}

impl Load {
    /// Of a node that starts at this second since 1970.
    pub fn new(now: u64) -> Load {
        Load { sequence: now as u32, metric: 0, overload: 0, overload_sequence: now as u32 }
    }

    /// There was no room for a request.
    pub fn note_overload(&mut self) {
        if self.overload == 0 {
            self.overload_sequence = self.overload_sequence.wrapping_add(1);
        }
        self.overload = TOLD;
    }
}

impl UserPlane {
    /// What a response to `peer` says of load and overload.
    pub(super) fn load_for(
        &mut self,
        peer: IpAddr,
    ) -> (Option<LoadControl>, Option<OverloadControl>) {
        let association = self.associations.iter().find(|(_, one)| one.address == peer);
        let features = association.map_or(CpFeatures(0), |(_, one)| one.features);
        let full = self.sessions.len() * 100 / self.plan.sessions.max(1);
        let metric = full.min(100) as u8;
        if metric != self.load.metric {
            self.load.metric = metric;
            self.load.sequence = self.load.sequence.wrapping_add(1);
        }
        let load = LoadControl { sequence: self.load.sequence, metric, refused: None };
        let overload = OverloadControl {
            sequence: self.load.overload_sequence,
            metric: REDUCTION,
            validity: GracePeriod::at_least(VALIDITY),
            flags: None,
            refused: None,
        };
        let tells = self.load.overload > 0 && features.has(CpFeatures::OVRL);
        self.load.overload -= u32::from(tells);
        (features.has(CpFeatures::LOAD).then_some(load), tells.then_some(overload))
    }
}
