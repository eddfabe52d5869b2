//! A function that is not at hand.

use std::any::Any;

use weft_compose::{Burst, Instance, Kind, Outcome, Positions, Settings};
use weft_dpdk::{Annotations, Pool};
use weft_function::{ConfigError, ContextError, Scope, TunnelEnds};

/// Stands where a worker has a function whose contexts are at another node, or that the agent
/// has in its hands. Packets never visit it.
#[derive(Debug)]
pub struct Nobody {
    kind: &'static Kind,
    scope: Scope,
}

impl Nobody {
    /// In the place of this one.
    pub fn instead_of(instance: &dyn Instance) -> Nobody {
        Nobody { kind: instance.kind(), scope: instance.scope() }
    }
}

impl Instance for Nobody {
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

    fn configure(&mut self, _: u32, _: &Settings, _: u32) {}

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

    fn release(&mut self, _: u32) {}

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
