//! A baseline between two interfaces of the kernel, with our traffic at its ends.

use crate::Failure;
use crate::{Arrivals, Ends, Offer, Rig};

use super::kernel::{Routers, Work};
use super::open_vswitch::Bridges;

/// Hops in a row, a generator at one end and a receiver at the other.
///
/// The ends are open during a trial only: DPDK has room for 32 ports (Debian's
/// `RTE_MAX_ETHPORTS`), which an experiment with many lines would go beyond.
pub struct Line {
    hops: Hops,
    /// Packets that the queues at the ends hold.
    descriptors: u16,
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
    /// As [`Routers::new`].
    pub fn of_routers(rig: &Rig, length: usize, descriptors: u16) -> Result<Line, Failure> {
        let hops = Hops::Routers(Routers::new(length, rig.cores.system, Work::Route)?);
        Ok(Line { hops, descriptors })
    }

    /// A router of the kernel that translates addresses by nftables.
    ///
    /// # Errors
    /// As [`Routers::new`].
    pub fn of_translator(rig: &Rig, descriptors: u16) -> Result<Line, Failure> {
        let hops = Hops::Routers(Routers::new(1, rig.cores.system, Work::Translate)?);
        Ok(Line { hops, descriptors })
    }

    /// Bridges of Open vSwitch.
    ///
    /// # Errors
    /// As [`Bridges::new`].
    pub fn of_bridges(rig: &Rig, length: usize, descriptors: u16) -> Result<Line, Failure> {
        let hops = Hops::Bridges(Bridges::new(length, rig.cores.system)?);
        Ok(Line { hops, descriptors })
    }

    /// Sends an offer through it.
    ///
    /// # Errors
    /// As [`Rig::offer`], or when the ends cannot be opened.
    pub fn offer(&mut self, rig: &Rig, mut offer: Offer) -> Result<Arrivals, Failure> {
        let devices = match &self.hops {
            Hops::Routers(routers) => {
                Routers::address(&mut offer.load);
                routers.ends(rig)
            }
            Hops::Bridges(bridges) => bridges.ends(rig),
        };
        let mut ends = Ends::open(rig, &devices, self.descriptors)?;
        rig.offer(&mut ends, &offer)
    }
}
