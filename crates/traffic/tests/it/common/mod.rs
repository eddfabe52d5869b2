//! What tests over memory rings have in common.

use std::net::IpAddr;

use weft_dpdk::{Eal, EalOptions, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_traffic::{Direction, Endpoints, Expected, Receiver, Source, Template};

pub const STREAM: u16 = 7;

pub fn eal() -> &'static Eal {
    let options = EalOptions { memory_megabytes: 160, huge_pages: false, ..Default::default() };
    Eal::start(&options).expect("the environment starts")
}

/// A pool and both ends of the memory ring `name`.
pub fn ends(name: &str, descriptors: u16) -> (Pool, Port, Port) {
    let pool = Pool::new(eal(), "traffic", 4095).expect("there is memory for the pool");
    let options = PortOptions { descriptors, ..Default::default() };
    let device = format!("ring:{name}");
    let open = || Port::open(eal(), &device, &options, &pool).expect("an end is free");
    let (near, far) = (open(), open());
    (pool, near, far)
}

pub fn tx(port: &Port) -> TxQueue {
    port.take_tx(0).expect("a transmit queue")
}

pub fn rx(port: &Port) -> RxQueue {
    port.take_rx(0).expect("a receive queue")
}

pub fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub fn endpoints() -> Endpoints {
    Endpoints {
        direction: Direction::Downlink,
        first_user: address("10.0.0.1"),
        peer: address("192.0.2.1"),
    }
}

pub fn receiver(users: u32) -> Receiver {
    Receiver::new([Expected::of(&Template::new(STREAM, endpoints()), users)])
}

/// Sends at least `count` packets; `between` runs between bursts.
pub fn send(
    source: &mut Source,
    tx: &mut TxQueue,
    pool: &Pool,
    count: u64,
    mut between: impl FnMut(),
) {
    while source.tally().sent < count {
        source.send(tx, pool);
        between();
    }
}
