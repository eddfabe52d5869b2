//! Where no NIC has virtual functions: `software VF`, a switch in a process of its own that
//! stands in for the one in the NIC. This is what a configuration says of it; what carries
//! frames is another crate's.

use std::path::PathBuf;

use crate::VirtualFunction;

/// What a software VF is called wherever it is shown, so that no reader takes it for a NIC's.
pub const SOFTWARE: &str = "software VF";

/// Frames that the queue of a virtual function holds, at either side of the switch.
pub const QUEUE: u16 = 1024;

/// Octets of a path that a UNIX socket can have (unix(7)).
pub const SOCKET_PATH: usize = 107;

/// Numbers of its devices begin here, past those of other devices of the same driver.
const FIRST: usize = 2000;

/// A switch, and the virtual functions that it gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Name in the configuration.
    pub name: String,
    /// Folder of its sockets.
    pub sockets: PathBuf,
    /// The processor core that it has; left to the kernel if none.
    pub core: Option<usize>,
    /// Whether it sleeps while there is nothing to do.
    pub sleeps: bool,
    /// Whether the node starts it.
    pub started: bool,
    /// Number of its first virtual function among those of all switches.
    pub first: usize,
    /// The virtual functions.
    pub functions: Vec<Share>,
}

/// A virtual function, and its share of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// What it is like.
    pub function: VirtualFunction,
    /// Frames per second that it can send, and as many that it is sent.
    pub rate: u64,
}

impl Switch {
    /// The socket of a virtual function of this name.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.sockets.join(format!("{name}.sock"))
    }

    /// Where the switch says what it has counted. No virtual function can have this name.
    pub fn statistics(&self) -> PathBuf {
        self.sockets.join("_switch.sock")
    }

    /// The device string by which a process has the virtual function of this name.
    pub fn device(&self, name: &str) -> Option<String> {
        let number = self.functions.iter().position(|share| share.function.name == name)?;
        let mac = crate::written(self.functions[number].function.mac);
        let (number, path) = (FIRST + self.first + number, self.socket(name));
        Some(format!(
            "net_virtio_user{number},path={},mac={mac},queues=1,queue_size={QUEUE},packed_vq=1,\
             mrg_rxbuf=0,in_order=1",
            path.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_says_where_and_who_it_is() {
        let mac = [2, 0, 0, 0, 1, 1];
        let function = VirtualFunction { name: "b".into(), mac, trust: false, spoof_check: true };
        let first = VirtualFunction { name: "a".into(), mac: [2, 0, 0, 0, 1, 0], ..function };
        let function = VirtualFunction { name: "b".into(), mac, ..first.clone() };
        let functions = [first, function].map(|function| Share { function, rate: 1000 }).into();
        let (name, sockets) = ("soft".to_owned(), PathBuf::from("/run/x"));
        let switch =
            Switch { name, sockets, core: None, sleeps: false, started: true, first: 3, functions };
        let device = switch.device("b").unwrap();
        assert!(
            device.starts_with("net_virtio_user2004,path=/run/x/b.sock,mac=02:00:00:00:01:01,"),
            "{device}"
        );
        assert_eq!(switch.device("c"), None);
    }
}
