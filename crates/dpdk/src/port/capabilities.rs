//! What a device can do, as its driver says (`rte_eth_dev_info`), and how packets are spread
//! over its receive queues.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use weft_dpdk_sys as sys;

/// Kinds of packets that receive-side scaling may hash, with their names.
const KINDS: [(&str, u64); 6] = [
    ("IP", sys::WEFT_RSS_IP),
    ("UDP", sys::WEFT_RSS_UDP),
    ("TCP", sys::WEFT_RSS_TCP),
    ("SCTP", sys::WEFT_RSS_SCTP),
    ("GTP-U", sys::WEFT_RSS_GTPU),
    ("ESP", sys::WEFT_RSS_ESP),
];

/// A key of the Toeplitz hash that repeats each 16 bits: swapping source and destination
/// leaves the hash as it is, so both directions of a flow meet (Woo and Park, "Scalable TCP
/// Session Monitoring with Symmetric Receive-side Scaling", 2012).
static SYMMETRIC: [u8; 64] = {
    let mut key = [0x6d; 64];
    let mut at = 1;
    while at < key.len() {
        key[at] = 0x5a;
        at += 2;
    }
    key
};

/// What a device can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Name of its driver in DPDK.
    pub driver: String,
    /// Socket of the machine (NUMA node) that it is at; none where it does not say.
    pub socket: Option<u32>,
    /// Receive queues that it can have.
    pub rx_queues: u16,
    /// Transmit queues that it can have.
    pub tx_queues: u16,
    /// Longest IP packet, in bytes.
    pub mtu: u16,
    /// Kinds of packets that it can spread by receive-side scaling.
    pub hashes: Vec<&'static str>,
    /// Entries of its redirection table; 0 without one.
    pub table: u16,
    /// How packets would come to as many receive queues as were asked for.
    pub spreading: Spreading,
    /// What it can do with received packets, by DPDK's names.
    pub rx_offloads: Vec<String>,
    /// What it can do with packets to be sent, by DPDK's names.
    pub tx_offloads: Vec<String>,
    /// Offloads that the node will use at this port.
    pub used: Vec<&'static str>,
    /// Fields of packets by which it can be told the queue of one user (`rte_flow`), as far as was
    /// asked for.
    pub flows: Vec<String>,
    /// That the kernel interface behind it has another number of receive queues than it should,
    /// with the command (ethtool(8)) that changes it.
    pub channels: Option<String>,
    /// Whether an open port changes that itself, and puts it back as it closes.
    pub changes_channels: bool,
    /// What would tell an idle worker that packets have come.
    pub wakes: WakeSource,
}

/// What tells an idle worker that packets have come to its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeSource {
    /// Nothing: it looks again and again.
    #[default]
    Nothing,
    /// The socket of each queue.
    Socket,
    /// The driver, if it gives each queue an interrupt; that shows when the device is started.
    Driver,
}

impl WakeSource {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            WakeSource::Nothing => "nothing",
            WakeSource::Socket => "socket",
            WakeSource::Driver => "driver",
        }
    }
}

/// How packets come to a port's receive queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Spreading {
    /// There is one queue.
    #[default]
    OneQueue,
    /// By receive-side scaling: a hash of these kinds of packets chooses an entry of the
    /// redirection table.
    Hash {
        /// Kinds of packets; others come to queue 0.
        kinds: Vec<&'static str>,
        /// Entries of the redirection table that were set; 0 where it is the driver's own.
        table: u16,
        /// Whether both directions of a flow meet.
        symmetric: bool,
    },
    /// To the worker that owns the user, by a program in the kernel.
    Exact,
    /// By the kernel's hash of flows.
    Kernel,
    /// By queue of the interface, which the driver of the kernel chooses.
    Interface,
    /// The sender chooses.
    Sender,
    /// Not spread: the device offers no hash, and may give queue 0 all.
    Unspread,
}

