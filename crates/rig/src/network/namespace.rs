//! A network namespace, as a container has one.
//!
//! To the network a container is a namespace of its own with an end of a veth pair
//! in it (`network_namespaces(7)`). A container has a control group, too
//! (`machine::control_group`); a file system image and another user lie on no packet's way.

use std::fs::File;
use std::os::fd::AsFd;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Failure;
use crate::Rig;
use crate::network::iproute::ip;

/// The name of a switch in it.
const BRIDGE: &str = "switch";

/// A network namespace. It is gone when it is dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one.
    ///
    /// # Errors
    /// Without the rights for it, or without iproute2.
    pub fn new(rig: &Rig) -> Result<Namespace, Failure> {
        let namespace = Namespace { name: format!("wn{}-{}", std::process::id(), rig.serial()) };
        ip(&["netns", "add", &namespace.name])?;
        Ok(namespace)
    }

    /// Moves an interface into it, and sets it up.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn take(&self, interface: &str) -> Result<(), Failure> {
        ip(&["link", "set", interface, "netns", &self.name])?;
        ip(&["-n", &self.name, "link", "set", interface, "up"])
    }

    /// Makes one with a switch in it (a bridge of the kernel).
    ///
    /// # Errors
    /// As [`Namespace::new`].
    pub fn with_bridge(rig: &Rig) -> Result<Namespace, Failure> {
        let namespace = Namespace::new(rig)?;
        ip(&["-n", &namespace.name, "link", "add", BRIDGE, "type", "bridge"])?;
        ip(&["-n", &namespace.name, "link", "set", BRIDGE, "up"])?;
        Ok(namespace)
    }

    /// Moves an interface into it, and connects it with the switch.
    ///
    /// # Errors
    /// When there is no such interface, or no switch.
    pub fn join_bridge(&self, interface: &str) -> Result<(), Failure> {
        self.take(interface)?;
        ip(&["-n", &self.name, "link", "set", interface, "master", BRIDGE])
    }

    /// Runs `work` in a thread that lives in it; threads that this one starts do so,
    /// too, and sockets stay in the namespace they were opened in.
    ///
    /// # Errors
    /// When it cannot be entered, and those of the work.
    pub fn within<T: Send>(
        &self,
        rig: &Rig,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let path = format!("/run/netns/{}", self.name);
        let file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
        thread::scope(|scope| {
            let work = scope.spawn(|| {
                let _registration = rig.eal.register_thread();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .map_err(|error| format!("{path}: cannot enter the namespace: {error}"))?;
                work().map_err(|error| error.to_string())
            });
            let done = work.join().map_err(|_| "the thread in a namespace panicked".to_owned());
            Ok(done??)
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // With it its interfaces go, and with these their other ends.
        let _ = ip(&["netns", "delete", &self.name]);
    }
}
