//! Ports: one Ethernet device each, named by its DPDK device string.

use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_dpdk_sys as sys;

use crate::batch::Batch;
use crate::eal::Eal;
use crate::error::{self, Error, Result};
use crate::log;
use crate::pool::Pool;
use crate::ring_port::RingEnd;

/// How to open a port.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// Receive queues wanted; a device that has fewer gives fewer.
    pub rx_queues: u16,
    /// Transmit queues wanted; a device that has fewer gives fewer.
    pub tx_queues: u16,
    /// Packets that each queue holds.
    pub descriptors: u16,
    /// Longest IP packet, in bytes; at most [`PortOptions::MAX_MTU`].
    pub mtu: u16,
}

impl PortOptions {
    /// Longest IP packet that fits a buffer behind an Ethernet header with two
    /// VLAN tags.
    pub const MAX_MTU: u16 = (Pool::PACKET_BYTES - 14 - 8) as u16;
}

impl Default for PortOptions {
    fn default() -> Self {
        PortOptions { rx_queues: 1, tx_queues: 1, descriptors: 1024, mtu: 1500 }
    }
}

/// State of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether packets can pass.
    pub up: bool,
    /// Megabits per second; 0 when the device does not say.
    pub megabits: u32,
}

/// What a device has counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets lost because the receive queue was full.
    pub rx_missed: u64,
    /// Packets received in error, or for which there was no buffer.
    pub rx_errors: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

/// An open port. It is closed, and its device removed, when the port and all
/// queues taken from it are dropped.
#[derive(Debug)]
pub struct Port {
    inner: Arc<Inner>,
    rx_taken: Vec<AtomicBool>,
    tx_taken: Vec<AtomicBool>,
}

#[derive(Debug)]
struct Inner {
    id: u16,
    device: String,
    /// Name on DPDK's virtual bus; none for a device that was there before.
    virtual_name: Option<CString>,
    ring: Option<RingEnd>,
    interface: Option<CString>,
    mac: [u8; 6],
    _pool: Pool,
}

/// One receive queue; used by one thread at a time.
#[derive(Debug)]
pub struct RxQueue {
    port: Arc<Inner>,
    queue: u16,
}

/// One transmit queue; used by one thread at a time.
#[derive(Debug)]
pub struct TxQueue {
    port: Arc<Inner>,
    queue: u16,
}

impl Port {
    /// Opens and starts the device that `device` names: `ring:NAME`, any
    /// virtual device (`net_tap0,iface=weft0`), or a PCI address that was given
    /// to the environment. Received packets are taken from `pool`.
    ///
    /// # Errors
    /// [`Error::Device`] with what is wrong and what to do about it.
    pub fn open(eal: &Eal, device: &str, options: &PortOptions, pool: &Pool) -> Result<Port> {
        log::clear();
        let opened = Opened::open(eal, device, options)
            .and_then(|opened| opened.start(options, pool).map(|counts| (opened, counts)));
        let (opened, (rx_queues, tx_queues)) = opened.map_err(|reason| Error::Device {
            device: device.to_owned(),
            reason: reason.to_string(),
            log: log::said(),
        })?;
        let mut mac = sys::rte_ether_addr::default();
        // SAFETY: the port exists; `mac` is writable.
        unsafe { sys::rte_eth_macaddr_get(opened.id, &mut mac) };
        let parts = opened.into_parts();
        let inner = Inner {
            id: parts.id,
            device: device.to_owned(),
            virtual_name: parts.virtual_name,
            ring: parts.ring,
            interface: interface(device),
            mac: mac.addr_bytes,
            _pool: pool.clone(),
        };
        let free = |count| (0..count).map(|_| AtomicBool::new(false)).collect();
        Ok(Port { inner: Arc::new(inner), rx_taken: free(rx_queues), tx_taken: free(tx_queues) })
    }

    /// The device string the port was opened with.
    pub fn device(&self) -> &str {
        &self.inner.device
    }

    /// The device's own MAC address; all zero for a device without one.
    pub fn mac(&self) -> [u8; 6] {
        self.inner.mac
    }

    /// Number of receive queues.
    pub fn rx_queues(&self) -> u16 {
        self.rx_taken.len() as u16
    }

    /// Number of transmit queues.
    pub fn tx_queues(&self) -> u16 {
        self.tx_taken.len() as u16
    }

    /// Receive queue `queue`; none when it does not exist or was taken before.
    pub fn take_rx(&self, queue: u16) -> Option<RxQueue> {
        let taken = self.rx_taken.get(usize::from(queue))?.swap(true, Ordering::Relaxed);
        (!taken).then(|| RxQueue { port: self.inner.clone(), queue })
    }

    /// Transmit queue `queue`; none when it does not exist or was taken before.
    pub fn take_tx(&self, queue: u16) -> Option<TxQueue> {
        let taken = self.tx_taken.get(usize::from(queue))?.swap(true, Ordering::Relaxed);
        (!taken).then(|| TxQueue { port: self.inner.clone(), queue })
    }