impl fmt::Display for Spreading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spreading::OneQueue => f.write_str("one queue"),
            Spreading::Exact => f.write_str("a program in the kernel, by user"),
            Spreading::Kernel => f.write_str("the kernel's hash of flows"),
            Spreading::Interface => f.write_str("the interface's queues"),
            Spreading::Sender => f.write_str("the sender chooses"),
            Spreading::Unspread => f.write_str("not spread: the device has no hash"),
            Spreading::Hash { kinds, table, symmetric } => {
                let symmetric = if *symmetric { "symmetric " } else { "" };
                write!(f, "{symmetric}hash of {}", kinds.join(", "))?;
                if *table > 0 {
                    write!(f, ", table of {table}")?;
                }
                Ok(())
            }
        }
    }
}

impl Capabilities {
    /// Of the device `id`, as `info` has it.
    pub(super) fn of(id: u16, info: &sys::rte_eth_dev_info, spreading: Spreading) -> Self {
        // SAFETY: the device exists; it answers with -1 for one that does not say.
        let socket = unsafe { sys::rte_eth_dev_socket_id(id) };
        // SAFETY: the driver's name is a static C string, or null.
        let driver = unsafe { static_text(info.driver_name) };
        let names = |set: u64, name: unsafe extern "C" fn(u64) -> *const std::ffi::c_char| {
            let bits = (0..64).map(|bit| 1_u64 << bit).filter(|bit| set & bit != 0);
            // SAFETY: returns a static C string.
            bits.map(|bit| unsafe { static_text(name(bit)) }).collect()
        };
        Capabilities {
            driver,
            socket: u32::try_from(socket).ok(),
            rx_queues: info.max_rx_queues,
            tx_queues: info.max_tx_queues,
            mtu: info.max_mtu,
            hashes: kinds(info.flow_type_rss_offloads),
            table: info.reta_size,
            spreading,
            rx_offloads: names(info.rx_offload_capa, sys::rte_eth_dev_rx_offload_name),
            tx_offloads: names(info.tx_offload_capa, sys::rte_eth_dev_tx_offload_name),
            used: Vec::new(),
            flows: Vec::new(),
            channels: None,
            changes_channels: false,
            wakes: WakeSource::Nothing,
        }
    }
}

/// # Safety
/// The pointer is null or to a C string that lives for ever.
unsafe fn static_text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The names of the kinds of which `set` has a bit.
fn kinds(set: u64) -> Vec<&'static str> {
    KINDS.iter().filter(|(_, bits)| set & bits != 0).map(|(name, _)| *name).collect()
}

/// Asks for receive-side scaling over `queues` in the configuration of a device, as far as
/// the device offers it.
pub(super) fn ask_for_hash(
    info: &sys::rte_eth_dev_info,
    queues: u16,
    conf: &mut sys::rte_eth_conf,
) -> Spreading {
    let all = KINDS.iter().fold(0, |all, (_, bits)| all | bits);
    let set = info.flow_type_rss_offloads & all;
    if queues < 2 {
        return Spreading::OneQueue;
    }
    if set == 0 {
        return Spreading::Unspread;
    }
    conf.rxmode.mq_mode = sys::RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = set;
    let length = usize::from(info.hash_key_size);
    let symmetric = (1..=SYMMETRIC.len()).contains(&length);
    if symmetric {
        // Drivers copy the key and do not write to it.
        conf.rx_adv_conf.rss_conf.rss_key = SYMMETRIC.as_ptr().cast_mut();
        conf.rx_adv_conf.rss_conf.rss_key_len = info.hash_key_size;
    }
    Spreading::Hash { kinds: kinds(set), table: 0, symmetric }
}

/// A redirection table whose entries lead to all `queues` in turn.
pub(super) fn in_turn(entries: u16, queues: u16) -> Vec<u16> {
    (0..entries).map(|entry| entry % queues).collect()
}

