//! What carries parcels to a stage and back.

use std::sync::Arc;

use weft_compose::Settings;

use super::{DeployedFunction, Map, Parcel};
use crate::offload::ContextOrders;

/// Carries parcels and orders to where a worker's own instances run, in the same address
/// space, and brings parcels back in the order in which they went. The queue calls it once
/// for each burst, and never has more than [`WINDOW`](crate::offload::WINDOW) packets away.
pub trait ParcelCarrier: Send {
    /// Sends a parcel. It names the last order that goes before it.
    ///
    /// # Errors
    /// The parcel, where there is no room.
    fn send(&mut self, parcel: Box<Parcel>) -> Result<(), Box<Parcel>>;

    /// Sends the answer to what a function asked for; false where one is under way already.
    fn answer(&mut self, parcel: Box<Parcel>) -> bool;

    /// What has come back.
    fn receive(&mut self) -> Option<Reply>;

    /// Sends an order.
    fn order(&mut self, order: Order);

    /// Number of the last order.
    fn last_order(&self) -> u32;

    /// Sends orders to the contexts of one function, by its number.
    fn context_orders(&self, function: u16) -> Box<dyn ContextOrders>;
}

/// What a worker tells a stage.
pub enum Order {
    /// Run these functions.
    Deploy(Vec<DeployedFunction>, Arc<Map>),
    /// Give them back.
    Recall,
    /// Give a context its settings.
    Configure {
        /// Number of the function.
        function: u16,
        /// Slot of the context.
        slot: u32,
        /// The settings.
        settings: Settings,
        /// Which of the users they were written for this is, from 0.
        nth: u32,
    },
    /// A context starts afresh.
    Release {
        /// Number of the function.
        function: u16,
        /// Slot of the context.
        slot: u32,
    },
}

/// What a stage has for a worker.
pub enum Reply {
    /// What was handled.
    Parcel(Box<Parcel>),
    /// Functions that come back.
    Recalled(Vec<DeployedFunction>),
}
