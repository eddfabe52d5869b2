//! The threads beside the workers that functions stand on: which there are, and which
//! functions stand there.

mod compose;
mod split;
mod thread_pool;

pub use compose::{NotComposed, Wanted};
pub(crate) use split::Split;
pub use thread_pool::ThreadPool;
