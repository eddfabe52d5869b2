//! The threads beside the workers that functions stand on: which there are, and which
//! functions stand there.

mod compose;
mod split;

pub use compose::{NotComposed, Wanted};
pub(crate) use split::Split;