/// Sets the redirection table of the started device `id`: to which queue each entry leads.
///
/// # Errors
/// What the driver says; then the table is as it was.
pub(super) fn redirect(id: u16, queues: &[u16]) -> io::Result<()> {
    let groups = queues.len().div_ceil(64);
    let mut table = vec![sys::rte_eth_rss_reta_entry64::default(); groups];
    for (entry, queue) in queues.iter().enumerate() {
        let group = &mut table[entry / 64];
        group.mask |= 1 << (entry % 64);
        group.reta[entry % 64] = *queue;
    }
    // SAFETY: the device exists; the table has as many entries.
    match unsafe { sys::rte_eth_dev_rss_reta_update(id, table.as_mut_ptr(), queues.len() as u16) } {
        0 => Ok(()),
        status => Err(io::Error::from_raw_os_error(-status)),
    }
}

/// Who computes checksums at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksums {
    /// The device, where it is hardware that offers to.
    #[default]
    Auto,
    /// The device wherever it offers to, even if its driver does it in software.
    Device,
    /// The node.
    Software,
}

/// Open ports whose devices sum UDP datagrams.
static SUMMING: AtomicU32 = AtomicU32::new(0);

/// Whether the device of some port may be asked for a UDP checksum, so that it is worth
/// leaving one out. Who sends at another port computes it.
#[inline]
pub fn devices_sum_udp() -> bool {
    SUMMING.load(Ordering::Relaxed) > 0
}

/// Drivers of DPDK that leave checksums to the hardware of a NIC. Those of emulated and virtual
/// devices compute in software, or leave packets without.
const HARDWARE: [&str; 11] = [
    "mlx5_pci",
    "mlx5_auxiliary",
    "net_ice",
    "net_iavf",
    "net_i40e",
    "net_ixgbe",
    "net_ixgbe_vf",
    "net_e1000_igb",
    "net_e1000_igb_vf",
    "net_ena",
    "net_bnxt",
];

/// What is used of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offloads {
    /// It computes UDP checksums.
    pub(crate) sums_udp: bool,
    /// It gives buffers back without looking where each came from.
    pub(crate) frees_fast: bool,
}

impl Offloads {
    /// Of what a device offers.
    pub(super) fn choose(
        info: &sys::rte_eth_dev_info,
        checksums: Checksums,
        sends_own_buffers: bool,
    ) -> Offloads {
        // SAFETY: the driver's name is a static C string, or null.
        let driver = unsafe { static_text(info.driver_name) };
        let wanted = match checksums {
            Checksums::Auto => HARDWARE.contains(&&*driver),
            Checksums::Device => true,
            Checksums::Software => false,
        };
        let has = |set: u64, bit: u64| set & bit != 0;
        Offloads {
            sums_udp: wanted && has(info.tx_offload_capa, sys::WEFT_TX_UDP_CKSUM),
            frees_fast: sends_own_buffers && has(info.tx_offload_capa, sys::WEFT_TX_FAST_FREE),
        }
    }

    /// Asks for them in the configuration of the device.
    pub(super) fn ask(self, conf: &mut sys::rte_eth_conf) {
        let bit = |is_used: bool, bit: u64| if is_used { bit } else { 0 };
        conf.txmode.offloads |= bit(self.sums_udp, sys::WEFT_TX_UDP_CKSUM)
            | bit(self.frees_fast, sys::WEFT_TX_FAST_FREE);
    }

    /// What they are, for an operator.
    pub(super) fn names(self) -> Vec<&'static str> {
        let all = [(self.sums_udp, "sums UDP"), (self.frees_fast, "fast free")];
        all.iter().filter(|(is_used, _)| *is_used).map(|(_, name)| *name).collect()
    }
}

/// Counts the device of one port among those that sum, while it lives.
#[derive(Debug)]
pub(super) struct Summing(bool);

impl Summing {
    pub(super) fn new(sums: bool) -> Summing {
        SUMMING.fetch_add(sums.into(), Ordering::Relaxed);
        Summing(sums)
    }
}

