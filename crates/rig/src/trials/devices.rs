//! Closed trials of devices alone: what it costs to receive, and to transmit again.

use std::path::Path;
use std::time::{Duration, Instant};

use weft_dpdk::{Batch, Pool, Port, PortOptions, tsc};

use crate::Failure;
use crate::Rig;
use crate::machine::disturbance::Look;
use crate::machine::slices::{Measured, Slices};
use crate::setup::PACKETS;
use crate::trials::closed::{WARM_UP, taken};

/// Bursts between two looks at the clock.
const BURSTS_AT_ONCE: usize = 1000;
/// Packets of a burst.
const BURST: usize = 32;

/// What is done with packets, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// They are received and freed.
    Receive,
    /// They are received and transmitted.
    ReceiveAndTransmit,
}

impl Rig {
    /// Cycles that a step costs for each packet of `capture`, on the same devices and
    /// from as many buffers as the node of [`Rig::cost`]; see [`Spoilt`](crate::Spoilt)
    /// for what comes with it.
    ///
    /// # Errors
    /// When a device cannot be opened, or gives no packets.
    pub fn cost_of_step(
        &self,
        step: Step,
        capture: &Path,
        length: Duration,
    ) -> Result<(Measured, f64), Failure> {
        let devices = self.endless(&[capture.to_owned()]);
        let pool = Pool::new(self.eal, &format!("steps{}", self.serial()), PACKETS)?;
        let options = PortOptions { descriptors: devices.descriptors, ..PortOptions::default() };
        let access = Port::open(self.eal, &devices.access[0], &options, &pool)?;
        let core = Port::open(self.eal, &devices.core, &options, &pool)?;
        let queues = access.take_rx(0).zip(core.take_tx(0));
        let (mut rx, mut tx) = queues.ok_or("a device without queues")?;
        let mut batch = Batch::new();
        let mut burst = || {
            let received = rx.receive(&mut batch, BURST);
            match step {
                Step::Receive => batch.clear(),
                Step::ReceiveAndTransmit => {
                    tx.transmit(&mut batch);
                }
            }
            received as u64
        };
        let mut turn = move || (0..BURSTS_AT_ONCE).map(|_| burst()).sum::<u64>();
        self.on_core(self.cores.system, || {
            let end = Instant::now() + length.mul_f64(WARM_UP);
            while Instant::now() < end {
                turn();
            }
            let (slow, look) = (self.probe.slowness(), Look::now(self.cores.system)?);
            let (mut slices, end) = (Slices::of(length), Instant::now() + length);
            let mut at = tsc::now();
            while Instant::now() < end {
                let packets = turn();
                let now = tsc::now();
                slices.push(now.wrapping_sub(at), packets);
                at = now;
            }
            let between = look.since()?;
            let disturbance = taken(&between).max(slow).max(self.probe.slowness());
            let cost = slices
                .cost(between.disturbance())
                .ok_or("the device gives no packets: nothing to measure")?;
            Ok((cost, disturbance))
        })
    }
}
