//! What cannot be opened is said in one clear line.

use crate::common::network::{veth, with_af_xdp};
use crate::common::process::{alone, as_unprivileged, is_root};
use crate::common::{eal, open, pool, skipped};
use weft_dpdk::{Eal, EalOptions, Pool, Port, PortOptions};

/// The line for `device`.
fn refusal(device: &str, pool: &Pool) -> String {
    let refused = Port::open(eal(), device, &PortOptions::default(), pool);
    let line = refused.expect_err(device).to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

#[track_caller]
fn assert_refused(device: &str, why: &str) {
    assert_eq!(refusal(device, &pool(63)), format!("device \"{device}\": {why}"));
}

#[test]
fn unknown_devices_and_drivers() {
    let unknown = "no driver for it; known are net_null, net_pcap, net_tap, net_af_packet, \
                   net_af_xdp and ring:NAME";
    for device in ["", "eth0", "net_foo0", "net_foo0,iface=lo", "null", ","] {
        assert_refused(device, unknown);
    }
    assert_refused(
        "0000:fe:1f.7",
        "not found (No such device (os error 19)); it must be given to the environment and be bound \
         to a driver that DPDK can use, such as vfio-pci",
    );
    // No other test opens this one.
    assert_refused("crypto_null7", "not an Ethernet device");
    assert_refused("net_null0\0", "not a device string");
    assert_refused("ring:", "a memory ring has a name, as in ring:north");
}

#[test]
fn missing_interfaces() {
    for driver in ["net_af_packet3", "net_af_xdp3"] {
        assert_refused(
            &format!("{driver},iface=nothing0"),
            "there is no network interface nothing0",
        );
    }
    let long = "a-name-that-no-interface-can-have";
    assert_refused(
        &format!("net_af_packet3,iface={long}"),
        &format!("there is no network interface {long}"),
    );
}

#[test]
fn bad_arguments() {
    for (device, why) in [
        ("net_null5,sizes=64", "net_null has no argument sizes; it has size, copy, no-rx"),
        ("net_null5,size=large", "size=large is not a number"),
        ("net_tap5,ifcae=a", "net_tap has no argument ifcae; it has iface, remote, mac, persist"),
        ("net_af_packet5", "net_af_packet needs iface"),
        ("net_af_packet5,iface=", "net_af_packet needs iface"),
        ("net_af_packet5,iface=lo,framesz=big", "framesz=big is not a number"),
        ("net_pcap5", "net_pcap needs rx_pcap or tx_pcap or rx_iface or tx_iface or iface"),
        (
            "net_pcap5,rx_pcap=/nowhere/a.pcap",
            "DPDK refused it (Couldn't open /nowhere/a.pcap: /nowhere/a.pcap: No such file or \
             directory)",
        ),
        (
            "net_pcap5,tx_pcap=/nowhere/a.pcap",
            "DPDK refused it (Couldn't open /nowhere/a.pcap for writing.)",
        ),
    ] {
        assert_refused(device, why);
    }
}

#[test]
fn bad_options() {
    let pool = pool(63);
    let refusal =
        |device, options| Port::open(eal(), device, &options, &pool).unwrap_err().to_string();
    for mtu in [0, 67, 9001, u16::MAX] {
        let options = PortOptions { mtu, ..Default::default() };
        let why = format!("device \"net_null6\": an MTU of {mtu} is not within 68..=9000");
        assert_eq!(refusal("net_null6", options), why);
    }
    let jumbo = PortOptions { mtu: 2027, ..Default::default() };
    let why = "device \"net_null6\": an MTU of 2027 where buffers hold 2026 bytes";
    assert_eq!(refusal("net_null6", jumbo), why);
    let options = PortOptions { rx_queues: 17, ..Default::default() };
    let why = "device \"ring:many\": a memory ring has at most 16 queues";
    assert_eq!(refusal("ring:many", options), why);
}

#[test]
fn a_device_that_is_open() {
    let pool = pool(255);
    let port = open("net_null9", &pool);
    assert_refused("net_null9", "net_null9 is open already; give this one another number");
    drop(port);
    open("net_null9", &pool);
    let ends = [open("ring:taken", &pool), open("ring:taken", &pool)];
    assert_refused("ring:taken", "both ends of this ring are open already");
    drop(ends);
    open("ring:taken", &pool);
}

#[test]
fn a_device_that_fails_halfway_can_be_opened_later() {
    let file = crate::common::Scratch::new("halfway.pcap");
    std::fs::write(&file.0, crate::common::capture::of(&vec![vec![1; 60]; 100])).unwrap();
    let device = format!("net_pcap9,rx_pcap={},infinite_rx=1", file.0.display());
    assert_refused(
        &device,
        "DPDK refused a receive queue: Invalid argument (os error 22) (Not enough mbufs to \
         accommodate packets in pcap file. At least 100 mbufs per queue is required.)",
    );
    open(&device, &pool(255));
}

#[test]
fn no_permission() {
    as_unprivileged("refusals::no_permission", || {
        for device in ["net_af_packet0,iface=lo", "net_tap0,iface=weft0", "net_af_xdp0,iface=lo"] {
            let why = "no permission; run as root or with CAP_NET_ADMIN and CAP_NET_RAW";
            let line = refusal(device, &pool(4095));
            assert_eq!(line, format!("device \"{device}\": {why}"));
        }
    });
}

#[test]
fn rings_that_cannot_be_locked() {
    let name = "refusals::rings_that_cannot_be_locked";
    if !is_root() {
        return skipped(name, "only root has the right that this test gives up");
    }
    let launcher = ["prlimit", "--memlock=65536", "setpriv", "--bounding-set=-ipc_lock"];
    alone(name, &launcher, || {
        assert_refused(
            "net_af_packet0,iface=lo",
            "its rings must fit into the limit of locked memory (ulimit -l), or have CAP_IPC_LOCK",
        );
    });
}

#[test]
fn what_af_xdp_needs() {
    with_af_xdp("refusals::what_af_xdp_needs", || {
        veth("w0", "w1");
        let device = "net_af_xdp0,iface=w0";
        assert_refused(device, "its driver keeps 2048 packets; make the pool larger");
        let pool = pool(8191);
        let port = open(device, &pool);
        let other = "net_af_xdp1,iface=w0";
        let held = "AF_XDP holds this interface already. Or the other end of a veth pair sends by \
                    more queues than this one receives by: ethtool -L PEER tx 1 (Failed to create \
                    xsk socket.)";
        assert_eq!(refusal(other, &pool), format!("device \"{other}\": {held}"));
        // The kernel gives the queue up some time later.
        drop(port);
        drop(open(device, &pool));
    });
}

#[test]
fn pools_and_rings_without_memory() {
    let line = Pool::new(eal(), "large", 10_000_000).unwrap_err().to_string();
    assert_eq!(
        line,
        "no memory for a pool of 10000000 packets (Cannot allocate memory (os error 12)); \
         give the node more memory or fewer packets"
    );
    let line = weft_dpdk::Ring::new(eal(), "large", u32::MAX).unwrap_err().to_string();
    assert_eq!(line, "ring large: Invalid argument (os error 22)");
}

#[test]
fn no_memory_for_the_environment() {
    alone("refusals::no_memory_for_the_environment", &["prlimit", "--as=1073741824"], || {
        let options =
            EalOptions { memory_megabytes: 4096, huge_pages: false, ..Default::default() };
        let line = Eal::start(&options).unwrap_err().to_string();
        assert!(line.starts_with("DPDK's environment did not start: "), "{line}");
        assert!(!line.contains('\n'), "{line}");
    });
}
