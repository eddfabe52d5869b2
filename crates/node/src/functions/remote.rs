//! Functions at other nodes: their place at a worker.

use std::sync::Arc;

use weft_dataplane::clock::Clock;
use weft_dataplane::offload::{Options, Placeholder, RemoteQueue, Shared};
use weft_dataplane::service_path::Service;
use weft_dpdk::Pool;
use weft_function::tags_written;
use weft_node_config::Blueprint;
use weft_offload::service_path::{self, Parts};

use super::FunctionQueues;
use crate::plan::Trials;

/// Makes the places of all functions at other nodes, for one worker; `service` gets what
/// carries their packets.
pub fn remote(
    blueprint: &Blueprint,
    trials: &Trials,
    service: &mut Service,
    (clock, pool): (&Clock, &Pool),
    queues: &mut FunctionQueues,
) {
    for (number, function) in blueprint.functions.iter().enumerate() {
        let Some(plan) = &function.remote else { continue };
        let shared = Arc::new(Shared::default());
        let (carriage, path) = service_path::new(Parts {
            plan,
            instance: &function.name,
            function: function.kind.name,
            mac: service.mac(plan.hop.port),
            names: service.names(),
            worker: service.worker as u8,
            clock: clock.clone(),
            shared: shared.clone(),
            pool: pool.clone(),
        });
        service.add_remote(path, plan);
        let writes = tags_written(function.kind.writes, &blueprint.tags);
        let remote_queue =
            RemoteQueue::new(Box::new(carriage), Options { writes, policy: plan.policy, shared });
        let away = Placeholder::absent(trials.instance(number));
        queues.put(&function.name, service.worker, remote_queue, Box::new(away));
    }
}
