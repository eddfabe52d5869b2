//! One Ethernet device of DPDK: made, started, and removed again.

mod interrupt;
mod members;
mod queues;

use std::ffi::{CStr, CString};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_dpdk_sys as sys;

pub(super) use self::interrupt::Interrupt;
pub use self::members::pci_addresses;
use self::members::{Members, is_bonding};
use super::bus::{ALREADY, NO_DRIVER, PCI, VIRTUAL, is_pci_address, pci_name, plug, unplug};
use super::capabilities::{
    Capabilities, Offloads, Spreading, Summing, WakeSource, ask_for_hash, in_turn, redirect,
};
use super::driver::{DeviceString, Driver, Kernel, explain, known_drivers};
use super::events::Events;
use super::flow::{Flows, by_creation, by_validation};
use super::interface::Interface;
use super::options::PortOptions;
use super::ring_port::RingEnd;
use super::sockets::{Given, PacketSockets, XdpSockets, joining, unchanged};
use crate::buffer::Pool;
use crate::eal::Eal;
use crate::error::invalid;

/// A device that DPDK drives; stopped and removed when dropped.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) id: u16,
    bus: &'static CStr,
    name: CString,
    driver: Option<&'static Driver>,
    interface: Option<Interface>,
    sockets: PacketSockets,
    xdp_sockets: XdpSockets,
    spreading: Spreading,
    offloads: Offloads,
    summing: Summing,
    flows: Flows,
    /// By receive queue, once it is started; empty where it has none.
    interrupts: Vec<Interrupt>,
    /// None once it is closed.
    events: Option<Events>,
    pub(crate) ring: Option<RingEnd>,
    /// Queues of its interface that are put back once it is closed.
    channels: Option<Given>,
    /// Devices below it, which go behind it.
    members: Members,
    /// Whether a program may choose the queue of a packet, one for each of two processes.
    is_steerable: bool,
    /// Whether another process has it open: it is not closed.
    is_another_s: AtomicBool,
}

impl Device {
    /// Makes the device that `device` names; it is not started yet.
    ///
    /// # Errors
    /// What is wrong and what to do about it.
    pub(crate) fn make(eal: &Eal, device: &str, options: &PortOptions) -> io::Result<Device> {
        if device.contains('\0') {
            return Err(invalid("not a device string"));
        }
        if let Some(name) = device.strip_prefix("ring:") {
            let queues = options.rx_queues.max(options.tx_queues);
            let (ring, name) = RingEnd::take(eal, name, queues, options.descriptors)?;
            return Device::named(VIRTUAL, name, Some(ring));
        }
        if is_pci_address(device) {
            return Device::on_pci_bus(device);
        }
        let (device, members) = Members::of(device)?;
        let device = DeviceString::parse(&device)?;
        let device = device.with_queues(options.rx_queues)?.with_mtu(options.mtu);
        let device = device.with_mac(options.mac);
        if !device.is_af_packet() {
            let stays = options.is_beside && device.is_steerable();
            let mut made = unchanged(stays, || Device::on_virtual_bus(device))?;
            made.members = members;
            return Ok(made);
        }
        let steering = options.steering.as_ref();
        let (made, joined) = joining(steering.is_some(), || Device::on_virtual_bus(device));
        let mut made = made?;
        if let Some(steering) = steering.filter(|_| joined > 0) {
            // Without a program all would go to one queue.
            made.sockets.steer(steering)?;
            made.spreading = Spreading::Exact;
        }
        Ok(made)
    }

    fn on_pci_bus(address: &str) -> io::Result<Device> {
        let name = CString::new(pci_name(address))?;
        match plug(PCI, &name, c"") {
            0 => Device::named(PCI, name, None),
            ALREADY => Err(invalid("open already")),
            status => Err(invalid(format!(
                "not found ({}); it must be given to the environment and be bound to a driver that \
                 DPDK can use, such as vfio-pci",
                io::Error::from_raw_os_error(-status)
            ))),
        }
    }

