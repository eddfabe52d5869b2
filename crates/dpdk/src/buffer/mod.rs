//! Packet buffers: the pool they come from, one of them, a burst of them.

mod batch;
pub mod layout;
mod offload;
mod packet;
mod pool;

pub use batch::Batch;
pub use packet::{METADATA_BYTES, Packet};
pub use pool::Pool;
