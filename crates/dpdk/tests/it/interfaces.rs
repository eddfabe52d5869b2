//! Ports on interfaces of the kernel: TAP, AF_PACKET and AF_XDP, each in a
//! network namespace of its own. Frames pass both ways; the link follows the
//! interface, and a port whose interface is gone does no harm.

use std::io::ErrorKind;

use crate::common::network::{
    exchange, frame, frame6, in_own_network, ip, kernel_socket, kernel_socket6, veth,
    with_af_packet, with_af_xdp,
};
use crate::common::{eal, open, pool, queues, skipped, wait_until, waiting};
use weft_dpdk::{
    Batch, Checksums, FlowField, FlowLevel, FlowMatch, FlowRule, Pool, Port, PortOptions, RxQueue,
    Steering, SteeringKey, SteeringRun, TxQueue, devices_sum_udp,
};

/// Opens a port on an interface that the kernel talks to as `kernel_side`. The
/// driver may keep up to `kept` packets when the port is closed.
fn carries_frames_and_follows_its_link(device: &str, kernel_side: &str, kept: u32) {
    let pool = pool(8191);
    let port = open(device, &pool);
    let socket = kernel_socket(kernel_side);
    wait_until("the link is up", || port.link().up);
    let (mut rx, mut tx) = queues(&port);
    exchange(&socket, &mut rx, &mut tx, &pool);
    let counted = port.statistics();
    assert!(counted.rx_packets >= 100, "{counted:?}");
    assert_eq!(counted.tx_packets, 100, "{counted:?}");
    assert_eq!((counted.rx_missed, counted.rx_errors, counted.tx_errors), (0, 0, 0));

    ip(&format!("link set {kernel_side} down"));
    wait_until("the link is down with the interface", || !port.link().up);
    ip(&format!("link set {kernel_side} up"));
    wait_until("the link is up again", || port.link().up);
    assert!(!port.is_gone() && !tx.is_gone(), "a link that is down is no device that is gone");

    ip(&format!("link delete {kernel_side}"));
    wait_until("the link is down without the interface", || !port.link().up);
    assert!(port.is_gone() && tx.is_gone(), "queues know that the device is gone");
    assert_eq!(port.may_return(), !device.starts_with("net_tap"), "{device}");
    survives_without_interface(&port, &mut rx, &mut tx, &pool);
    drop((port, rx, tx));
    assert!(pool.available() >= pool.size() - kept, "{} of {}", pool.available(), pool.size());
}

fn survives_without_interface(port: &Port, rx: &mut RxQueue, tx: &mut TxQueue, pool: &Pool) {
    let mut batch = Batch::new();
    for _ in 0..1000 {
        batch.push(pool.packet(&frame(b"no listener...")).unwrap()).unwrap();
        tx.transmit(&mut batch);
        batch.clear();
        rx.receive(&mut batch, 32);
        batch.clear();
    }
    ip("link add w8 type veth peer name w9");
    assert!(!port.link().up, "another interface is not this one");
}

#[test]
fn tap() {
    if !std::path::Path::new("/dev/net/tun").exists() {
        return skipped("interfaces::tap", "there is no /dev/net/tun");
    }
    in_own_network("interfaces::tap", || {
        carries_frames_and_follows_its_link("net_tap0,iface=weft0", "weft0", 0)
    });
}