    /// State of the link. A port on a kernel interface that has vanished is
    /// down, whatever its driver believes.
    pub fn link(&self) -> Link {
        if let Some(name) = &self.inner.interface
            && !interface_exists(name)
        {
            return Link { up: false, megabits: 0 };
        }
        let mut link = sys::rte_eth_link::default();
        // SAFETY: the port exists; `link` is writable.
        let status = unsafe { sys::rte_eth_link_get_nowait(self.inner.id, &mut link) };
        let megabits = if link.link_speed == u32::MAX { 0 } else { link.link_speed };
        Link { up: status == 0 && link.link_status() == 1, megabits }
    }

    /// What the device has counted.
    pub fn statistics(&self) -> PortStatistics {
        let mut stats = sys::rte_eth_stats::default();
        // SAFETY: the port exists; `stats` is writable and zero if this fails.
        unsafe { sys::rte_eth_stats_get(self.inner.id, &mut stats) };
        let missed_ring = self.inner.ring.as_ref().map_or(0, RingEnd::missed);
        PortStatistics {
            rx_packets: stats.ipackets,
            rx_bytes: stats.ibytes,
            rx_missed: stats.imissed + missed_ring,
            rx_errors: stats.ierrors + stats.rx_nombuf,
            tx_packets: stats.opackets,
            tx_bytes: stats.obytes,
            tx_errors: stats.oerrors,
        }
    }
}

impl RxQueue {
    /// Adds up to `count` packets to `batch`; returns how many. A packet in
    /// several buffers may be among them: see [`crate::Packet::is_linear`].
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch, count: usize) -> usize {
        batch.fill(count, |room, count| {
            // SAFETY: `room` has space for `count` pointers; the queue exists
            // and this is its only handle.
            unsafe { usize::from(sys::weft_rx_burst(self.port.id, self.queue, room, count as u16)) }
        })
    }
}

impl TxQueue {
    /// Sends packets from the front of `batch`; what the device does not take
    /// stays in `batch`. Returns how many were taken.
    ///
    /// A memory ring takes all: it behaves as a wire into the other end's
    /// receive queue, and what finds that full is counted as the other end's
    /// `rx_missed`.
    #[inline]
    pub fn transmit(&mut self, batch: &mut Batch) -> usize {
        let offered = batch.len();
        let sent = batch.offer(|first, count| {
            // SAFETY: `first` points to `count` owned packets; the queue exists
            // and this is its only handle.
            unsafe {
                usize::from(sys::weft_tx_burst(self.port.id, self.queue, first, count as u16))
            }
        });
        if sent < offered
            && let Some(ring) = &self.port.ring
        {
            ring.count_missed_by_peer((offered - sent) as u64);
            batch.clear();
            return offered;
        }
        sent
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the port exists and no queue handle is left.
        unsafe {
            sys::rte_eth_dev_stop(self.id);
            sys::rte_eth_dev_close(self.id);
            if let Some(name) = &self.virtual_name {
                sys::rte_eal_hotplug_remove(c"vdev".as_ptr(), name.as_ptr());
            }
        }
    }
}

/// A device that exists but is not a port yet; removed again when dropped.
struct Opened {
    id: u16,
    virtual_name: Option<CString>,
    ring: Option<RingEnd>,
}

struct Parts {
    id: u16,
    virtual_name: Option<CString>,
    ring: Option<RingEnd>,
}

impl Opened {
    fn open(eal: &Eal, device: &str, options: &PortOptions) -> io::Result<Opened> {
        if options.mtu > PortOptions::MAX_MTU || options.mtu < 68 {
            let most = PortOptions::MAX_MTU;
            return Err(invalid(format!("an MTU of {} is not within 68..{most}", options.mtu)));
        }
        if let Some(name) = device.strip_prefix("ring:") {
            return Opened::open_ring(eal, name, options);
        }
        let (name, arguments) = device.split_once(',').unwrap_or((device, ""));
        let c_name = CString::new(name).map_err(|_| invalid("not a device string".to_owned()))?;
        if is_pci_address(name) {
            // SAFETY: the environment stands; the argument is a C string.
            let status = unsafe { sys::rte_dev_probe(c_name.as_ptr()) };
            if status != 0 && status != -libc::EEXIST {
                let hint = "not found, or bound to no driver that DPDK can use";
                return Err(io::Error::other(hint));
            }
            return Ok(Opened { id: port_by_name(&c_name)?, virtual_name: None, ring: None });
        }
        if port_by_name(&c_name).is_ok() {
            return Err(invalid(format!("{name} is open already; give this one another number")));
        }
        if let Some(interface) = interface(device).filter(|_| !name.starts_with("net_tap"))
            && !interface_exists(&interface)
        {
            let interface = interface.to_string_lossy();
            return Err(invalid(format!("there is no network interface {interface}")));
        }
        let c_arguments =
            CString::new(arguments).map_err(|_| invalid("not a device string".to_owned()))?;
        // SAFETY: the environment stands; the arguments are C strings.
        let status = unsafe {
            sys::rte_eal_hotplug_add(c"vdev".as_ptr(), c_name.as_ptr(), c_arguments.as_ptr())
        };
        if status != 0 {
            return Err(refused(name, status));
        }
        let id = port_by_name(&c_name)?;
        Ok(Opened { id, virtual_name: Some(c_name), ring: None })
    }

