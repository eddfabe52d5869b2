//! What a source reaches by itself on a memory device, one core, packets of 64
//! bytes with their check sequence: as fast as it can, for several kinds of load.
//! The best of some rounds is printed, as other programs disturb the others.
//!
//! `cargo run --release -p weft-traffic --example speed [DEVICE]`

use std::time::{Duration, Instant};

use weft_dpdk::{Eal, EalOptions, Pool, Port, PortOptions, tsc};
use weft_traffic::{Direction, Endpoints, Load, Rate, Selection, Sizes, Source, Template};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = std::env::args().nth(1).unwrap_or_else(|| "net_null0".to_owned());
    let eal = Eal::start(&EalOptions { memory_megabytes: 256, ..Default::default() })?;
    let _thread = eal.register_thread();
    let pool = Pool::new(eal, "speed", 4095)?;
    let port = Port::open(eal, &device, &PortOptions::default(), &pool)?;
    let mut tx = port.take_tx(0).ok_or("the port has no transmit queue")?;
    println!("{device}, 60 bytes in memory, {} MHz", tsc::hz() / 1_000_000);
    println!("{:<28} {:>8} {:>15}", "load", "Mpps", "cycles a packet");
    for (name, load) in loads() {
        let mut best: f64 = 0.0;
        for _ in 0..ROUNDS {
            let mut source = Source::of(&load)?;
            let start = Instant::now();
            while start.elapsed() < ROUND {
                for _ in 0..256 {
                    source.send(&mut tx, &pool);
                }
            }
            best = best.max(source.tally().sent as f64 / start.elapsed().as_secs_f64());
        }
        println!("{name:<28} {:>8.1} {:>15.1}", best / 1e6, tsc::hz() as f64 / best);
    }
    Ok(())
}

/// Loads that differ from the first in one thing each.
fn loads() -> Vec<(&'static str, Load)> {
    let load = |first_user: &str, peer: &str, users, bytes| {
        let endpoints = Endpoints {
            direction: Direction::Uplink,
            first_user: first_user.parse().expect("an address"),
            peer: peer.parse().expect("an address"),
        };
        let template = Template { sizes: Sizes::Fixed(bytes), ..Template::new(1, endpoints) };
        Load::constant(template, users, Rate::Unlimited)
    };
    let v4 = |users| load("10.0.0.1", "192.0.2.1", users, 60);
    let mut zipf = v4(1_000_000);
    zipf.shares[0].selection = Selection::Zipf(1.0);
    let mut paced = v4(1000);
    paced.rate = Rate::Packets(1e9);
    let mut imix = v4(1000);
    imix.shares[0].template.sizes = Sizes::Imix;
    vec![
        ("1,000 users", v4(1000)),
        ("1,000 users, paced", paced),
        ("1,000,000 users", v4(1_000_000)),
        ("1,000,000 users, Zipf", zipf),
        ("1,000 users, IPv6, 80 bytes", load("2001:db8::1", "2001:db8:1::1", 1000, 80)),
        ("1,000 users, IMIX", imix),
    ]
}