/// The driver of TAP makes filters of the kernel of flow rules, where the kernel has them. Where it
/// has none, the port is as any other, and says no to a rule.
#[test]
fn tap_has_the_flow_rules_that_the_kernel_has() {
    if !std::path::Path::new("/dev/net/tun").exists() {
        return skipped("interfaces::tap_has_flow_rules", "there is no /dev/net/tun");
    }
    in_own_network("interfaces::tap_has_the_flow_rules_that_the_kernel_has", || {
        let pool = pool(8191);
        let options =
            PortOptions { rx_queues: 2, tx_queues: 2, flow_rules: true, ..Default::default() };
        let port = Port::open(eal(), "net_tap0,iface=weft0", &options, &pool).expect("it opens");
        let socket = kernel_socket("weft0");
        wait_until("the link is up", || port.link().up);
        let taking = port.flow_support().of(FlowField::DestinationIpv4);
        let rule = |last: u8, queue| {
            let value = u32::from_be_bytes([10, 0, 0, last]).into();
            let of = FlowMatch::exactly(FlowField::DestinationIpv4, value);
            FlowRule { of, queue, level: FlowLevel::First }
        };
        let mut rules = Vec::new();
        for (last, queue) in [(2, 1), (3, 0)] {
            match (port.add_flow(&rule(last, queue)), taking) {
                (Ok(id), Some(_)) => rules.push(id),
                (Err(refusal), None) => assert!(!refusal.to_string().is_empty()),
                (answer, taking) => panic!("{answer:?} where it takes {taking:?}"),
            }
        }
        if taking.is_none() {
            skipped("interfaces::tap_has_flow_rules", "the kernel lacks what TAP makes of them");
        }
        let mut queues = [port.take_rx(0).unwrap(), port.take_rx(1).unwrap()];
        let mut seen = [0; 2];
        for number in 0..50_u32 {
            socket.send_to(&number.to_be_bytes(), "10.0.0.2:4000").unwrap();
        }
        wait_until("all datagrams are received", || {
            for (queue, seen) in queues.iter_mut().zip(&mut seen) {
                *seen += waiting(queue).iter().filter(|frame| frame[36..38] == [15, 160]).count();
            }
            seen.iter().sum::<usize>() >= 50
        });
        if taking.is_some() {
            assert_eq!(seen, [0, 50]);
        }
        for id in rules {
            port.remove_flow(id).expect("it gives the rule back");
            port.remove_flow(id).expect("it does not have it");
        }
        port.clear_flows();
        // Without being asked for, none are tried.
        drop((queues, port));
        let port = open("net_tap1,iface=weft1", &pool);
        assert!(port.flow_support().is_none());
        assert!(port.add_flow(&rule(2, 0)).is_err());
    });
}

/// The driver of TAP sums in software, so it is a device of which any machine has one.
#[test]
fn tap_sums_what_it_is_asked_to() {
    if !std::path::Path::new("/dev/net/tun").exists() {
        return skipped("interfaces::tap_sums", "there is no /dev/net/tun");
    }
    in_own_network("interfaces::tap_sums_what_it_is_asked_to", || {
        let pool = pool(8191);
        let auto = open("net_tap0,iface=soft0", &pool);
        assert!(auto.offloads().is_empty() && !devices_sum_udp(), "software is no offload");
        drop(auto);
        let options = PortOptions { checksums: Checksums::Device, ..Default::default() };
        let port = Port::open(eal(), "net_tap1,iface=weft0", &options, &pool).expect("it opens");
        assert_eq!(port.offloads(), ["sums UDP"]);
        let (mut rx, mut tx) = queues(&port);
        assert!(tx.sums_udp() && devices_sum_udp());
        let socket = kernel_socket("weft0");
        wait_until("the link is up", || port.link().up);

        // Over IPv6 the kernel takes no datagram without a checksum (RFC 8200 section 8.1).
        let socket6 = kernel_socket6("weft0");
        for length in [0, 1, 2, 33, 1400] {
            let payload = vec![length as u8; length];
            let mut packet = pool.packet(&frame6(&payload)).expect("there is a buffer");
            packet.ask_for_udp_checksum(14, 40, false);
            let mut batch = Batch::new();
            batch.push(packet).expect("there is room");
            wait_until("it is taken", || tx.transmit(&mut batch) == 1);
            let mut buffer = [0; 2048];
            let count = loop {
                match socket6.recv(&mut buffer) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    got => break got.expect("the kernel finds the checksum right"),
                }
            };
            assert_eq!(buffer[..count], payload[..]);
        }
        exchange(&socket, &mut rx, &mut tx, &pool);
        drop((rx, tx, port));
        assert!(!devices_sum_udp(), "no device is left that sums");
    });
}

#[test]
fn af_packet() {
    with_af_packet("interfaces::af_packet", || {
        veth("w0", "w1");
        let ring = "framesz=2048,framecnt=4096,blocksz=4096";
        carries_frames_and_follows_its_link(&format!("net_af_packet0,iface=w0,{ring}"), "w1", 0);
    });
}

