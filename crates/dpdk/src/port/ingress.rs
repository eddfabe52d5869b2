//! What a port on a kernel interface takes in, opened and shut beneath its driver, while two
//! processes have the interface open.

mod packets;
mod tap;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use self::packets::Sockets;
use self::tap::Tap;
use super::Port;
use super::sockets::descriptors;

pub use self::packets::await_delivery;
pub use self::tap::may_steer;

/// Which of two processes a packet comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The one that had the interface before.
    First,
    /// The one that came to it.
    Second,
}

/// What one port takes in.
#[derive(Debug)]
pub struct Ingress(Kind);

#[derive(Debug)]
enum Kind {
    Packets(Sockets),
    Tap(Tap),
}

impl Port {
    /// What the port takes in, where another process may take it in as well: at `net_af_packet`
    /// devices, and at `net_tap` devices with one queue. None elsewhere. This process is `holder`.
    ///
    /// # Errors
    /// When what the driver receives by cannot be found.
    pub fn ingress(&self, holder: Holder) -> io::Result<Option<Ingress>> {
        let device = &self.open.device;
        let Some(interface) = device.interface() else { return Ok(None) };
        if device.is_shared() {
            let sockets = Sockets::of_interface(interface.index())?;
            return Ok(Some(Ingress(Kind::Packets(sockets))));
        }
        match self.has_one_queue() && device.is_steerable() {
            true => {
                let tap = Tap::of_interface(&interface.name(), holder)?;
                Ok(Some(Ingress(Kind::Tap(tap))))
            }
            false => Ok(None),
        }
    }

    /// Whether another process may open its device as well. Nothing comes to that before it
    /// [opens](Ingress::open) what the port takes in: the device is prepared for that now.
    pub fn admits_another(&self) -> bool {
        let ingress = self.ingress(Holder::First);
        ingress.ok().flatten().is_some_and(|ingress| match ingress.0 {
            Kind::Packets(_) => true,
            Kind::Tap(tap) => tap.steer(Holder::First).is_ok(),
        })
    }

    fn has_one_queue(&self) -> bool {
        self.rx_queues() == 1 && self.tx_queues() == 1
    }
}

impl Ingress {
    /// Takes in nothing any more, once another process does. What was taken in before can still be
    /// received.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn shut(&self) -> io::Result<()> {
        match &self.0 {
            Kind::Packets(sockets) => sockets.shut(),
            Kind::Tap(tap) => tap.shut(),
        }
    }

    /// Takes in everything (again).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(&self) -> io::Result<()> {
        match &self.0 {
            Kind::Packets(sockets) => sockets.open(),
            Kind::Tap(tap) => tap.open(),
        }
    }

    /// Whether a packet may come to both processes.
    pub fn copies(&self) -> bool {
        matches!(self.0, Kind::Packets(_))
    }
}

/// Closes what the process has of ports from the one that has started it: it is that one's, and
/// what is done to it is done to its ports. To be called before any port is opened.
///
/// # Errors
/// When descriptors cannot be listed.
pub fn close_inherited() -> io::Result<()> {
    for number in descriptors()? {
        if packets::is_packet_socket(number) || tap::is_tap_queue(number) {
            // SAFETY: this process has opened no such descriptor: nothing else uses it.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
    Ok(())
}

fn outcome(status: libc::c_int) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
