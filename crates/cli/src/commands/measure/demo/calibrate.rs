//! Finds a rate that this machine keeps with ease.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use weft_dpdk::{Eal, Pool, Port, PortOptions};
use weft_traffic::{Direction, Endpoints, Expected, Receiver, Source, Tally, Template};

use super::run::{self, Course};
use super::scene::Scene;
use crate::failure::Failure;

/// More is not needed to see how a node works.
const MOST: u64 = 1_000_000;
/// Less than this is not tried: a machine that does not keep it keeps no rate, as other programs
/// have its cores.
const ENOUGH: u64 = 50_000;
/// The part of the packets of a trial that may be left unsent.
const UNSENT: f64 = 0.001;
/// How long a trial takes.
const TRIAL: Duration = Duration::from_millis(100);
/// Packets of the trial.
pub const PACKETS: u32 = 1023;
/// More packets per second than any machine sends.
const UNLIMITED: u64 = 1_000_000_000;

/// Packets per second that the sender keeps through the node of a `scene`. It begins with half
/// of what a source sends to a receiver in the same thread, or a quarter where that thread has
/// to carry the node as well, and halves that until a trial leaves next to nothing unsent.
///
/// # Errors
/// What the machine lacks.
pub fn rate(
    eal: &'static Eal,
    threads: bool,
    scene: impl Fn(u64) -> Scene,
) -> Result<u64, Failure> {
    let loopback = loopback(eal)?;
    let mut rate = (loopback / if threads { 2 } else { 4 }).clamp(1000, MOST);
    let course = Course { duration: TRIAL, threads };
    while rate / 2 >= ENOUGH {
        let outcome = run::trial(eal, &scene(rate), &course)?;
        let sum = |field: fn(&Tally) -> u64| -> u64 {
            outcome.streams.iter().map(|(tally, _)| field(tally)).sum()
        };
        let unsent = sum(Tally::unsent) as f64 / sum(Tally::offered).max(1) as f64;
        if unsent <= UNSENT {
            break;
        }
        rate /= 2;
    }
    Ok(rate)
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
