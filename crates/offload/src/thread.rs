//! Functions on a thread of their own: a chain that is split over processor cores.

mod thread_carrier;
mod thread_pool;
mod thread_worker;

pub use self::thread_pool::{StagePlan, ThreadPool};
pub use self::thread_worker::{FunctionThread, ThreadWorker};
