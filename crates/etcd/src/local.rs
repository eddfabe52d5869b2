//! Members of etcd on this machine, for tests and benches: processes of their own with their
//! own folder, on loopback, ended with what holds them.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::Options;

/// How long members may take until they answer, on a machine that has much to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Some members of one cluster.
#[derive(Debug)]
pub struct Members {
    folder: PathBuf,
    /// Ports for clients and for other members.
    ports: Vec<(u16, u16)>,
    running: Vec<Option<Child>>,
    options: Vec<String>,
}

/// Whether there is an etcd (Debian package `etcd-server`).
pub fn is_installed() -> bool {
    let version = Command::new("etcd").arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

impl Members {
    /// Starts so many members, which keep what they have in `folder`, with further options of
    /// etcd, and waits until they answer.
    ///
    /// # Errors
    /// What the system says; and when they do not answer.
    pub fn start(folder: &Path, count: usize, options: &[&str]) -> io::Result<Members> {
        // Held together, so that no two are the same.
        let free: Vec<_> =
            (0..2 * count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        let ports: Result<Vec<_>, io::Error> =
            free.iter().map(|free| Ok(free.local_addr()?.port())).collect();
        let ports = ports?.chunks(2).map(|two| (two[0], two[1])).collect();
        drop(free);
        let mut members = Members {
            folder: folder.to_owned(),
            ports,
            running: (0..count).map(|_| None).collect(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        };
        for nth in 0..count {
            members.begin(nth)?;
        }
        members.wait()?;
        Ok(members)
    }

    /// How to reach them.
    pub fn options(&self, prefix: &str) -> Options {
        let url = |(client, _): &(u16, u16)| format!("http://127.0.0.1:{client}");
        let endpoints = self.ports.iter().map(url).collect();
        Options { endpoints, tls: None, prefix: prefix.to_owned() }
    }

    /// Starts one that was killed; it may take a moment until it answers.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(&mut self, nth: usize) -> io::Result<()> {
        let (client, peer) = self.ports[nth];
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let others = self.ports.iter().enumerate();
        let cluster: Vec<_> =
            others.map(|(nth, (_, peer))| format!("m{nth}={}", url(*peer))).collect();
        let file = self.folder.join(format!("m{nth}.log"));
        let log = fs::File::options().create(true).append(true).open(file)?;
        // It ends with the thread that has started it, however that ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "etcd", "--logger", "zap", "--name"])
            .arg(format!("m{nth}"))
            .arg("--data-dir")
            .arg(self.folder.join(format!("m{nth}")))
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer)])
            .args(["--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.running[nth] = Some(child);
        Ok(())
    }

    /// Kills one (SIGKILL).
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(&mut self, nth: usize) -> io::Result<()> {
        if let Some(mut child) = self.running[nth].take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Waits until a member takes writes.
    fn wait(&mut self) -> io::Result<()> {
        let began = Instant::now();
        let client = self.ports[0].0;
        loop {
            let put = Command::new("curl")
                .args(["-fsS", "--max-time", "5", "-X", "POST", "-d"])
                .arg(r#"{"key": "cmVhZHk=", "value": "eWVz"}"#)
                .arg(format!("http://127.0.0.1:{client}/v3/kv/put"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?;
            if put.success() {
                return Ok(());
            }
            for child in self.running.iter_mut().flatten() {
                if let Some(status) = child.try_wait()? {
                    return Err(io::Error::other(format!("etcd has ended: {status}")));
                }
            }
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other("etcd does not answer"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for nth in 0..self.running.len() {
            // It may have ended by itself.
            let _ = self.kill(nth);
        }
    }
}
