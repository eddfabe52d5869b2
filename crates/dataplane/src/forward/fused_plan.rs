//! Functions that stand next to each other and run as one piece of machine code.

use std::sync::Arc;

use arrayvec::ArrayVec;
use weft_compose::{Fused, MAX_FUSED};

/// What is fused of a plan.
#[derive(Debug, Default)]
pub struct FusedPlan {
    /// The region that begins at a function, by its number.
    pub heads: Vec<Option<u16>>,
    /// The regions.
    pub regions: Vec<Region>,
}

/// Functions that packets enter together.
#[derive(Debug)]
pub struct Region {
    /// The functions, in the order that packets meet them.
    pub functions: ArrayVec<u16, MAX_FUSED>,
    /// The ways through it, by the state that they begin at.
    pub ways: Vec<RegionWay>,
}

/// One way through a region.
#[derive(Debug)]
pub struct RegionWay {
    /// The state it begins at.
    pub first: u32,
    /// The state of its last function.
    pub last: u32,
    /// Its functions, as positions in [`Region::functions`].
    pub functions: ArrayVec<u8, MAX_FUSED>,
    /// What carries packets along.
    pub fused: Arc<Fused>,
}