impl Drop for Summing {
    fn drop(&mut self) {
        SUMMING.fetch_sub(self.0.into(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash as NICs compute it (Microsoft, "RSS Hashing Functions").
    fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        let window = |at: usize| (0..32).fold(0, |w, n| w << 1 | u32::from(bit(key, at + n)));
        let set = (0..input.len() * 8).filter(|&at| bit(input, at) == 1);
        set.fold(0, |hash, at| hash ^ window(at))
    }

    #[test]
    fn both_directions_of_a_flow_have_one_hash_and_flows_differ() {
        let mut seen = std::collections::BTreeSet::new();
        for user in 0..=255_u8 {
            let (a, b) = ([10, 0, 1, user], [198, 51, 100, 7]);
            let there = toeplitz(&SYMMETRIC, &[a, b, [8, 104, 1, 187]].concat());
            let back = toeplitz(&SYMMETRIC, &[b, a, [1, 187, 8, 104]].concat());
            assert_eq!(there, back);
            seen.insert(there % 128);
        }
        assert!(seen.len() > 32, "{}", seen.len());
    }

    #[test]
    fn a_hash_is_asked_for_as_far_as_the_device_has_one() {
        let mut conf = sys::rte_eth_conf::default();
        let mut info = sys::rte_eth_dev_info::default();
        assert_eq!(ask_for_hash(&info, 1, &mut conf), Spreading::OneQueue);
        assert_eq!(ask_for_hash(&info, 4, &mut conf), Spreading::Unspread);
        assert_eq!(conf.rxmode.mq_mode, 0);
        info.flow_type_rss_offloads = sys::WEFT_RSS_IP | 1 << 63;
        info.hash_key_size = 40;
        let spreading = ask_for_hash(&info, 4, &mut conf);
        assert_eq!(spreading.to_string(), "symmetric hash of IP");
        // SAFETY: plain numbers.
        assert_eq!(conf.rx_adv_conf.rss_conf.rss_hf, sys::WEFT_RSS_IP);
    }

    /// What is used of a device that offers all of it, with this driver.
    fn chosen(driver: &'static CStr, checksums: Checksums, own: bool) -> Offloads {
        let able = sys::rte_eth_dev_info {
            driver_name: driver.as_ptr(),
            rx_offload_capa: !0,
            tx_offload_capa: !0,
            ..sys::rte_eth_dev_info::default()
        };
        Offloads::choose(&able, checksums, own)
    }

    #[test]
    fn no_more_is_used_than_the_device_has_and_the_way_of_packets_allows() {
        let none = sys::rte_eth_dev_info {
            driver_name: c"net_ice".as_ptr(),
            ..sys::rte_eth_dev_info::default()
        };
        assert_eq!(Offloads::choose(&none, Checksums::Device, true), Offloads::default());
        let used = chosen(c"net_ice", Checksums::Auto, false);
        assert_eq!(used.names(), ["sums UDP"]);
        assert!(chosen(c"net_ice", Checksums::Auto, true).frees_fast);
        let used = chosen(c"net_ice", Checksums::Software, false);
        assert_eq!(used, Offloads::default());
    }

    #[test]
    fn software_of_a_driver_is_used_only_where_that_is_asked_for() {
        for driver in [c"net_tap", c"net_virtio", c"net_vhost", c"net_bonding", c"net_vmxnet3"] {
            assert_eq!(chosen(driver, Checksums::Auto, false), Offloads::default());
            let asked = chosen(driver, Checksums::Device, false);
            assert!(asked.sums_udp, "{driver:?}");
        }
    }

    #[test]
    fn only_what_is_used_is_asked_for() {
        let mut conf = sys::rte_eth_conf::default();
        Offloads { sums_udp: true, ..Offloads::default() }.ask(&mut conf);
        assert_eq!((conf.rxmode.offloads, conf.txmode.offloads), (0, sys::WEFT_TX_UDP_CKSUM));
    }
}
