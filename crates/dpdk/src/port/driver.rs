//! Device strings of virtual devices, `DRIVER<number>,argument=value,…`, and
//! what is known of the drivers that Weft is used with. DPDK takes some mistakes
//! in a device string without a word and words others poorly, so that they are
//! found here first. Drivers that are not known are left to DPDK.

use std::io;

use super::capabilities::Spreading;
use super::options::PortOptions;
use super::sockets::{Wanted, may_lock, may_use_interfaces};
use crate::error::invalid;

/// A driver of DPDK for virtual devices. Lists are words between spaces.
#[derive(Debug)]
pub(crate) struct Driver {
    name: &'static str,
    arguments: &'static str,
    /// Arguments of which it needs at least one.
    needs: &'static str,
    /// Arguments that are added when none of them is given.
    defaults: &'static str,
    /// Whether it makes a kernel interface or uses one.
    pub(crate) kernel: Kernel,
    /// Packets that it keeps for each receive queue.
    pub(crate) queue_packets: u32,
    /// Packets that the kernel should keep for each receive queue; 0 where it is as it is.
    pub(crate) kept_by_kernel: i32,
    /// Memory that it locks for a pair of queues.
    pub(crate) locked_bytes: u64,
    /// Whether two processes may have what is behind it open, and either receive from it.
    pub(crate) shares: bool,
    /// What it most often means when it refuses a receive queue.
    pub(crate) queue_refused: Option<&'static str>,
    /// The argument for the number of its receive queues, and its value where it is not given.
    queues: Option<(&'static str, u16)>,
    /// How packets come to several receive queues, where the device is not asked for it.
    pub(crate) spreading: Option<Spreading>,
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

const PLAIN: Driver = Driver {
    name: "",
    arguments: "",
    needs: "",
    defaults: "",
    kernel: Kernel::Apart,
    queue_packets: 0,
    kept_by_kernel: 0,
    locked_bytes: 0,
    shares: false,
    queue_refused: None,
    queues: None,
    spreading: None,
};

static DRIVERS: [Driver; 5] = [
    Driver { name: "net_null", arguments: "size copy no-rx", shares: true, ..PLAIN },
    Driver {
        name: "net_pcap",
        arguments: "rx_pcap tx_pcap rx_iface rx_iface_in tx_iface iface phy_mac infinite_rx",
        needs: "rx_pcap tx_pcap rx_iface tx_iface iface",
        ..PLAIN
    },
    Driver {
        name: "net_tap",
        arguments: "iface remote mac persist",
        kernel: Kernel::Makes,
        // Like that of AF_PACKET; of itself it is 500.
        kept_by_kernel: 4096,
        spreading: Some(Spreading::Kernel),
        ..PLAIN
    },
    Driver {
        name: "net_af_packet",
        arguments: "iface qpairs blocksz framesz framecnt qdisc_bypass",
        needs: "iface",
        // The driver's own receive ring, of 512 frames, loses packets under load.
        defaults: "blocksz=4096 framesz=2048 framecnt=4096",
        kernel: Kernel::Uses,
        locked_bytes: 2 * 2048 * 4096,
        shares: true,
        queues: Some(("qpairs", 1)),
        spreading: Some(Spreading::Kernel),
        ..PLAIN
    },
    Driver {
        name: "net_af_xdp",
        arguments: "iface start_queue queue_count shared_umem xdp_prog busy_budget force_copy use_cni",
        needs: "iface",
        kernel: Kernel::Uses,
        queue_packets: 2048,
        queue_refused: Some(
            "AF_XDP holds this interface already. Or the other end of a veth pair sends by more queues than \
             this one receives by: ethtool -L PEER tx 1",
        ),
        queues: Some(("queue_count", 1)),
        spreading: Some(Spreading::Interface),
        ..PLAIN
    },
];

/// A ring for frames of up to 9,100 bytes, four in a block of nine pages.
const JUMBO_RING: &str = "blocksz=36864 framesz=9216 framecnt=1024";

/// Arguments that are numbers; what is not one counts as 0 for DPDK.
const NUMBERS: &str = "size copy no-rx phy_mac infinite_rx qpairs blocksz framesz framecnt \
                       qdisc_bypass start_queue queue_count shared_umem busy_budget force_copy";

fn lists(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

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
        let given = given.map(|argument| argument.split_once('=').unwrap_or((argument, "")));
        let given: Vec<(&str, &str)> = given.collect();
        let mut device = DeviceString {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            driver,
            interface: None,
        };
        if let Some(driver) = driver {
            driver.check(&given)?;
            device.arguments.extend(driver.defaults_beside(&given));
            let interface = given.iter().find(|(key, _)| *key == "iface");
            device.interface = interface.map(|(_, interface)| interface.to_string());
        }
        Ok(device)
    }

    /// Whether its queues are AF_PACKET sockets.
    pub(crate) fn is_af_packet(&self) -> bool {
        self.driver.is_some_and(Driver::has_packet_sockets)
    }

    /// The same for IP packets of up to `mtu` bytes: frames in the ring of AF_PACKET have room
    /// for them.
    pub(crate) fn with_mtu(mut self, mtu: u16) -> DeviceString {
        if self.is_af_packet() && mtu > PortOptions::PLAIN_MTU {
            let own = |list: &str| list.replace(' ', ",");
            let usual = self.driver.map_or("", |driver| driver.defaults);
            self.arguments = self.arguments.replace(&own(usual), &own(JUMBO_RING));
        }
        self
    }

    /// Whether a program may choose the queue of a packet, one for each of two processes: at a
    /// TAP device that the process alone keeps, and that mirrors no other interface.
    pub(crate) fn is_steerable(&self) -> bool {
        let keys = self.arguments.split(',').filter_map(|one| one.split('=').next());
        self.is_tap() && keys.into_iter().all(|key| !lists("remote persist", key))
    }

    fn is_tap(&self) -> bool {
        self.driver.is_some_and(Driver::is_tap)
    }

    /// The same with a MAC address, where the device makes one up otherwise.
    pub(crate) fn with_mac(mut self, mac: Option<[u8; 6]>) -> DeviceString {
        let mut keys = self.arguments.split(',').filter_map(|one| one.split('=').next());
        if let Some(mac) = mac.filter(|mac| *mac != [0; 6])
            && self.is_tap()
            && keys.all(|key| !lists("mac remote", key))
        {
            let separator = if self.arguments.is_empty() { "" } else { "," };
            let octets = mac.map(|octet| format!("{octet:02x}")).join(":");
            self.arguments.push_str(&format!("{separator}mac={octets}"));
        }
        self
    }

    /// The same with so many receive queues. Each queue that its driver has must be polled:
    /// the kernel gives packets to all of them.
    ///
    /// # Errors
    /// When the device string says another number.
    pub(crate) fn with_queues(mut self, queues: u16) -> io::Result<DeviceString> {
        let Some((key, default)) = self.driver.and_then(|driver| driver.queues) else {
            return Ok(self);
        };
        let mut given = self.arguments.split(',').filter_map(|argument| argument.split_once('='));
        match given.find(|(other, _)| *other == key) {
            Some((_, value)) if value.parse() != Ok(queues) => Err(invalid(format!(
                "{key}={value} beside {queues} receive queues: packets for queues that are not \
                 polled would be lost; leave {key} out"
            ))),
            None if queues != default => {
                self.arguments.push_str(&format!(",{key}={queues}"));
                Ok(self)
            }
            _ => Ok(self),
        }
    }
}

impl Driver {
    /// Whether its queues are AF_XDP sockets.
    pub(crate) fn has_xdp_sockets(&self) -> bool {
        self.name == "net_af_xdp"
    }

