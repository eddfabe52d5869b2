//! The queues of a kernel interface (ethtool's channels). AF_XDP sockets are bound to them, and
//! a packet that comes to another one does not reach the node.

use std::fmt;
use std::io;

use crate::error::invalid;
use crate::port::interface::Interface;

/// `ETHTOOL_GCHANNELS` and `ETHTOOL_SCHANNELS` (`linux/ethtool.h`).
const GET: u32 = 0x3c;
const SET: u32 = 0x3d;

/// `struct ethtool_channels`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Channels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

impl Channels {
    /// Of an interface; none where its driver has none to set.
    fn of(interface: &Interface) -> Option<Channels> {
        let mut channels = Channels { command: GET, ..Channels::default() };
        // SAFETY: the command reads and writes a `struct ethtool_channels`.
        unsafe { interface.ethtool(&mut channels) }.ok()?;
        (channels.receive() > 0).then_some(channels)
    }

    /// Queues that packets come to.
    fn receive(self) -> u32 {
        self.combined + self.rx
    }

    /// The most of those.
    fn most(self) -> u32 {
        self.max_combined.max(self.max_rx)
    }

    /// The same with so many receive queues; none where there cannot be.
    fn with_receive(self, queues: u32) -> Option<Channels> {
        if self.max_combined >= queues {
            return Some(Channels { combined: queues, rx: 0, ..self });
        }
        let apart = self.max_combined == 0 && self.max_rx >= queues;
        apart.then_some(Channels { rx: queues, ..self })
    }

    /// What ethtool(8) is told to have them so.
    fn words(self) -> String {
        match self.combined {
            0 => format!("rx {}", self.rx),
            combined => format!("combined {combined}"),
        }
    }
}

/// Another number of queues that an interface should have for a port.
#[derive(Debug)]
pub(in crate::port) struct Wanted {
    interface: Interface,
    name: String,
    before: Channels,
    after: Channels,
    /// Whether packets would be lost otherwise.
    pub(in crate::port) is_needed: bool,
}

impl Wanted {
    /// For a port on the interface `name` with so many receive queues, where packets are lost in
    /// others if `is_needed`; none where the interface has them, or there is no such interface.
    ///
    /// # Errors
    /// When the interface cannot have them and packets would be lost otherwise.
    pub(in crate::port) fn of(
        name: &str,
        queues: u16,
        is_needed: bool,
    ) -> io::Result<Option<Wanted>> {
        let Some(interface) = Interface::find(name).ok() else { return Ok(None) };
        let Some(before) = Channels::of(&interface) else { return Ok(None) };
        let wanted = u32::from(queues);
        // Sockets of AF_PACKET are given what comes to any queue; more of them are faster.
        if before.receive() == wanted || !is_needed && before.receive() > wanted {
            return Ok(None);
        }
        let after = before.with_receive(wanted);
        if is_needed && wanted > 1 && before.max_combined == 0 {
            return Err(invalid(format!(
                "AF_XDP takes several queues of an interface with combined channels only \
                 (ethtool -l {name}); queues: 1, or AF_PACKET"
            )));
        }
        match after {
            Some(after) => {
                let name = name.to_owned();
                Ok(Some(Wanted { interface, name, before, after, is_needed }))
            }
            None if is_needed => {
                let most = before.most();
                Err(invalid(format!("{name} has at most {most} queues, not {queues}")))
            }
            None => Ok(None),
        }
    }

    /// Queues that packets come to as it is.
    pub(in crate::port) fn now(&self) -> u16 {
        u16::try_from(self.before.receive()).unwrap_or(u16::MAX)
    }

    /// Has it so until what is returned goes.
    ///
    /// # Errors
    /// When the kernel does not allow it, with the command that does it.
    pub(in crate::port) fn give(self) -> io::Result<Given> {
        let mut after = Channels { command: SET, ..self.after };
        // SAFETY: the command reads a `struct ethtool_channels`.
        match unsafe { self.interface.ethtool(&mut after) } {
            Ok(()) => Ok(Given { interface: self.interface, before: self.before }),
            Err(reason) => Err(invalid(format!("{self} ({reason})"))),
        }
    }
}

/// As an operator is told of it.
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, has, words) = (&self.name, self.before.receive(), self.after.words());
        let receives = if has == 1 { "1 queue" } else { &format!("{has} queues") };
        write!(f, "{name} receives by {receives}: ethtool -L {name} {words}")
    }
}

/// An interface that was given another number of queues; it gets back what it had.
#[derive(Debug)]
pub(in crate::port) struct Given {
    interface: Interface,
    before: Channels,
}

impl Drop for Given {
    fn drop(&mut self) {
        // Another one of that name had other queues.
        if self.interface.exists() {
            // SAFETY: as in `give`. One that goes meanwhile has nothing to get back.
            let _ =
                unsafe { self.interface.ethtool(&mut Channels { command: SET, ..self.before }) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combined_channels_go_before_those_of_one_direction() {
        let both = Channels { max_combined: 8, combined: 8, ..Channels::default() };
        let two = both.with_receive(2).unwrap();
        assert_eq!((two.combined, two.rx, &*two.words()), (2, 0, "combined 2"));
        assert_eq!(both.with_receive(9), None);
        let apart = Channels { max_rx: 4, max_tx: 4, rx: 4, tx: 3, ..Channels::default() };
        let one = apart.with_receive(1).unwrap();
        // What is sent is not touched.
        assert_eq!((one.rx, one.tx, &*one.words()), (1, 3, "rx 1"));
        assert_eq!(apart.with_receive(5), None);
    }
}
