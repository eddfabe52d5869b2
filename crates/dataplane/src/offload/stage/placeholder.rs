//! What stands for a function in its worker while a stage has the instance.

use std::any::Any;

use weft_compose::{Burst, Instance, Kind, Outcome, Positions, Settings};
use weft_dpdk::{Annotations, Pool};
use weft_function::{ConfigError, ContextError, Scope, TunnelEnds};

use super::Order;
use super::lane::Orders;

/// The place of a function that is lent. Settings and the end of a context are passed
/// on as orders; all else is done only while the instance is at hand.
pub(crate) struct Placeholder {
    pub(crate) kind: &'static Kind,
    pub(crate) scope: Scope,
    pub(crate) function: u16,
    pub(crate) orders: Orders,
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

    fn check(&self, _: &Settings, _: u32) -> Result<(), ConfigError> {
        Ok(())
    }

    fn configure(&mut self, slot: u32, settings: &Settings, nth: u32) {
        let (function, settings) = (self.function, settings.clone());
        self.orders.send(Order::Configure { function, slot, settings, nth });
    }

    fn tunnels(&self, _: &Settings, _: u32) -> TunnelEnds {
        TunnelEnds::new()
    }

    fn end_tunnels(
        &mut self,
        _: u32,
        _: (&Settings, u32),
        _: &[Annotations; 2],
        _: &Pool,
        _: &mut Outcome,
    ) {
    }

    fn release(&mut self, slot: u32) {
        self.orders.send(Order::Release { function: self.function, slot });
    }

    fn export(&self, _: u32, _: u64, _: &mut Vec<u8>) {}

    fn import(&mut self, _: u32, _: u64, _: &[u8]) -> Result<(), ContextError> {
        Err(ContextError::Damaged)
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
