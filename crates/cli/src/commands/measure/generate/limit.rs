//! What the generator reaches by itself.

use std::time::{Duration, Instant};

use weft_dpdk::{Eal, Pool, Port, PortOptions};
use weft_traffic::{Load, Profile, Rate, Source};

use crate::failure::Failure;

/// A memory device that takes all packets and forgets them.
const DEVICE: &str = "net_null_limit";
const PACKETS: u32 = 1023;
/// How long it sends as fast as it can.
const TRIAL: Duration = Duration::from_millis(100);

/// Packets per second that the first source makes on a memory device, one core.
///
/// # Errors
/// When there is no memory for it.
pub fn packets_per_second(eal: &Eal, profile: &Profile) -> Result<f64, Failure> {
    let pool = Pool::new(eal, "limit", PACKETS)?;
    let port = Port::open(eal, DEVICE, &PortOptions::default(), &pool)?;
    let (Some(mut tx), Some(plan)) = (port.take_tx(0), profile.sources.first()) else {
        return Ok(0.0);
    };
    let load = Load { rate: Rate::Unlimited, ..plan.load.clone() };
    let mut source = Source::of(&load).map_err(Failure::input)?;
    let start = Instant::now();
    while start.elapsed() < TRIAL {
        for _ in 0..64 {
            source.send(&mut tx, &pool);
        }
    }
    Ok(source.tally().sent as f64 / start.elapsed().as_secs_f64())
}
