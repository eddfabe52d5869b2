//! Functions at other nodes: their place at a worker.

use std::any::Any;
use std::sync::Arc;

use weft_compose::{Burst, Instance, Kind, Outcome, Positions, Settings};
use weft_dpdk::{Annotations, Pool};
use weft_function::{ConfigError, ContextError, Scope, TunnelEnds, tags_written};
use weft_lane::{Lane, Options, Shared};

use super::Seats;
use crate::clock::Clock;
use crate::config::Blueprint;
use crate::plan::Trials;
use crate::service::Service;
use crate::service::remote::{self, Parts};

/// The place of a function whose contexts are at another node, which has users and
/// settings of its own. Packets never visit it here.
#[derive(Debug)]
struct Elsewhere {
    kind: &'static Kind,
    scope: Scope,
}

/// Makes the places of all functions at other nodes, for one worker; `service` gets what
/// carries their packets.
pub fn remote(
    blueprint: &Blueprint,
    trials: &Trials,
    service: &mut Service,
    (clock, pool): (&Clock, &Pool),
    seats: &mut Seats,
) {
    for (number, function) in blueprint.functions.iter().enumerate() {
        let Some(plan) = &function.remote else { continue };
        let shared = Arc::new(Shared::default());
        let (carriage, depot) = remote::new(Parts {
            plan,
            instance: &function.name,
            function: function.kind.name,
            mac: service.mac(plan.hop.port),
            names: service.names(),
            worker: service.worker as u16,
            clock: clock.clone(),
            shared: shared.clone(),
            pool: pool.clone(),
        });
        service.add(depot, plan);
        let writes = tags_written(function.kind.writes, &blueprint.tags);
        let lane = Lane::new(Box::new(carriage), Options { writes, policy: plan.policy, shared });
        let trial = trials.instance(number);
        let away = Elsewhere { kind: trial.kind(), scope: trial.scope() };
        seats.put(&function.name, service.worker, lane, Box::new(away));
    }
}

impl Instance for Elsewhere {
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
        Ok(())
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
