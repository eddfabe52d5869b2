//! What stands in a worker for a function whose contexts are elsewhere.

use std::any::Any;
use std::fmt::Debug;

use weft_compose::{Burst, Instance, Kind, Outcome, Positions, Settings};
use weft_dpdk::Pool;
use weft_function::{ConfigError, ContextError, PacketMetadata, Scope, TunnelEnds};

/// Takes changes of contexts to where they are, behind all that was given before.
pub trait ContextOrders: Debug + Send {
    /// Gives a context its settings.
    fn configure(&self, slot: u32, settings: &Settings, nth: u32);

    /// A context starts afresh.
    fn release(&self, slot: u32);

    /// Gives a context what another node exported.
    ///
    /// # Errors
    /// [`ContextError`] where contexts are not taken.
    fn import(&self, _slot: u32, _octets: &[u8]) -> Result<(), ContextError> {
        Err(ContextError::Damaged)
    }
}

/// The place of a function that is elsewhere. Packets never visit it: a
/// [`RemoteQueue`](super::RemoteQueue) takes them to where the function is. Changes of
/// contexts are passed on where the function takes orders; all else is done only while the
/// instance is at hand.
#[derive(Debug)]
pub struct Placeholder {
    kind: &'static Kind,
    scope: Scope,
    orders: Option<Box<dyn ContextOrders>>,
}

impl Placeholder {
    /// In the place of a function of that kind and scope, which takes orders.
    pub fn new(kind: &'static Kind, scope: Scope, orders: Box<dyn ContextOrders>) -> Placeholder {
        Placeholder { kind, scope, orders: Some(orders) }
    }

    /// In the place of an instance whose contexts are at another node, or in the hands of
    /// the agent.
    pub fn absent(instance: &dyn Instance) -> Placeholder {
        Placeholder { kind: instance.kind(), scope: instance.scope(), orders: None }
    }
}

impl Instance for Placeholder {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn visit(&mut self, _: &mut Burst, _: Positions, _: &mut Outcome) {}

    fn timer(&mut self, _: u32, _: u64, _: &Pool, _: &mut Outcome) {}

    /// Settings are checked by an instance on trial.
    fn check(&self, _: &Settings, _: u32) -> Result<(), ConfigError> {
        Ok(())
    }

    fn configure(&mut self, slot: u32, settings: &Settings, nth: u32) {
        if let Some(orders) = &self.orders {
            orders.configure(slot, settings, nth);
        }
    }

    fn tunnels(&self, _: &Settings, _: u32) -> TunnelEnds {
        TunnelEnds::new()
    }

    /// What the context holds is not at hand here, so no tunnel is told its end.
    fn end_tunnels(
        &mut self,
        _: u32,
        _: (&Settings, u32),
        _: &[PacketMetadata; 2],
        _: &Pool,
        _: &mut Outcome,
    ) {
    }

    fn release(&mut self, slot: u32) {
        if let Some(orders) = &self.orders {
            orders.release(slot);
        }
    }

    /// What the function holds is not at hand here: the agent asks for it where it is.
    fn export(&self, _: u32, _: u64, _: &mut Vec<u8>) {}

    fn import(&mut self, slot: u32, _: u64, octets: &[u8]) -> Result<(), ContextError> {
        match &self.orders {
            Some(orders) => orders.import(slot, octets),
            None => Err(ContextError::Damaged),
        }
    }

    fn adopt(&mut self, _: &mut dyn Instance) -> bool {
        false
    }

    fn show(&self, _: u32) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
