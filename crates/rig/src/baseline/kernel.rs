//! The Linux kernel as a router: network namespaces in a row, linked by veth
//! pairs, with forwarding on.
//!
//! Packets are sent into the first pair and received from the last by our own
//! generator over AF_PACKET, and receive packet steering (RPS) moves the kernel's
//! work to the core of the system under test. So what is seen may be the limit of
//! the generator; the results say so.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use weft_traffic::Load;
use weft_wire::MacAddress;

use crate::Failure;
use crate::network::iproute::{AF_PACKET_RING, ip};
use crate::{FarDevices, Rig};

/// Where users send to, as the generator has it.
const PEER: &str = "198.51.100.1";

/// Routers in a row. They are gone when it is dropped.
#[derive(Debug)]
pub struct Routers {
    /// What all names begin with.
    prefix: String,
    length: usize,
    work: Work,
}

/// What a router does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It forwards it by a route.
    Route,
    /// It forwards it, and nftables puts another source address into it.
    Translate,
}

/// The program that nftables are set by, and what is said where it is not there.
pub const NFT: &str = "nft";
/// See [`NFT`].
pub const NFT_MISSING: &str = "nftables are not installed (apt install nftables): not compared.";
/// The addresses that are put in the place of users' own.
const PUBLIC: &str = "192.0.2.1-192.0.2.4";

impl Routers {
    /// Makes so many routers, whose work is done at `core`.
    ///
    /// # Errors
    /// Without the rights for it, or without iproute2.
    pub fn new(length: usize, core: usize, work: Work) -> Result<Routers, Failure> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let routers =
            Routers { prefix: format!("wb{}-{serial}", std::process::id()), length, work };
        routers.connect(core)?;
        Ok(routers)
    }

    /// The devices at which packets go in and come out.
    pub fn ends(&self, rig: &Rig) -> FarDevices {
        let device = |interface: String| {
            format!("net_af_packet{},iface={interface},{AF_PACKET_RING}", rig.serial())
        };
        FarDevices { access: device(self.exit(0)), core: device(self.entry(self.length)) }
    }

    /// Sends a load to the first router.
    pub fn address(load: &mut Load) {
        for share in &mut load.shares {
            share.template.destination_mac = MacAddress(mac(1, 0));
        }
    }

    fn connect(&self, core: usize) -> Result<(), Failure> {
        for router in 1..=self.length {
            ip(&["netns", "add", &self.name(router)])?;
        }
        // Pair n leads from router n to router n + 1; the ends of the row are here.
        for link in 0..=self.length {
            let (near, far) = (self.exit(link), self.entry(link));
            let mut words = vec!["link", "add", &near];
            let (near_mac, far_mac) = (text(mac(link, 1)), text(mac(link + 1, 0)));
            words.extend(["address", &near_mac, "type", "veth", "peer", "name", &far]);
            words.extend(["address", &far_mac]);
            ip(&words)?;
            self.place(&near, link)?;
            self.place(&far, link + 1)?;
        }
        (1..=self.length).try_for_each(|router| self.set_up(router, core))
    }

    /// Moves an interface into the namespace of a router, and sets it up.
    fn place(&self, interface: &str, router: usize) -> Result<(), Failure> {
        if (1..=self.length).contains(&router) {
            let namespace = self.name(router);
            ip(&["link", "set", interface, "netns", &namespace])?;
            return ip(&["-n", &namespace, "link", "set", interface, "up"]);
        }
        ip(&["link", "set", interface, "up"])
    }

    fn set_up(&self, router: usize, core: usize) -> Result<(), Failure> {
        let namespace = self.name(router);
        let (from, to) = (self.entry(router - 1), self.exit(router));
        let next = text(mac(router + 1, 0));
        ip(&["-n", &namespace, "route", "add", &format!("{PEER}/32"), "dev", &to])?;
        ip(&["-n", &namespace, "neigh", "add", PEER, "lladdr", &next, "dev", &to])?;
        let settings = format!(
            "echo 1 > /proc/sys/net/ipv4/ip_forward; \
             echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter; \
             echo 0 > /proc/sys/net/ipv4/conf/{from}/rp_filter; \
             echo {mask:x} > /sys/class/net/{from}/queues/rx-0/rps_cpus",
            mask = 1_u128 << core,
        );
        ip(&["netns", "exec", &namespace, "sh", "-ec", &settings])?;
        match self.work {
            Work::Route => Ok(()),
            Work::Translate => {
                let rules = format!(
                    "table ip weft {{ chain behind {{ type nat hook postrouting priority 100; \
                     oifname {to} snat to {PUBLIC}; }}; }}"
                );
                ip(&["netns", "exec", &namespace, NFT, &rules])
            }
        }
    }

    fn name(&self, router: usize) -> String {
        format!("{}-{router}", self.prefix)
    }

    /// The end of pair `link` at router `link`.
    fn exit(&self, link: usize) -> String {
        format!("{}-{link}a", self.prefix)
    }

    /// The end of pair `link` at router `link` + 1.
    fn entry(&self, link: usize) -> String {
        format!("{}-{link}b", self.prefix)
    }
}

impl Drop for Routers {
    fn drop(&mut self) {
        // With a namespace its interfaces go, and with these their other ends.
        for router in 1..=self.length {
            let _ = ip(&["netns", "delete", &self.name(router)]);
        }
        let _ = ip(&["link", "delete", &self.exit(0)]);
    }
}

/// Why the kernel cannot be measured here; none where it can.
pub fn lacking() -> Option<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    // CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN
    let needed = 1 << 12 | 1 << 13 | 1 << 21;
    if bits & needed != needed {
        return Some("Interfaces of the kernel: not measured, this needs root.");
    }
    let installed = Command::new("ip").arg("-V").stdout(Stdio::null()).status().is_ok();
    (!installed).then_some("Interfaces of the kernel: not measured, iproute2 is not installed.")
}

/// The address of router `router` at its entry (0) or exit (1).
fn mac(router: usize, side: u8) -> [u8; 6] {
    [2, 0, 0, 1, router as u8, side]
}

fn text(mac: [u8; 6]) -> String {
    MacAddress(mac).to_string()
}
