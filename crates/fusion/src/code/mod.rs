//! Machine code of a way.

mod emit;
#[allow(unsafe_code, reason = "memory for machine code, and the call of it")]
mod enter;

use weft_dpdk::{Batch, Packet};

use crate::{LinkedProgram, MAX_FUNCTIONS, Rejected, verify};
use enter::Text;

/// What came of a burst.
#[derive(Clone, Debug)]
pub struct Verdicts {
    /// Positions of packets that were dropped, one bit each.
    pub dropped: u64,
    /// What dropped the packet at a position.
    pub reasons: [DroppedBy; Batch::CAPACITY],
}

/// What dropped a packet. Machine code writes it, so its layout is specified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DroppedBy {
    /// The function on the way.
    pub function: u8,
    /// The number of its reason.
    pub reason: u8,
}

impl Default for Verdicts {
    fn default() -> Self {
        Verdicts { dropped: 0, reasons: [DroppedBy::default(); Batch::CAPACITY] }
    }
}

/// A packet that is to go the rest of the way called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punted {
    /// Where it stands in the burst.
    pub position: usize,
    /// Number of the function that comes next, on the way.
    pub function: usize,
    /// Positions of the packets behind it that are still to be handled.
    pub remaining: u64,
}

/// Why there is no machine code.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompileError {
    /// The micro-operations are wrong.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The compiler refuses them.
    #[error("the code generator: {0}")]
    Generator(String),
    /// There is no memory for the code.
    #[error("memory for machine code: {0}")]
    Memory(String),
}

/// What an operator sees of machine code.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Instructions, one per line.
    pub instructions: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Machine code of a way: one loop over the burst.
#[derive(Debug)]
pub struct Code {
    text: Text,
    way: LinkedProgram,
}

impl Code {
    /// Compiles a way.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn compile(way: &LinkedProgram) -> Result<Code, CompileError> {
        verify(way)?;
        let bytes = emit::machine_code(way, false)?.bytes;
        let text = Text::new(&bytes).map_err(|error| CompileError::Memory(error.to_string()))?;
        Ok(Code { text, way: way.clone() })
    }

    /// What the machine code of a way looks like.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn list(way: &LinkedProgram) -> Result<Listing, CompileError> {
        verify(way)?;
        emit::machine_code(way, true)
    }

    /// The micro-operations it was made of.
    pub fn way(&self) -> &LinkedProgram {
        &self.way
    }

    /// Lets the packets at the positions `selected` go the way, at time `now`
    /// (nanoseconds since the node started). `contexts` are the bytes of the
    /// contexts of each function, one context after the other.
    ///
    /// Returns early with a packet that is punted: it comes before `remaining`,
    /// with which the caller goes on.
    #[inline]
    pub fn run(
        &self,
        packets: &mut [Packet],
        contexts: &mut [&mut [u8]],
        now: u64,
        selected: u64,
        verdicts: &mut Verdicts,
    ) -> Option<Punted> {
        assert!(contexts.len() == self.way.functions.len() && contexts.len() <= MAX_FUNCTIONS);
        let there = 1_u64.checked_shl(packets.len() as u32).map_or(u64::MAX, |bit| bit - 1);
        let capacity = self.way.capacity(contexts);
        enter::enter(&self.text, packets, contexts, (now, capacity), selected & there, verdicts)
    }
}
