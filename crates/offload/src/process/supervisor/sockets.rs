//! What a function process attaches to: its ring, and the socket beside it.

use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use weft_dataplane::offload::WINDOW;
use weft_dpdk::{Eal, Pool, Port, PortOptions};

use super::gate::Gate;
use super::plan::{Plan, StartError};
use super::process;
use crate::frame::ROOM;
use crate::process::{control_path, inner_path};

/// The sockets of one function process.
pub(super) struct Sockets {
    /// Where the process is heard.
    pub listener: UnixListener,
    /// The node's end of the ring; none where packets go through a NIC.
    pub port: Option<Port>,
    /// Stands before the ring.
    pub gate: Option<Gate>,
    /// Packet memory of what comes and goes.
    pub pool: Pool,
}

impl Sockets {
    /// Makes them anew, in place of those that an earlier process left.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn open(eal: &Eal, plan: &Plan<'_>) -> Result<Sockets, StartError> {
        eal.contain_truncation().map_err(|error| StartError::at(&plan.ring, error))?;
        let (control, inner) = (control_path(&plan.ring), inner_path(&plan.ring));
        if let Some(folder) = plan.ring.parent() {
            std::fs::create_dir_all(folder).map_err(|error| StartError::at(folder, error))?;
        }
        for path in [&plan.ring, &inner, &control] {
            process::remove_stale(path).map_err(|error| StartError::at(path, error))?;
        }
        let at_control = |error| StartError::at(&control, error);
        let listener = UnixListener::bind(&control).map_err(at_control)?;
        listener.set_nonblocking(true).map_err(at_control)?;
        // What comes back has a header around it, and every packet may come back.
        let buffers = 4 * WINDOW as u32 * plan.workers as u32 - 1;
        let pool = Pool::with_room(eal, plan.instance, buffers, ROOM)?;
        let port = match plan.fabric {
            Some(_) => None,
            None => Some(ring(eal, plan, &inner.display().to_string(), &pool)?),
        };
        // Behind the port: what it listens at must be there when a function connects.
        let gate = port.as_ref().map(|_| Gate::start(plan.instance, &plan.ring, inner));
        let gate = gate.transpose().map_err(|error| StartError::at(&plan.ring, error))?;
        let sockets = [&plan.ring, &control];
        for path in &sockets[usize::from(port.is_none())..] {
            // A process that may write to a socket may attach.
            chown(path, plan.user, plan.user).map_err(|error| StartError::at(path, error))?;
        }
        Ok(Sockets { listener, port, gate, pool })
    }
}

/// The node's end of a ring at the socket `path`.
fn ring(eal: &Eal, plan: &Plan<'_>, path: &str, pool: &Pool) -> Result<Port, StartError> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let number = 1000 + SERIAL.fetch_add(1, Ordering::Relaxed);
    let workers = plan.workers as u16;
    let device = format!("net_vhost{number},iface={path},queues={workers}");
    let options = PortOptions {
        rx_queues: workers,
        tx_queues: workers,
        descriptors: WINDOW as u16,
        mtu: PortOptions::PLAIN_MTU,
        ..PortOptions::default()
    };
    Ok(Port::open(eal, &device, &options, pool)?)
}

/// Puts ring and control socket that lie at one path in the place of those at another.
///
/// # Errors
/// When the file system does not let us.
pub(super) fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(control_path(from), control_path(to))?;
    match fs::rename(from, to) {
        // Behind a NIC there is no ring.
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn who_comes_finds_the_sockets_that_were_put_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("f.sock"), folder.path().join("f.sock.7"));
        let bind = |ring: &Path| {
            [control_path(ring), ring.to_owned()].map(|path| UnixListener::bind(path).unwrap())
        };
        let (of_old, of_new) = (bind(&old), bind(&new));
        put_in_place(&new, &old).unwrap();
        for (path, (old, new)) in [control_path(&old), old].iter().zip(of_old.iter().zip(&of_new)) {
            let _stream = UnixStream::connect(path).unwrap();
            new.accept().unwrap();
            old.set_nonblocking(true).unwrap();
            assert_eq!(old.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        assert!(!control_path(&new).exists() && !new.exists());
    }
}