    fn on_virtual_bus(device: DeviceString) -> io::Result<Device> {
        let is_steerable = device.is_steerable();
        let DeviceString { name, arguments, driver, interface } = device;
        let find = || {
            interface.as_deref().map(Interface::find).transpose().map_err(|_| {
                let interface = interface.as_deref().unwrap_or_default();
                invalid(format!("there is no network interface {interface}"))
            })
        };
        if driver.is_some_and(|driver| driver.kernel == Kernel::Uses) {
            find()?;
        }
        let c_name = CString::new(name.as_str())?;
        match plug(VIRTUAL, &c_name, &CString::new(arguments)?) {
            0 => {}
            ALREADY => {
                return Err(invalid(format!(
                    "{name} is open already; give this one another number"
                )));
            }
            NO_DRIVER => {
                let known = known_drivers();
                return Err(invalid(format!("no driver for it; known are {known} and ring:NAME")));
            }
            status => check(status, "it").map_err(|reason| explain(driver, reason))?,
        }
        let mut device = Device::named(VIRTUAL, c_name, None)?;
        device.driver = driver;
        device.is_steerable = is_steerable;
        device.interface = find()?;
        if let Some(interface) = &device.interface {
            device.sockets = PacketSockets::of_interface(interface.index());
        }
        Ok(device)
    }

