//! Ports of every kind, opened, used and closed.

use weft_dpdk::{Batch, Eal, EalOptions, Pool, Port, PortOptions};

fn eal() -> &'static Eal {
    Eal::start(&EalOptions { memory_megabytes: 128, huge_pages: false, ..Default::default() })
        .expect("the environment starts")
}

#[test]
fn a_memory_ring_carries_packets_both_ways() {
    let eal = eal();
    let pool = Pool::new(eal, "ring", 1023).unwrap();
    let a = Port::open(eal, "ring:both", &PortOptions::default(), &pool).unwrap();
    let b = Port::open(eal, "ring:both", &PortOptions::default(), &pool).unwrap();
    let third = Port::open(eal, "ring:both", &PortOptions::default(), &pool);
    assert!(third.unwrap_err().to_string().contains("both ends"));
    let mut batch = Batch::new();
    for (from, to, byte) in [(&a, &b, 1u8), (&b, &a, 2)] {
        batch.push(pool.packet(&[byte; 60]).unwrap()).unwrap();
        assert_eq!(from.take_tx(0).unwrap().transmit(&mut batch), 1);
        assert_eq!(to.take_rx(0).unwrap().receive(&mut batch, 32), 1);
        assert_eq!(batch[0].data(), [byte; 60]);
        batch.clear();
    }
    assert_eq!(b.statistics().rx_packets, 1);
    assert!(a.link().up);
    drop((a, b));
    assert_eq!(pool.available(), 1023);
}

#[test]
fn a_full_receive_queue_drops_and_counts() {
    let eal = eal();
    let pool = Pool::new(eal, "full", 255).unwrap();
    let options = PortOptions { descriptors: 31, ..Default::default() };
    let a = Port::open(eal, "ring:full", &options, &pool).unwrap();
    let b = Port::open(eal, "ring:full", &options, &pool).unwrap();
    let mut batch = Batch::new();
    assert!(pool.allocate_bulk(&mut batch, 40));
    assert_eq!(a.take_tx(0).unwrap().transmit(&mut batch), 40);
    assert_eq!(b.statistics().rx_missed, 9);
    assert_eq!(a.statistics().rx_missed, 0);
    assert_eq!(pool.available(), 255 - 31);
}

#[test]
fn a_null_device_delivers_without_end() {
    let eal = eal();
    let pool = Pool::new(eal, "null", 255).unwrap();
    let port = Port::open(eal, "net_null7,size=64", &PortOptions::default(), &pool).unwrap();
    let again = Port::open(eal, "net_null7", &PortOptions::default(), &pool);
    assert!(again.unwrap_err().to_string().contains("open already"));
    let mut batch = Batch::new();
    assert_eq!(port.take_rx(0).unwrap().receive(&mut batch, 32), 32);
    assert_eq!(batch[0].len(), 64);
    assert_eq!(port.take_tx(0).unwrap().transmit(&mut batch), 32);
}
