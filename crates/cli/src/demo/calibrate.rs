//! Finds a rate that this machine keeps with ease.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use weft_dpdk::{Eal, Pool, Port, PortOptions};
use weft_traffic::{Direction, Endpoints, Expected, Receiver, Source, Template};

use crate::failure::Failure;

/// More is not needed to see how a node works.
const MOST: u64 = 1_000_000;
/// How long the source may send as fast as it can.
const TRIAL: Duration = Duration::from_millis(100);
/// Packets of the trial.
pub const PACKETS: u32 = 1023;
/// More packets per second than any machine sends.
const UNLIMITED: u64 = 1_000_000_000;

/// Packets per second: half of what a source sends to a receiver in the same
/// thread, or a quarter where that thread has to carry the node as well.
pub fn rate(eal: &Eal, threads: bool) -> Result<u64, Failure> {
    let loopback = loopback(eal)?;
    Ok((loopback / if threads { 2 } else { 4 }).clamp(1000, MOST))
}

fn loopback(eal: &Eal) -> Result<u64, Failure> {
    let pool = Pool::new(eal, "loopback", PACKETS)?;
    let open = || Port::open(eal, "ring:demo-loopback", &PortOptions::default(), &pool);
    let (near, far) = (open()?, open()?);
    let (Some(mut tx), Some(mut rx)) = (near.take_tx(0), far.take_rx(0)) else { return Ok(0) };
    let users = 1000;
    let endpoints = Endpoints {
        direction: Direction::Uplink,
        first_user: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        peer: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    };
    let (template, weights) = (Template::new(1, endpoints), vec![1; users as usize]);
    let mut source = Source::new(&template, &weights, UNLIMITED).map_err(Failure::broken)?;
    let mut receiver = Receiver::new([Expected::of(&template, users)]);
    let start = Instant::now();
    while start.elapsed() < TRIAL {
        source.send(&mut tx, &pool);
        receiver.receive(&mut rx);
    }
    Ok((receiver.streams()[0].received as f64 / start.elapsed().as_secs_f64()) as u64)
}
