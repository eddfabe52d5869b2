//! The rings between workers.

use weft_dataplane::transmit::Relay;
use weft_dpdk::numa::Near;
use weft_dpdk::{Consumer, Eal, Producer, Ring};
use weft_node_config::Blueprint;

use super::{CROSSING_RING, OpenPort, socket_of};
use crate::error::BuildError;

/// The rings between workers, taken out as the workers are made.
pub(super) struct Rings {
    /// `to[from][to]`; none at a worker's own number.
    pub(super) to: Vec<Vec<Option<Producer>>>,
    /// By the worker that takes out.
    pub(super) from: Vec<Vec<Consumer>>,
    /// For each worker and port: the ring to the worker that sends for it.
    pub(super) to_relay: Vec<Vec<Option<Producer>>>,
    /// By the worker that sends for others.
    pub(super) relays: Vec<Vec<Relay>>,
}

impl Rings {
    pub(super) fn new(
        eal: &Eal,
        blueprint: &Blueprint,
        ports: &[OpenPort],
    ) -> Result<Rings, BuildError> {
        let count = blueprint.workers.count;
        let mut rings = Rings {
            to: (0..count).map(|_| Vec::new()).collect(),
            from: (0..count).map(|_| Vec::new()).collect(),
            to_relay: (0..count).map(|_| Vec::new()).collect(),
            relays: (0..count).map(|_| Vec::new()).collect(),
        };
        for from in 0..count {
            for to in 0..count {
                let mut producer = None;
                if from != to {
                    let _near = Near::socket(socket_of(blueprint, to));
                    let (put, take) = Ring::new(eal, "crossing", CROSSING_RING)?;
                    producer = Some(put);
                    rings.from[to].push(take);
                }
                rings.to[from].push(producer);
            }
            for (number, open) in ports.iter().enumerate() {
                let queues = usize::from(open.tx_queues);
                let mut producer = None;
                if from >= queues {
                    let (put, take) = Ring::new(eal, "relay", CROSSING_RING)?;
                    producer = Some(put);
                    rings.relays[from % queues].push(Relay { port: number as u16, from: take });
                }
                rings.to_relay[from].push(producer);
            }
        }
        Ok(rings)
    }
}