/// What the kernel drops in front of a full ring is counted: the driver knows nothing of it.
#[test]
fn af_packet_counts_what_the_kernel_drops() {
    with_af_packet("interfaces::af_packet_counts_what_the_kernel_drops", || {
        veth("w0", "w1");
        let pool = pool(8191);
        let port = open("net_af_packet0,iface=w0,framesz=2048,framecnt=64,blocksz=4096", &pool);
        let socket = kernel_socket("w1");
        for number in 0..1000_u32 {
            socket.send_to(&number.to_be_bytes(), "10.0.0.2:4000").unwrap();
        }
        wait_until("the kernel has dropped", || port.statistics().rx_missed >= 900);
        let (mut rx, _) = queues(&port);
        let mut batch = Batch::new();
        let mut received = 0;
        wait_until("the rest is received", || {
            rx.receive(&mut batch, 32);
            received += batch.len() as u64;
            batch.clear();
            received + port.statistics().rx_missed >= 1000
        });
        // Beside ours the kernel may say something of its own.
        let counted = port.statistics();
        assert!(received >= 60 && received + counted.rx_missed < 1050, "{received} {counted:?}");
        assert_eq!(port.statistics().rx_missed, counted.rx_missed, "none is counted twice");
    });
}

/// The kernel puts each packet into the queue of its user, and others into either.
#[test]
fn af_packet_steers_users_to_queues() {
    with_af_packet("interfaces::af_packet_steers_users_to_queues", || {
        veth("w0", "w1");
        let pool = pool(16_383);
        let run = |key, first, queue| SteeringRun { key, first, count: 50, queue };
        let runs = vec![run(SteeringKey::Teid, 100, 1), run(SteeringKey::DestinationIpv4, 0, 0)];
        let steering = Some(Steering { queues: 2, first: 0, of_source: false, runs });
        let ring = "framesz=2048,framecnt=512,blocksz=4096";
        let device = format!("net_af_packet0,iface=w0,{ring}");
        let options = PortOptions { rx_queues: 2, tx_queues: 2, steering, ..Default::default() };
        let port = Port::open(eal(), &device, &options, &pool).expect("the device opens");
        assert!(port.spreading().to_string().starts_with("a program"), "{:?}", port.spreading());
        let socket = kernel_socket("w1");
        for teid in 100..150_u32 {
            let mut message = vec![0x30, 255, 0, 4];
            message.extend(teid.to_be_bytes());
            message.extend([0; 4]);
            socket.send_to(&message, "10.0.0.2:2152").unwrap();
        }
        let mut queues = [port.take_rx(0).unwrap(), port.take_rx(1).unwrap()];
        let mut seen = 0;
        wait_until("all messages are received", || {
            for (number, queue) in queues.iter_mut().enumerate() {
                for frame in waiting(queue).iter().filter(|frame| frame[36..38] == [8, 104]) {
                    let teid = u32::from_be_bytes(frame[46..50].try_into().unwrap());
                    assert_eq!(number as u32, (1 + teid - 100) % 2);
                    seen += 1;
                }
            }
            seen >= 50
        });
        assert_eq!(seen, 50);
        let names: Vec<_> = port.extended_statistics().into_iter().collect();
        assert!(names.iter().any(|(name, value)| name == "rx_good_packets" && *value >= 50));
    });
}

#[test]
fn af_packet_loses_nothing_with_the_default_ring() {
    with_af_packet("interfaces::af_packet_loses_nothing_with_the_default_ring", || {
        veth("w0", "w1");
        let pool = pool(8191);
        let port = open("net_af_packet0,iface=w0", &pool);
        let socket = kernel_socket("w1");
        // Six times what the driver's own ring holds waits to be received.
        for number in 0..3000_u32 {
            socket.send_to(&number.to_be_bytes(), "10.0.0.2:4000").unwrap();
        }
        let (mut rx, _) = queues(&port);
        let mut expected = 0;
        for frame in waiting(&mut rx).iter().filter(|frame| frame[12..14] == [8, 0]) {
            let number = u32::from_be_bytes(frame[42..46].try_into().unwrap());
            assert_eq!(number, expected);
            expected += 1;
        }
        assert_eq!(expected, 3000);
    });
}

#[test]
fn af_xdp() {
    with_af_xdp("interfaces::af_xdp", || {
        veth("w0", "w1");
        // What lies in the kernel's rings is lost to the driver: 2,048 packets to
        // receive into, and here the 1,000 that nothing transmitted.
        carries_frames_and_follows_its_link("net_af_xdp0,iface=w0", "w1", 3048);
    });
}