    /// Whether it makes TAP interfaces.
    pub(crate) fn is_tap(&self) -> bool {
        self.name == "net_tap"
    }

    /// Whether its queues are AF_PACKET sockets.
    pub(crate) fn has_packet_sockets(&self) -> bool {
        self.name == "net_af_packet"
    }

    fn check(&self, given: &[(&str, &str)]) -> io::Result<()> {
        for (key, value) in given {
            if !lists(self.arguments, key) {
                let known = self.arguments.replace(' ', ", ");
                return Err(invalid(format!(
                    "{} has no argument {key}; it has {known}",
                    self.name
                )));
            }
            if lists(NUMBERS, key) && value.parse::<u32>().is_err() {
                return Err(invalid(format!("{key}={value} is not a number")));
            }
        }
        let needed = given.iter().any(|(key, value)| lists(self.needs, key) && !value.is_empty());
        if !self.needs.is_empty() && !needed {
            let needs = self.needs.replace(' ', " or ");
            return Err(invalid(format!("{} needs {needs}", self.name)));
        }
        Ok(())
    }

    /// The defaults, to be put behind what is `given`.
    fn defaults_beside(&self, given: &[(&str, &str)]) -> Option<String> {
        let mut keys = self.defaults.split(' ').filter_map(|word| word.split_once('='));
        let none = keys.all(|(key, _)| given.iter().all(|(other, _)| *other != key));
        (none && !self.defaults.is_empty()).then(|| format!(",{}", self.defaults.replace(' ', ",")))
    }
}

/// The names of all known drivers, for a message.
pub(crate) fn known_drivers() -> String {
    DRIVERS.each_ref().map(|driver| driver.name).join(", ")
}

/// `reason`, or what lacks where that explains it.
pub(crate) fn explain(driver: Option<&Driver>, reason: io::Error) -> io::Error {
    let Some(driver) = driver else { return reason };
    let lacking = if driver.kernel != Kernel::Apart && !may_use_interfaces() {
        "no permission; run as root or with CAP_NET_ADMIN and CAP_NET_RAW"
    } else if !may_lock(driver.locked_bytes) {
        "its rings must fit into the limit of locked memory (ulimit -l), or have CAP_IPC_LOCK"
    } else {
        return reason;
    };
    io::Error::new(io::ErrorKind::PermissionDenied, lacking)
}

/// Another number of queues that the interface of a device should have for so many receive queues.
///
/// # Errors
/// When it cannot have them and packets would be lost.
pub(super) fn wanted_channels(device: &str, queues: u16) -> io::Result<Option<Wanted>> {
    let Ok(DeviceString { driver: Some(driver), interface: Some(name), arguments, .. }) =
        DeviceString::parse(device)
    else {
        return Ok(None);
    };
    let has_sockets = driver.has_xdp_sockets() || driver.has_packet_sockets();
    // One that names its first queue shares the interface with others.
    match has_sockets && !arguments.contains("start_queue=") {
        true => Wanted::of(&name, queues, driver.has_xdp_sockets()),
        false => Ok(None),
    }
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
    fn jumbo_frames_have_room_in_the_ring_of_af_packet() {
        let of = |device, mtu| parse(device).with_mtu(mtu).arguments;
        let jumbo = "iface=a,blocksz=36864,framesz=9216,framecnt=1024";
        assert_eq!(of("net_af_packet0,iface=a", 9000), jumbo);
        assert!(of("net_af_packet0,iface=a", 2026).contains("framesz=2048"));
        assert_eq!(of("net_af_packet0,iface=a,framecnt=8", 9000), "iface=a,framecnt=8");
        assert_eq!(of("net_tap0,iface=a", 9000), "iface=a");
    }

    #[test]
    fn only_known_drivers_name_a_kernel_interface() {
        assert_eq!(parse("net_af_packet12,iface=a").interface.as_deref(), Some("a"));
        assert_eq!(parse("net_pcap0,iface=b").interface.as_deref(), Some("b"));
        assert_eq!(parse("net_vhost0,iface=/run/socket").interface, None);
        assert_eq!(parse("net_tapestry0,iface=a").interface, None);
    }

    #[test]
    fn drivers_have_as_many_queues_as_are_polled() {
        let two = |device| DeviceString::parse(device).unwrap().with_queues(2);
        let arguments = two("net_af_xdp0,iface=a").unwrap().arguments;
        assert_eq!(arguments, "iface=a,queue_count=2");
        assert!(two("net_af_packet0,iface=a").unwrap().arguments.ends_with(",qpairs=2"));
        assert!(two("net_af_packet0,iface=a,qpairs=2").is_ok());
        let refused = two("net_af_packet0,iface=a,qpairs=4").unwrap_err().to_string();
        assert!(refused.starts_with("qpairs=4 beside 2 receive queues"), "{refused}");
        assert_eq!(two("net_tap0,iface=a").unwrap().arguments, "iface=a");
    }

    #[test]
    fn a_tap_device_is_given_the_address_that_it_had() {
        let of = |device: &str| parse(device).with_mac(Some([2, 0, 0, 0, 0, 0xab])).arguments;
        assert_eq!(of("net_tap0,iface=a"), "iface=a,mac=02:00:00:00:00:ab");
        assert_eq!(of("net_tap0"), "mac=02:00:00:00:00:ab");
        for own in ["iface=a,mac=fixed", "iface=a,remote=eth0"] {
            assert_eq!(of(&format!("net_tap0,{own}")), own);
        }
        assert_eq!(of("net_null0,size=64"), "size=64");
        assert_eq!(parse("net_tap0,iface=a").with_mac(Some([0; 6])).arguments, "iface=a");
    }

    #[test]
    fn a_program_chooses_the_queue_of_plain_tap_devices() {
        assert!(parse("net_tap0,iface=a,mac=fixed").is_steerable());
        for other in ["net_tap0,iface=a,remote=b", "net_tap0,iface=a,persist", "net_null0"] {
            assert!(!parse(other).is_steerable(), "{other}");
        }
    }

    #[test]
    fn the_arguments_of_other_drivers_are_left_to_dpdk() {
        let device = parse("net_memif0,role=client,secret");
        assert_eq!((&*device.name, &*device.arguments), ("net_memif0", "role=client,secret"));
    }

    #[test]
    fn interfaces_of_other_devices_keep_their_queues() {
        for device in ["ring:a", "0000:03:00.0", "net_tap0,iface=lo", "net_af_xdp0,iface=none-1"] {
            assert!(wanted_channels(device, 2).unwrap().is_none(), "{device}");
        }
    }
}