    fn open_ring(eal: &Eal, name: &str, options: &PortOptions) -> io::Result<Opened> {
        let queues = options.rx_queues.max(options.tx_queues).max(1);
        let (ring, device) = RingEnd::take(eal, name, queues, options.descriptors)?;
        let id = port_by_name(&device)?;
        Ok(Opened { id, virtual_name: Some(device), ring: Some(ring) })
    }

    /// Configures queues and starts the device; returns how many queues of
    /// each direction there are.
    fn start(&self, options: &PortOptions, pool: &Pool) -> io::Result<(u16, u16)> {
        let id = self.id;
        let mut info = sys::rte_eth_dev_info::default();
        let (mut rx_size, mut tx_size) = (options.descriptors, options.descriptors);
        // SAFETY: the port exists and is not started; all pointers are to
        // values that outlive the calls, and null asks for the defaults.
        unsafe {
            check(sys::rte_eth_dev_info_get(id, &mut info), "information")?;
            let rx = options.rx_queues.clamp(1, info.max_rx_queues.max(1));
            let tx = options.tx_queues.clamp(1, info.max_tx_queues.max(1));
            let conf = sys::rte_eth_conf::default();
            check(sys::rte_eth_dev_configure(id, rx, tx, &conf), "configuration")?;
            sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &mut rx_size, &mut tx_size);
            let socket = sys::rte_socket_id();
            for queue in 0..rx {
                let null = std::ptr::null();
                let pool = pool.as_ptr();
                let status = sys::rte_eth_rx_queue_setup(id, queue, rx_size, socket, null, pool);
                check(status, "receive queue")?;
            }
            for queue in 0..tx {
                let null = std::ptr::null();
                let status = sys::rte_eth_tx_queue_setup(id, queue, tx_size, socket, null);
                check(status, "transmit queue")?;
            }
            // Not every device can, and those that cannot need not.
            sys::rte_eth_dev_set_mtu(id, options.mtu);
            check(sys::rte_eth_dev_start(id), "start")?;
            sys::rte_eth_promiscuous_enable(id);
            Ok((rx, tx))
        }
    }

    fn into_parts(mut self) -> Parts {
        let parts =
            Parts { id: self.id, virtual_name: self.virtual_name.take(), ring: self.ring.take() };
        std::mem::forget(self);
        parts
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the port exists and nobody uses it.
        unsafe {
            sys::rte_eth_dev_close(self.id);
            if let Some(name) = &self.virtual_name {
                sys::rte_eal_hotplug_remove(c"vdev".as_ptr(), name.as_ptr());
            }
        }
    }
}

pub(crate) fn port_by_name(name: &CStr) -> io::Result<u16> {
    let mut id = 0;
    // SAFETY: the environment stands; `name` is a C string, `id` writable.
    match unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &mut id) } {
        0 => Ok(id),
        _ => Err(io::Error::other("DPDK has no driver for it, or the driver did not accept it")),
    }
}

fn is_pci_address(name: &str) -> bool {
    let mut parts = name.split([':', '.']);
    name.contains(':')
        && name.contains('.')
        && parts.all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_hexdigit()))
}

/// The kernel interface that a device string names, if it names one.
fn interface(device: &str) -> Option<CString> {
    let name = device.split(',').find_map(|part| part.strip_prefix("iface="))?;
    CString::new(name).ok()
}

fn interface_exists(name: &CStr) -> bool {
    // SAFETY: `name` is a C string.
    unsafe { libc::if_nametoindex(name.as_ptr()) != 0 }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

fn check(status: i32, what: &str) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => {
            let reason = io::Error::from_raw_os_error(-status);
            Err(io::Error::other(format!("{what} refused: {reason}")))
        }
    }
}

fn refused(name: &str, status: i32) -> io::Error {
    // SAFETY: reads a number.
    let root = unsafe { libc::geteuid() } == 0;
    let kernel = ["net_af_packet", "net_af_xdp", "net_tap"].iter().any(|k| name.starts_with(k));
    if kernel && !root {
        return io::Error::new(
            io::ErrorKind::PermissionDenied,
            "no permission; run as root or with CAP_NET_ADMIN and CAP_NET_RAW",
        );
    }
    if status == -libc::EEXIST {
        return invalid(format!("{name} is open already; give this one another number"));
    }
    let reason = match status {
        -1 => error::last(),
        _ => io::Error::from_raw_os_error(-status),
    };
    io::Error::other(format!("the driver did not accept it: {reason}"))
}