/// What ethtool(8) says to these words; none where there is no such program.
fn ethtool(words: &[&str]) -> Option<String> {
    let output = std::process::Command::new("ethtool").args(words).output().ok()?;
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The receive queues that an interface has, behind those that it may have.
fn receive_queues(interface: &str) -> usize {
    let said = ethtool(&["-l", interface]).expect("it runs");
    let mut numbers = said.lines().filter_map(|line| line.strip_prefix("RX:")?.trim().parse().ok());
    numbers.next_back().expect("it has some")
}

/// AF_XDP has one of four queues of an interface: the others are taken away while it does, as what
/// comes to them would not reach the port.
#[test]
fn an_interface_has_the_queues_that_af_xdp_polls() {
    with_af_xdp("interfaces::an_interface_has_the_queues_that_af_xdp_polls", || {
        if ethtool(&["--version"]).is_none() {
            return skipped("interfaces::an_interface_has_the_queues", "there is no ethtool");
        }
        ip(
            "link add w0 numrxqueues 4 numtxqueues 4 type veth peer name w1 numrxqueues 1 numtxqueues 1",
        );
        ip("link set w0 up");
        ip("link set w1 up");
        let device = "net_af_xdp0,iface=w0";
        let can = Port::capabilities(eal(), device, &PortOptions::default()).expect("it answers");
        assert_eq!(can.channels.as_deref(), Some("w0 receives by 4 queues: ethtool -L w0 rx 1"));
        assert!(can.changes_channels);
        assert_eq!(receive_queues("w0"), 4, "asking changes nothing");

        let pool = pool(8191);
        let port = open(device, &pool);
        assert_eq!(receive_queues("w0"), 1);
        let socket = kernel_socket("w1");
        let (mut rx, mut tx) = queues(&port);
        exchange(&socket, &mut rx, &mut tx, &pool);
        drop((port, rx, tx));
        assert_eq!(receive_queues("w0"), 4, "they are put back");

        let two = PortOptions { rx_queues: 2, ..PortOptions::default() };
        let refused = Port::open(eal(), device, &two, &pool).expect_err("veth has none combined");
        assert!(refused.to_string().contains("combined channels"), "{refused}");
        assert_eq!(receive_queues("w0"), 4);
    });
}

/// Sockets of AF_PACKET get what comes to any queue, so that it is only said that more are faster.
#[test]
fn the_queues_of_an_interface_are_not_changed_for_af_packet() {
    with_af_packet("interfaces::the_queues_of_an_interface_are_not_changed_for_af_packet", || {
        ip("link add w0 numrxqueues 4 numtxqueues 4 type veth peer name w1");
        // Fewer than it has, and more than it can have.
        for queues in [2, 6] {
            let options = PortOptions { rx_queues: queues, ..PortOptions::default() };
            let can = Port::capabilities(eal(), "net_af_packet0,iface=w0", &options);
            assert_eq!(can.expect("it answers").channels, None, "{queues}");
        }
        ip("link add w2 numrxqueues 1 type veth peer name w3 numrxqueues 4");
        let two = PortOptions { rx_queues: 2, ..PortOptions::default() };
        if ethtool(&["-L", "w3", "rx", "1"]).is_none() {
            return skipped("interfaces::the_queues_of_an_interface", "there is no ethtool");
        }
        let can = Port::capabilities(eal(), "net_af_packet0,iface=w3", &two).expect("it answers");
        assert_eq!(can.channels.as_deref(), Some("w3 receives by 1 queue: ethtool -L w3 rx 2"));
        assert!(!can.changes_channels);
        assert_eq!(receive_queues("w3"), 1);
    });
}

#[test]
fn an_interface_made_anew_opens_again() {
    with_af_packet("interfaces::an_interface_made_anew_opens_again", || {
        let pool = pool(8191);
        for _ in 0..3 {
            veth("w0", "w1");
            let port = open("net_af_packet0,iface=w0", &pool);
            let socket = kernel_socket("w1");
            let (mut rx, mut tx) = queues(&port);
            exchange(&socket, &mut rx, &mut tx, &pool);
            ip("link delete w0");
        }
        assert_eq!(pool.available(), pool.size());
    });
}
