//! Why a function dropped a packet, as the packet itself says it: the node that waits for it
//! is told.

use weft_compose::Burst;
use weft_function::{Metadata, StepData, StepValue};

/// Whether a function has dropped a packet, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionDrop {
    /// None has.
    None,
    /// One has.
    Dropped {
        /// Number of the reason among the function's.
        reason: u8,
        /// A sum over the name of the function.
        function: u8,
    },
}

/// The highest byte where a function has dropped the packet; reason and function stand below.
const DROPPED: u32 = 0xd6 << 24;

impl FunctionDrop {
    /// The function called `function` has dropped the packet.
    pub fn new(reason: u8, function: &str) -> FunctionDrop {
        FunctionDrop::Dropped { reason, function: sum_of(function) }
    }
}

/// The forwarding element leaves it for the service path that the packet came by.
impl StepData for FunctionDrop {
    #[inline]
    fn to_bits(self) -> u32 {
        match self {
            FunctionDrop::None => 0,
            FunctionDrop::Dropped { reason, function } => {
                DROPPED | u32::from(reason) << 8 | u32::from(function)
            }
        }
    }

    #[inline]
    fn from_bits(bits: u32) -> FunctionDrop {
        let [_, _, reason, function] = bits.to_be_bytes();
        match bits & 0xff00_0000 == DROPPED {
            true => FunctionDrop::Dropped { reason, function },
            false => FunctionDrop::None,
        }
    }
}

/// Notes in a packet why a function dropped it.
#[cold]
pub fn note_drop(burst: &mut Burst, position: usize, reason: u8, function: &str) {
    let by = FunctionDrop::new(reason, function);
    burst.packets[position].metadata_mut().step = StepValue::new(by);
}

/// A sum over the name of a function.
pub fn sum_of(function: &str) -> u8 {
    let sum = hash(FNV, function.as_bytes());
    (sum ^ sum >> 8 ^ sum >> 16 ^ sum >> 24) as u8
}

/// FNV-1a, 32 bits, goes on from here.
pub const FNV: u32 = 0x811c_9dc5;

/// FNV-1a over further octets.
pub fn hash(sum: u32, octets: &[u8]) -> u32 {
    octets.iter().fold(sum, |sum, octet| (sum ^ u32::from(*octet)).wrapping_mul(0x0100_0193))
}
