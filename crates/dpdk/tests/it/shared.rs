//! A device that two processes have open at the same time, both of them in this process: what comes
//! goes to one of them, and to the other once that opens it.

use std::net::{Ipv4Addr, UdpSocket};

use crate::common::network::{in_own_network, ip, kernel_socket};
use crate::common::{eal, open, pool, queues, skipped, wait_until, waiting};
use weft_dpdk::{Holder, Pool, Port, PortOptions, RxQueue, may_steer};

const DATAGRAMS: usize = 50;

/// Sends datagrams; how many of them come to a queue.
fn come(socket: &UdpSocket, rx: &mut RxQueue) -> usize {
    for _ in 0..DATAGRAMS {
        socket.send_to(b"datagram", (Ipv4Addr::new(10, 0, 0, 2), 4000)).expect("the kernel sends");
    }
    let mut came = 0;
    let is_one = |frame: &&Vec<u8>| frame.ends_with(b"datagram");
    wait_until("they come", || {
        came += waiting(rx).iter().filter(is_one).count();
        came >= DATAGRAMS
    });
    came
}

/// Opens `weft0`, which another port has, as another process does.
fn beside(device: &str, pool: &Pool, mac: [u8; 6]) -> Port {
    let options = PortOptions { is_beside: true, mac: Some(mac), ..PortOptions::default() };
    Port::open(eal(), device, &options, pool).expect("it opens")
}

#[test]
fn what_comes_to_a_tap_device_goes_to_one_of_two_processes() {
    const NAME: &str = "shared::what_comes_to_a_tap_device_goes_to_one_of_two_processes";
    if !std::path::Path::new("/dev/net/tun").exists() {
        return skipped(NAME, "there is no /dev/net/tun");
    }
    in_own_network(NAME, || {
        if !may_steer() {
            return skipped(NAME, "no right to load programs (CAP_BPF)");
        }
        let pool = pool(16383);
        let old = open("net_tap0,iface=weft0", &pool);
        let socket = kernel_socket("weft0");
        wait_until("the link is up", || old.link().up);
        let (mut old_rx, _tx) = queues(&old);
        assert!(old.admits_another());
        let of_old = old.ingress(Holder::First).expect("it is found").expect("it has one");

        let new = beside("net_tap1,iface=weft0", &pool, [2, 0, 0, 0, 0, 1]);
        let (mut new_rx, _tx) = queues(&new);
        let of_new = new.ingress(Holder::Second).expect("it is found").expect("it has one");
        assert!(!of_new.copies());
        assert_eq!(come(&socket, &mut old_rx), DATAGRAMS);
        assert!(waiting(&mut new_rx).is_empty(), "nothing comes before it opens");

        of_new.open().expect("it opens");
        assert_eq!(come(&socket, &mut new_rx), DATAGRAMS);
        of_old.shut().expect("it shuts");
        assert!(waiting(&mut old_rx).is_empty());

        // The old one goes on, and the new one goes.
        of_old.open().expect("it opens");
        assert_eq!(come(&socket, &mut old_rx), DATAGRAMS);
        drop((new, new_rx, of_new));
        assert_eq!(come(&socket, &mut old_rx), DATAGRAMS);
        assert!(old.link().up, "the interface stays as it is");

        let next = beside("net_tap2,iface=weft0", &pool, [2, 0, 0, 0, 0, 1]);
        assert_eq!(come(&socket, &mut old_rx), DATAGRAMS);
        next.own();
        drop(next);
        wait_until("what is its own is closed", || !old.link().up);
    });
}

#[test]
fn what_is_not_plain_tap_is_not_shared() {
    const NAME: &str = "shared::what_is_not_plain_tap_is_not_shared";
    if !std::path::Path::new("/dev/net/tun").exists() {
        return skipped(NAME, "there is no /dev/net/tun");
    }
    in_own_network(NAME, || {
        let pool = pool(16383);
        let two = PortOptions { rx_queues: 2, tx_queues: 2, ..PortOptions::default() };
        let port = Port::open(eal(), "net_tap0,iface=weft0", &two, &pool).expect("it opens");
        assert!(!port.admits_another(), "of several queues");
        assert!(port.ingress(Holder::First).expect("none is looked for").is_none());
        let nothing = open("net_null0", &pool);
        assert!(!nothing.admits_another());
        ip("link delete weft0");
    });
}
