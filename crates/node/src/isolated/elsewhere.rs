//! Functions at other nodes: their place at a worker.

use std::sync::Arc;

use weft_dataplane::clock::Clock;
use weft_dataplane::offload::absent::Nobody;
use weft_dataplane::service_path::Service;
use weft_dataplane::service_path::remote::{self, Parts};
use weft_dpdk::Pool;
use weft_function::tags_written;
use weft_lane::{Lane, Options, Shared};
use weft_node_config::Blueprint;

use super::Seats;
use crate::plan::Trials;

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
        let away = Nobody::instead_of(trials.instance(number));
        seats.put(&function.name, service.worker, lane, Box::new(away));
    }
}
