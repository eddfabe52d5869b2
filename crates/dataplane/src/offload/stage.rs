//! Functions on a thread of their own: a chain that is split over processor cores.
//!
//! A *stage* is one more thread. Each worker deploys instances of functions there and
//! sends it packets, in [`Parcel`]s: what of a burst goes there. The stage lets them visit its
//! functions, from one to the next as long as they stay there, and sends the parcel
//! back, and the worker lets packets go on. Between worker and stage lie rings with one
//! producer and one consumer each, and each parcel names the last order before it, so
//! settings and packets keep one order.
//!
//! What a function asks for beyond a verdict is the worker's to do, who keeps packets. A
//! stage whose function asked for something that concerns the order of packets waits for
//! the worker's answer, in which packets come back that go on there, and only then turns
//! to the worker's next parcel: so none of them is overtaken.
//!
//! Whatever else a worker does with its functions, it does with those that are at hand:
//! it stops receiving, waits until nothing is away, and recalls its instances. While
//! they are there they are called. So a change of rules, a move to another core or
//! another composition, a user that leaves with its contexts, and a trace all find the
//! node as if there were no stages.

mod map;
mod parcel;
mod parcel_carrier;
mod queue;

use std::sync::Arc;

use weft_compose::Instance;

pub use self::map::{Map, State};
pub use self::parcel::Parcel;
pub use self::parcel_carrier::{Order, ParcelCarrier, Reply};
pub use self::queue::{Deployment, StageQueue};
use crate::counters::FunctionCounters;

/// A function's instance, and what is counted for it.
pub struct DeployedFunction {
    /// Number of the function.
    pub function: u16,
    /// The instance.
    pub instance: Box<dyn Instance>,
    /// What is counted for it. The thread that has the instance counts.
    pub counters: Arc<FunctionCounters>,
}
