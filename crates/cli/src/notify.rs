//! What a service manager is told (sd_notify(3)), where one started the command.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The service manager; says nothing where there is none.
#[derive(Clone)]
pub struct ServiceManager {
    socket: Option<Arc<UnixDatagram>>,
    /// How often it wants to hear that all is well, and when it heard so last.
    alive: Option<(Duration, Option<Instant>)>,
}

impl ServiceManager {
    /// The one that the environment names (`NOTIFY_SOCKET`, `WATCHDOG_USEC`).
    pub fn of_environment() -> ServiceManager {
        let socket = env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty());
        let socket = socket.and_then(|name| match connect(&name) {
            Ok(socket) => Some(Arc::new(socket)),
            Err(error) => {
                tracing::warn!("the service manager is not told: NOTIFY_SOCKET {name}: {error}");
                None
            }
        });
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let limit = number("WATCHDOG_USEC").filter(|limit| is_ours && *limit > 0);
        // Twice as often as it asks for, as sd_watchdog_enabled(3) recommends.
        let alive = limit.map(|limit| (Duration::from_micros(limit / 2), None));
        ServiceManager { socket, alive }
    }

    /// The command does what it was started for.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// What the command does goes on in that process.
    pub fn has_main_process(&self, process: u32) {
        self.tell(&format!("MAINPID={process}"));
    }

    /// The command comes to its end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// All is well. May be called as often as one likes.
    pub fn alive(&mut self) {
        let Some((pause, last)) = &mut self.alive else { return };
        let now = Instant::now();
        if last.is_none_or(|last| now.duration_since(last) >= *pause) {
            *last = Some(now);
            self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, what: &str) {
        if let Some(Err(error)) = self.socket.as_ref().map(|socket| socket.send(what.as_bytes())) {
            tracing::debug!(%error, "the service manager was not told {what}");
        }
    }
}

/// A name that begins with `@` is of no file (unix(7), abstract).
fn connect(name: &str) -> io::Result<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold up the node.
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_files_or_abstract() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let abstract_name = format!("weft-notify-{}", std::process::id());
        let there = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let sockets = [
            (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
            (UnixDatagram::bind_addr(&there).unwrap(), format!("@{abstract_name}")),
        ];
        for (manager, name) in sockets {
            let alive = Some((Duration::from_secs(3600), None));
            let mut told = ServiceManager { socket: Some(connect(&name).unwrap().into()), alive };
            told.ready();
            told.alive();
            told.alive();
            told.stopping();
            manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let heard: Vec<_> = (0..3)
                .map(|_| {
                    let mut text = [0; 64];
                    let length = manager.recv(&mut text).unwrap();
                    String::from_utf8_lossy(&text[..length]).into_owned()
                })
                .collect();
            assert_eq!(heard, ["READY=1", "WATCHDOG=1", "STOPPING=1"], "once an hour");
        }
        assert!(connect("/nowhere/at/all").is_err());
    }
}
