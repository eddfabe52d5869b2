//! What one step of a packet's way leaves in its metadata for a later one.

use weft_wire::gtpu::Teid;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Four bytes that a step leaves for a later one. The bytes do not say what they are: each
/// pair of steps has one type ([`StepData`]) that both name, and no step in between leaves
/// anything. `docs/design/way-of-a-packet.md` lists the pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct StepValue(u32);

/// What a step may leave for a later one.
pub trait StepData: Copy {
    /// The value in four bytes.
    fn to_bits(self) -> u32;
    /// The value again. Bytes that are none give some value of the type.
    fn from_bits(bits: u32) -> Self;
}

impl StepValue {
    /// Nothing was left.
    pub const NONE: StepValue = StepValue(0);

    /// Leaves `data`.
    #[inline(always)]
    pub fn new(data: impl StepData) -> StepValue {
        StepValue(data.to_bits())
    }

    /// What was left, by a step that left a `T`.
    #[inline(always)]
    pub fn get<T: StepData>(self) -> T {
        T::from_bits(self.0)
    }
}

/// The TEID of the tunnel that the packet came in: the parser leaves it for the classifier.
impl StepData for Teid {
    #[inline(always)]
    fn to_bits(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> Teid {
        Teid(bits)
    }
}
