//! The kernel's side of a port: the network interface behind it.
//!
//! The drivers for kernel interfaces call their link up for ever. What is true
//! is asked of the kernel here, in the network namespace in which the port was
//! opened, whatever the namespace of the thread that asks.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

/// `SIOCGIFTXQLEN` and `SIOCSIFTXQLEN` (linux/sockios.h).
const GET_QUEUE_LENGTH: libc::Ioctl = 0x8942;
const SET_QUEUE_LENGTH: libc::Ioctl = 0x8943;

/// A network interface that existed when the port was opened.
pub(crate) struct Interface {
    name: [libc::c_char; libc::IFNAMSIZ],
    /// Another interface may get the same name later; never the same index.
    index: i32,
    /// Any socket: it remembers the network namespace.
    socket: UnixDatagram,
}

impl Interface {
    /// The interface `name` in the network namespace of this thread.
    ///
    /// # Errors
    /// What the kernel says, `ENODEV` when there is none of that name.
    pub(crate) fn find(name: &str) -> io::Result<Interface> {
        let mut bytes = [0; libc::IFNAMSIZ];
        if name.len() >= bytes.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in bytes.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let socket = UnixDatagram::unbound()?;
        let mut interface = Interface { name: bytes, index: 0, socket };
        // SAFETY: SIOCGIFINDEX fills in the index.
        interface.index = unsafe { interface.ask(libc::SIOCGIFINDEX)?.ifru_ifindex };
        Ok(interface)
    }

    /// Whether it still exists.
    pub(crate) fn exists(&self) -> bool {
        // SAFETY: SIOCGIFINDEX fills in the index.
        let index = unsafe { self.ask(libc::SIOCGIFINDEX).map(|answer| answer.ifru_ifindex) };
        index.is_ok_and(|index| index == self.index)
    }

    /// Whether it still exists, is up, and has a carrier.
    pub(crate) fn is_running(&self) -> bool {
        let running = libc::IFF_UP | libc::IFF_RUNNING;
        // SAFETY: SIOCGIFINDEX fills in the index, SIOCGIFFLAGS the flags.
        unsafe {
            self.ask(libc::SIOCGIFINDEX).is_ok_and(|answer| answer.ifru_ifindex == self.index)
                && self
                    .ask(libc::SIOCGIFFLAGS)
                    .is_ok_and(|answer| i32::from(answer.ifru_flags) & running == running)
        }
    }

    /// The name that it had.
    pub(crate) fn name(&self) -> CString {
        let octets = self.name.iter().map(|octet| *octet as u8);
        CString::new(octets.take_while(|octet| *octet != 0).collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Its index, which no other interface has.
    pub(crate) fn index(&self) -> i32 {
        self.index
    }

    /// Lets the kernel send packets of up to `mtu` bytes there.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = mtu.into();
        // SAFETY: SIOCSIFMTU reads one `ifreq`.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCSIFMTU, &mut request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Lets so many packets wait there for who receives them, unless more do already. The kernel
    /// may refuse, and fewer do.
    pub(crate) fn lengthen_queue(&self, packets: libc::c_int) {
        // SAFETY: SIOCGIFTXQLEN fills in one int, which all integers of the union begin with.
        let now = unsafe { self.ask(GET_QUEUE_LENGTH).map(|answer| answer.ifru_metric) };
        if now.is_ok_and(|now| now < packets) {
            let mut request = self.request();
            request.ifr_ifru.ifru_metric = packets;
            // SAFETY: SIOCSIFTXQLEN reads one `ifreq`.
            unsafe { libc::ioctl(self.socket.as_raw_fd(), SET_QUEUE_LENGTH, &mut request) };
        }
    }

    /// A command of ethtool's about it.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Safety
    /// The command is one that reads and writes a `T` (`linux/ethtool.h`).
    pub(super) unsafe fn ethtool<T>(&self, command: &mut T) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_data = (&raw mut *command).cast();
        // SAFETY: as the caller promises; the structure outlives the call.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) }
        {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A request about it.
    fn request(&self) -> libc::ifreq {
        // SAFETY: all bytes zero are a valid request.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_name = self.name;
        request
    }

    fn ask(&self, what: libc::Ioctl) -> io::Result<libc::__c_anonymous_ifr_ifru> {
        let mut request = self.request();
        // SAFETY: these calls read and write one `ifreq`.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), what, &mut request) } {
            0 => Ok(request.ifr_ifru),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// What the kernel or its NIC does to packets of the interface `name` that makes them longer than
/// a wire carries, or leaves their checksums open: `tso`, `gso`, `gro`, `lro`, `tx-checksum`.
/// Not told are those that are off, or that the kernel has no answer for.
///
/// # Errors
/// As the kernel says, `ENODEV` when there is no such interface.
pub fn kernel_offloads(name: &str) -> io::Result<Vec<&'static str>> {
    // ethtool.h: ETHTOOL_GTSO, _GGSO, _GGRO, _GTXCSUM, _GFLAGS with ETH_FLAG_LRO.
    const ASKED: [(&str, u32, u32); 5] = [
        ("tso", 0x1e, !0),
        ("gso", 0x23, !0),
        ("gro", 0x2b, !0),
        ("lro", 0x25, 1 << 15),
        ("tx-checksum", 0x16, !0),
    ];
    let interface = Interface::find(name)?;
    let is_on = |(_, command, bits): &&(&str, u32, u32)| {
        let mut value = [*command, 0];
        // SAFETY: these commands read and write a `struct ethtool_value`, two words.
        let answered = unsafe { interface.ethtool(&mut value) };
        answered.is_ok() && value[1] & bits != 0
    };
    Ok(ASKED.iter().filter(is_on).map(|(name, ..)| *name).collect())
}

impl std::fmt::Debug for Interface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Interface({})", self.index)
    }
}