    /// The device `name`, which is on `bus` now.
    fn named(bus: &'static CStr, name: CString, ring: Option<RingEnd>) -> io::Result<Device> {
        let mut id = 0;
        // SAFETY: the environment stands; `name` is a C string, `id` writable.
        if unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &mut id) } == 0 {
            return Ok(Device {
                id,
                bus,
                events: Some(Events::of(id, &name)),
                name,
                driver: None,
                interface: None,
                sockets: PacketSockets::default(),
                xdp_sockets: XdpSockets::default(),
                spreading: Spreading::default(),
                offloads: Offloads::default(),
                summing: Summing::new(false),
                flows: Flows::default(),
                interrupts: Vec::new(),
                ring,
                channels: None,
                members: Members::default(),
                is_steerable: false,
                is_another_s: AtomicBool::new(false),
            });
        }
        unplug(bus, &name);
        Err(io::Error::other("not an Ethernet device"))
    }

    /// Keeps what its interface was given until it is closed.
    pub(super) fn keep(&mut self, channels: Option<Given>) {
        self.channels = channels;
    }

    /// Whether another process has it open, so that it is left as it is at the end.
    pub(super) fn is_another_s(&self, is_so: bool) {
        self.is_another_s.store(is_so, Ordering::Relaxed);
    }

    /// Sets up the queues and starts the device; returns how many queues of
    /// each direction there are, receive first.
    ///
    /// # Errors
    /// What is wrong and what to do about it.
    pub(crate) fn start(&mut self, options: &PortOptions, pool: &Pool) -> io::Result<(u16, u16)> {
        let started = if self.driver.is_some_and(|driver| driver.has_xdp_sockets()) {
            let (started, sockets) = XdpSockets::made_by(|| self.set_up(options, pool));
            self.xdp_sockets = sockets;
            started
        } else {
            self.set_up(options, pool)
        };
        let Started { rx, tx, spreading, offloads, interrupts } =
            started.map_err(|reason| explain(self.driver, reason))?;
        if options.interrupts {
            let sockets = (&self.sockets, &self.xdp_sockets);
            self.interrupts = interrupt::of_queues(self.id, rx, self.driver, sockets, interrupts);
        }
        let kept = self.driver.map_or(0, |driver| driver.kept_by_kernel);
        if let Some(interface) = self.interface.as_ref().filter(|_| kept > 0) {
            interface.lengthen_queue(kept);
        }
        self.offloads = offloads;
        self.summing = Summing::new(offloads.sums_udp);
        if self.spreading == Spreading::OneQueue {
            self.spreading = spreading;
        }
        if self.may_have_rules(options, rx) {
            self.flows = Flows::of(by_creation(self.id));
        }
        Ok((rx, tx))
    }

    fn information(&self) -> io::Result<sys::rte_eth_dev_info> {
        let mut info = sys::rte_eth_dev_info::default();
        // SAFETY: the device exists; `info` is writable.
        check(unsafe { sys::rte_eth_dev_info_get(self.id, &mut info) }, "its information")?;
        Ok(info)
    }

    /// What it can do, and how packets would come to as many queues as the options say.
    ///
    /// # Errors
    /// What its driver says.
    pub(crate) fn capabilities(&self, options: &PortOptions) -> io::Result<Capabilities> {
        let info = self.information()?;
        let queues = options.rx_queues.clamp(1, info.max_rx_queues.max(1));
        let spreading = self.spread(&info, queues, &mut sys::rte_eth_conf::default());
        let used = usable(&info, options).names();
        let flows = match self.may_have_rules(options, queues) {
            true => by_validation(self.id, queues, info.max_tx_queues).names(),
            false => Vec::new(),
        };
        let wakes = if options.interrupts { self.wakes() } else { WakeSource::Nothing };
        Ok(Capabilities { used, flows, wakes, ..Capabilities::of(self.id, &info, spreading) })
    }

    /// What could tell a worker of packets.
    fn wakes(&self) -> WakeSource {
        match self.driver {
            Some(driver) if driver.has_xdp_sockets() || driver.has_packet_sockets() => {
                WakeSource::Socket
            }
            _ if self.may_interrupt() => WakeSource::Driver,
            _ => WakeSource::Nothing,
        }
    }

    /// Whether flow rules are asked for, and something may have them that fills several queues.
    fn may_have_rules(&self, options: &PortOptions, queues: u16) -> bool {
        let has_sockets = |driver: &Driver| driver.has_xdp_sockets() || driver.has_packet_sockets();
        options.flow_rules
            && queues > 1
            && self.ring.is_none()
            && !self.driver.is_some_and(has_sockets)
    }

    /// The flow rules that it has.
    pub(super) fn flows(&self) -> &Flows {
        &self.flows
    }

    /// How packets come to its receive queues, once it is started.
    pub(crate) fn spreading(&self) -> &Spreading {
        &self.spreading
    }

    /// What tells of packets, by receive queue.
    pub(super) fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }

    /// What is used of it, once it is started.
    pub(crate) fn offloads(&self) -> Offloads {
        self.offloads
    }

    fn set_up(&self, options: &PortOptions, pool: &Pool) -> io::Result<Started> {
        let may = options.interrupts && self.may_interrupt();
        match self.set_up_with(options, pool, may) {
            // A NIC without a vector for each queue, or whose driver has none: it is polled.
            Err(_) if may => self.set_up_with(options, pool, false),
            done => done,
        }
    }

    /// Whether its queues have to be used at least every 100 ms: messages of the driver's own leave
    /// with packets (LACP).
    pub(super) fn is_tended(&self) -> bool {
        is_bonding(&self.name.to_string_lossy())
    }

    /// Whether it may be asked for interrupts of its receive queues.
    fn may_interrupt(&self) -> bool {
        self.bus == PCI || self.driver.is_some_and(Driver::is_tap)
    }

    fn set_up_with(
        &self,
        options: &PortOptions,
        pool: &Pool,
        interrupts: bool,
    ) -> io::Result<Started> {
        let id = self.id;
        let info = self.information()?;
        let mut conf = sys::rte_eth_conf::default();
        if self.bus == PCI {
            // Drivers of virtual functions know no other way to be told; without it longer
            // frames vanish.
            conf.rxmode.mtu = u32::from(options.mtu.clamp(info.min_mtu, info.max_mtu));
            interrupt::ask_for_link(&info, &mut conf);
        }
        conf.intr_conf.set_rxq(u32::from(interrupts));
        let rx = options.rx_queues.clamp(1, info.max_rx_queues.max(1));
        let tx = options.tx_queues.clamp(1, info.max_tx_queues.max(1));
        let mut spreading = self.spread(&info, rx, &mut conf);
        let offloads = usable(&info, options);
        offloads.ask(&mut conf);
        self.check_buffers(options.mtu, pool)?;
        // SAFETY: as above; `conf` is only read.
        check(unsafe { sys::rte_eth_dev_configure(id, rx, tx, &conf) }, "its configuration")?;
        self.set_up_queues(rx, tx, options.descriptors, pool)?;
        // SAFETY: the device exists and is configured. Not every device knows
        // an MTU or promiscuous mode, and those that do not need none.
        unsafe {
            let status = sys::rte_eth_dev_set_mtu(id, options.mtu);
            self.check_mtu(options.mtu, status)?;
            check(sys::rte_eth_dev_start(id), "to start")?;
            sys::rte_eth_promiscuous_enable(id);
        }
        if let Spreading::Hash { table, .. } = &mut spreading
            && info.reta_size > 0
            && redirect(id, &in_turn(info.reta_size, rx)).is_ok()
        {
            *table = info.reta_size;
        }
        Ok(Started { rx, tx, spreading, offloads, interrupts })
    }

    /// How packets will come to `queues` receive queues; asks for it where it is the device
    /// that spreads.
    fn spread(
        &self,
        info: &sys::rte_eth_dev_info,
        queues: u16,
        conf: &mut sys::rte_eth_conf,
    ) -> Spreading {
        let known = if self.ring.is_some() {
            Some(Spreading::Sender)
        } else {
            self.driver.and_then(|driver| driver.spreading.clone())
        };
        match known {
            Some(known) if queues > 1 => known,
            _ => ask_for_hash(info, queues, conf),
        }
    }

    /// Notes what its driver says of its link.
    pub(super) fn note_link(&self, is_up: bool) {
        if let Some(events) = &self.events {
            events.note_link(is_up);
        }
    }

    /// Whether it is gone, or has to be opened anew: it was unplugged, it asks for a reset,
    /// or the kernel interface behind it does not exist any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.events.as_ref().is_some_and(Events::is_ending)
            || self.interface.as_ref().is_some_and(|interface| !interface.exists())
    }

    /// Whether what is gone may be back later under the same name. What the device itself
    /// has made is not.
    pub(super) fn may_return(&self) -> bool {
        self.bus == PCI || self.driver.is_some_and(|driver| driver.kernel == Kernel::Uses)
    }

    /// Changes of its link that it has told of.
    pub(super) fn link_changes(&self) -> u64 {
        self.events.as_ref().map_or(0, Events::link_changes)
    }

    /// Packets that the kernel has dropped in front of it.
    pub(crate) fn missed_by_kernel(&self) -> u64 {
        self.sockets.missed() + self.xdp_sockets.missed()
    }

    /// Its own MAC address; all zero when it has none.
    pub(crate) fn mac(&self) -> [u8; 6] {
        let mut mac = sys::rte_ether_addr::default();
        // SAFETY: the device exists; `mac` is writable.
        unsafe { sys::rte_eth_macaddr_get(self.id, &mut mac) };
        mac.addr_bytes
    }

    /// The kernel interface behind it.
    pub(super) fn interface(&self) -> Option<&Interface> {
        self.interface.as_ref()
    }

    /// Whether two processes may have what is behind it open.
    pub(super) fn is_shared(&self) -> bool {
        self.driver.is_some_and(|driver| driver.shares)
    }

    /// Whether a program may choose the queue of a packet, one for each of two processes.
    pub(super) fn is_steerable(&self) -> bool {
        self.is_steerable
    }

    /// Whether there is something at the other end of the wire: the other end
    /// of a memory ring, a kernel interface that exists and has a carrier.
    pub(crate) fn is_connected(&self) -> bool {
        self.ring.as_ref().is_none_or(RingEnd::is_connected)
            && self.interface.as_ref().is_none_or(Interface::is_running)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.events = None;
        if *self.is_another_s.get_mut() {
            return;
        }
        self.flows.clear(self.id);
        // SAFETY: the device exists and is not used any more.
        unsafe {
            sys::rte_eth_promiscuous_disable(self.id);
            sys::rte_eth_dev_stop(self.id);
            sys::rte_eth_dev_close(self.id);
        }
        self.xdp_sockets.close();
        unplug(self.bus, &self.name);
    }
}

/// A device as it was started.
struct Started {
    rx: u16,
    tx: u16,
    spreading: Spreading,
    offloads: Offloads,
    /// Whether it was asked for interrupts of its receive queues, and has not refused.
    interrupts: bool,
}

/// What can be used of a device.
fn usable(info: &sys::rte_eth_dev_info, options: &PortOptions) -> Offloads {
    Offloads::choose(info, options.checksums, options.sends_own_buffers)
}

fn check(status: i32, what: &str) -> io::Result<()> {
    match status {
        0 => Ok(()),
        // Many drivers say no more than that.
        -1 => Err(io::Error::other(format!("DPDK refused {what}"))),
        _ => {
            let reason = io::Error::from_raw_os_error(-status);
            Err(io::Error::other(format!("DPDK refused {what}: {reason}")))
        }
    }
}
