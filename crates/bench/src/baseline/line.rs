//! A baseline between two interfaces of the kernel, with our traffic at its ends.

use crate::Failure;
use crate::rig::{Arrivals, Ends, Offer, Rig};

use super::kernel::Routers;
use super::open_vswitch::Bridges;

/// Hops in a row, a generator at one end and a receiver at the other.
pub struct Line {
    /// Closed before what they are attached to is taken away.
    ends: Ends,
    hops: Hops,
}

/// What packets pass.
enum Hops {
    Routers(Routers),
    Bridges(Bridges),
}

impl Line {
    /// Routers of the kernel.
    ///
    /// # Errors
    /// As [`Routers::new`], or when the ends cannot be opened.
    pub fn of_routers(rig: &Rig, length: usize, descriptors: u16) -> Result<Line, Failure> {
        Line::through(Hops::Routers(Routers::new(length, rig.cores.system)?), rig, descriptors)
    }

    /// Bridges of Open vSwitch.
    ///
    /// # Errors
    /// As [`Bridges::new`], or when the ends cannot be opened.
    pub fn of_bridges(rig: &Rig, length: usize, descriptors: u16) -> Result<Line, Failure> {
        Line::through(Hops::Bridges(Bridges::new(length, rig.cores.system)?), rig, descriptors)
    }

    fn through(hops: Hops, rig: &Rig, descriptors: u16) -> Result<Line, Failure> {
        let devices = match &hops {
            Hops::Routers(routers) => routers.ends(rig),
            Hops::Bridges(bridges) => bridges.ends(rig),
        };
        Ok(Line { ends: Ends::open(rig, &devices, descriptors)?, hops })
    }

    /// Sends an offer through it.
    ///
    /// # Errors
    /// As [`Rig::offer`].
    pub fn offer(&mut self, rig: &Rig, mut offer: Offer) -> Result<Arrivals, Failure> {
        if let Hops::Routers(_) = self.hops {
            Routers::address(&mut offer.load);
        }
        rig.offer(&mut self.ends, &offer)
    }
}
