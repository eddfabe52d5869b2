//! Device strings of virtual devices, `DRIVER<number>,argument=value,…`, and
//! what is known of the drivers that Weft is used with. DPDK takes some mistakes
//! in a device string without a word and words others poorly, so that they are
//! found here first. Drivers that are not known are left to DPDK.

use std::io;

use crate::error::invalid;

/// A driver of DPDK for virtual devices.
#[derive(Debug)]
pub(crate) struct Driver {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Arguments of which it needs at least one.
    needs: &'static [&'static str],
    /// Arguments that are added to those that are given.
    defaults: &'static [(&'static str, &'static str)],
    /// Whether it makes a kernel interface or uses one.
    pub(crate) kernel: Kernel,
    /// Packets that it keeps for each receive queue.
    pub(crate) queue_packets: u32,
    /// What it most often means when it refuses a receive queue.
    pub(crate) queue_refused: Option<&'static str>,
}

/// What a driver has to do with the interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Nothing, unless `iface` is given.
    Apart,
    /// It makes the interface `iface`.
    Makes,
    /// It uses the interface `iface`, which must be there.
    Uses,
}

const DRIVERS: [Driver; 5] = [
    Driver {
        name: "net_null",
        arguments: &["size", "copy", "no-rx"],
        needs: &[],
        defaults: &[],
        kernel: Kernel::Apart,
        queue_packets: 0,
        queue_refused: None,
    },
    Driver {
        name: "net_pcap",
        arguments: &[
            "rx_pcap",
            "tx_pcap",
            "rx_iface",
            "rx_iface_in",
            "tx_iface",
            "iface",
            "phy_mac",
            "infinite_rx",
        ],
        needs: &["rx_pcap", "tx_pcap", "rx_iface", "tx_iface", "iface"],
        defaults: &[],
        kernel: Kernel::Apart,
        queue_packets: 0,
        queue_refused: None,
    },
    Driver {
        name: "net_tap",
        arguments: &["iface", "remote", "mac", "persist"],
        needs: &[],
        defaults: &[],
        kernel: Kernel::Makes,
        queue_packets: 0,
        queue_refused: None,
    },
    Driver {
        name: "net_af_packet",
        arguments: &["iface", "qpairs", "blocksz", "framesz", "framecnt", "qdisc_bypass"],
        needs: &["iface"],
        // The driver's own receive ring, 512 frames, loses packets under load.
        defaults: &[("blocksz", "4096"), ("framesz", "2048"), ("framecnt", "4096")],
        kernel: Kernel::Uses,
        queue_packets: 0,
        queue_refused: None,
    },
    Driver {
        name: "net_af_xdp",
        arguments: &[
            "iface",
            "start_queue",
            "queue_count",
            "shared_umem",
            "xdp_prog",
            "busy_budget",
            "force_copy",
            "use_cni",
        ],
        needs: &["iface"],
        defaults: &[],
        kernel: Kernel::Uses,
        queue_packets: 2048,
        queue_refused: Some(
            "AF_XDP holds this interface already, or held it before in this process; \
             make the interface anew",
        ),
    },
];

/// Arguments that are numbers; what is not one counts as 0 for DPDK.
const NUMBERS: [&str; 11] = [
    "size",
    "copy",
    "no-rx",
    "phy_mac",
    "infinite_rx",
    "qpairs",
    "blocksz",
    "framesz",
    "framecnt",
    "queue_count",
    "start_queue",
];

/// A device string of a virtual device, looked through.
#[derive(Debug)]
pub(crate) struct DeviceString {
    /// Name on DPDK's virtual bus: driver and number.
    pub(crate) name: String,
    /// All arguments, with the driver's defaults.
    pub(crate) arguments: String,
    pub(crate) driver: Option<&'static Driver>,
    /// The kernel interface that it names.
    pub(crate) interface: Option<String>,
}

impl DeviceString {
    /// Takes `device` apart.
    ///
    /// # Errors
    /// What is wrong with it and what would be right.
    pub(crate) fn parse(device: &str) -> io::Result<DeviceString> {
        let (name, arguments) = device.split_once(',').unwrap_or((device, ""));
        let driver = DRIVERS.iter().find(|driver| {
            let number = name.strip_prefix(driver.name);
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        let given = arguments.split(',').filter(|argument| !argument.is_empty());
        let mut given: Vec<(&str, &str)> =
            given.map(|argument| argument.split_once('=').unwrap_or((argument, ""))).collect();
        if let Some(driver) = driver {
            driver.check(&given)?;
            if !driver.defaults.iter().any(|(key, _)| given.iter().any(|(other, _)| other == key)) {
                given.extend(driver.defaults);
            }
        }
        let interface = given.iter().find(|(key, _)| *key == "iface");
        let interface =
            interface.filter(|_| driver.is_some()).map(|(_, interface)| interface.to_string());
        let arguments: Vec<_> = given.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Ok(DeviceString {
            name: name.to_owned(),
            arguments: arguments.join(","),
            driver,
            interface,
        })
    }
}

impl Driver {
    fn check(&self, given: &[(&str, &str)]) -> io::Result<()> {
        for (key, value) in given {
            if !self.arguments.contains(key) {
                let known = self.arguments.join(", ");
                return Err(invalid(format!(
                    "{} has no argument {key}; it has {known}",
                    self.name
                )));
            }
            if NUMBERS.contains(key) && value.parse::<u32>().is_err() {
                return Err(invalid(format!("{key}={value} is not a number")));
            }
        }
        let needed = given.iter().any(|(key, value)| self.needs.contains(key) && !value.is_empty());
        if !self.needs.is_empty() && !needed {
            let needs = self.needs.join("=… or ");
            return Err(invalid(format!("{} needs {needs}=…", self.name)));
        }
        Ok(())
    }
}

/// The names of all known drivers, for a message.
pub(crate) fn known_drivers() -> String {
    DRIVERS.map(|driver| driver.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(device: &str) -> DeviceString {
        DeviceString::parse(device).unwrap()
    }

    #[test]
    fn a_better_receive_ring_is_the_default_of_af_packet_only() {
        let ring = "blocksz=4096,framesz=2048,framecnt=4096";
        assert_eq!(parse("net_af_packet0,iface=a").arguments, format!("iface=a,{ring}"));
        let own = "iface=a,framecnt=512";
        assert_eq!(parse(&format!("net_af_packet0,{own}")).arguments, own);
        assert_eq!(parse("net_af_xdp0,iface=a").arguments, "iface=a");
    }

    #[test]
    fn only_known_drivers_name_a_kernel_interface() {
        assert_eq!(parse("net_af_packet12,iface=a").interface.as_deref(), Some("a"));
        assert_eq!(parse("net_pcap0,iface=b").interface.as_deref(), Some("b"));
        assert_eq!(parse("net_vhost0,iface=/run/socket").interface, None);
        assert_eq!(parse("net_tapestry0,iface=a").interface, None);
    }

    #[test]
    fn arguments_that_a_driver_does_not_know_stay_for_dpdk() {
        let device = parse("net_memif0,role=client,secret");
        assert_eq!(
            (device.name.as_str(), device.arguments.as_str()),
            ("net_memif0", "role=client,secret=")
        );
    }
}
