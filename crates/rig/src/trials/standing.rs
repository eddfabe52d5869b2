//! Nodes of which one stands at a time: what runs the functions of one would take the core
//! from the others, and DPDK has room for 32 ports (Debian's `RTE_MAX_ETHPORTS`).

use crate::OpenLoop;

use crate::Rig;

use crate::Failure;
use crate::Setup;

/// The node that stands, with traffic at its ends.
pub struct Standing<'r> {
    rig: &'r Rig,
    /// Packets that its queues hold.
    descriptors: u16,
    now: Option<(usize, OpenLoop<'r>)>,
}

impl<'r> Standing<'r> {
    /// None stands yet.
    pub fn new(rig: &'r Rig, descriptors: u16) -> Standing<'r> {
        Standing { rig, descriptors, now: None }
    }

    /// The node of that number, built unless it is the one that stands.
    ///
    /// # Errors
    /// As [`OpenLoop::rings`].
    pub fn node(&mut self, number: usize, setup: &Setup) -> Result<&mut OpenLoop<'r>, Failure> {
        let kept = self.now.take().filter(|(other, _)| *other == number);
        let (_, node) = match kept {
            Some(kept) => self.now.insert(kept),
            None => {
                let node = OpenLoop::rings(self.rig, setup, self.descriptors)?;
                self.now.insert((number, node))
            }
        };
        Ok(node)
    }
}
