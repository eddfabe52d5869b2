//! A private Open vSwitch: a database and a switch with files, sockets and
//! processes of their own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Failure;
use crate::network::iproute::succeed;

/// The database's tables, as the package installs them.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Seconds that a program may take to answer.
const PATIENCE: &str = "--timeout=20";

/// A database and a switch. Dropping it ends both and removes their files.
#[derive(Debug)]
pub struct Instance {
    directory: PathBuf,
    daemons: Vec<Child>,
}

/// How a switch is started.
#[derive(Clone, Copy, Debug)]
pub struct Switch<'a> {
    /// Its program.
    pub program: &'a str,
    /// Words before it: where it runs.
    pub place: &'a [&'a str],
    /// What the database says of it before it starts, as `column:key=value`.
    pub settings: &'a [&'a str],
}

impl Instance {
    /// Starts both, in a new directory.
    ///
    /// # Errors
    /// When the directory is there already, or a program does not start.
    pub fn start(directory: PathBuf, switch: &Switch<'_>) -> Result<Instance, Failure> {
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let mut instance = Instance { directory, daemons: Vec::new() };
        let (database, socket) = (instance.path("conf.db"), instance.path("db.sock"));
        succeed(instance.command("ovsdb-tool").args(["create", &database, SCHEMA]))?;
        instance.spawn("ovsdb-server", &[], &[&database, &format!("--remote=punix:{socket}")])?;
        instance.configure("--no-wait init")?;
        if !switch.settings.is_empty() {
            let words = ["--no-wait", "set", "Open_vSwitch", "."];
            instance.set(&[&words, switch.settings].concat())?;
        }
        instance.spawn(switch.program, switch.place, &[&format!("unix:{socket}")])?;
        Ok(instance)
    }

    /// Runs words of ovs-vsctl, and waits until the switch has done as they say.
    ///
    /// # Errors
    /// When the switch refuses or does not answer.
    pub fn configure(&self, words: &str) -> Result<(), Failure> {
        self.set(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// The same with words that may hold spaces.
    ///
    /// # Errors
    /// As [`Instance::configure`].
    pub fn set(&self, words: &[&str]) -> Result<(), Failure> {
        let database = format!("--db=unix:{}", self.path("db.sock"));
        let mut command = self.command("ovs-vsctl");
        command.args(["--retry", PATIENCE, &database]).args(words);
        succeed(&mut command).map_err(|error| self.explain(error))
    }

    /// Adds a flow to a bridge.
    ///
    /// # Errors
    /// When the bridge refuses it or does not answer.
    pub fn add_flow(&self, bridge: &str, flow: &str) -> Result<(), Failure> {
        // A name with slashes is a socket's, so no bridge of the system's is meant.
        let socket = format!("unix:{}", self.path(&format!("{bridge}.mgmt")));
        succeed(self.command("ovs-ofctl").args([PATIENCE, "add-flow", &socket, flow]))
            .map_err(|error| self.explain(error))
    }

    /// What a port of a bridge has counted, in the words of ovs-ofctl.
    ///
    /// # Errors
    /// When the bridge does not answer.
    pub fn ports(&self, bridge: &str, port: usize) -> Result<String, Failure> {
        let socket = format!("unix:{}", self.path(&format!("{bridge}.mgmt")));
        let mut command = self.command("ovs-ofctl");
        command.args([PATIENCE, "dump-ports", &socket, &port.to_string()]);
        let output = command.output().map_err(|error| format!("ovs-ofctl: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                Err(self.explain(format!("ovs-ofctl dump-ports: {said}").into()))
            }
        }
    }

    /// Starts a daemon, behind the words of `place`.
    fn spawn(&mut self, program: &str, place: &[&str], words: &[&str]) -> Result<(), Failure> {
        // It dies with us, however we end; Ctrl-C at the terminal is not for it.
        let mut command = self.command("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(place).arg(program).args(words);
        for (option, file) in [("unixctl", "ctl"), ("pidfile", "pid")] {
            command.arg(format!("--{option}={}", self.path(&format!("{}.{file}", base(program)))));
        }
        command.args(["--no-chdir", "-vsyslog:off", "-vfile:off", "-vconsole:err"]);
        let said = File::create(self.log(base(program)))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|error| format!("{program}: setpriv: {error}"))?;
        self.daemons.push(child);
        Ok(())
    }

    /// A program that knows no directory but ours.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, &self.directory);
        }
        command
    }

    /// Adds to an error what a daemon last complained of.
    fn explain(&self, error: Failure) -> Failure {
        let last = |path: &Path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
        };
        let said = ["ovs-vswitchd", "ovs-vswitchd-dpdk", "ovsdb-server"]
            .map(|program| last(&self.log(program)));
        match said.into_iter().flatten().next() {
            Some(said) => format!("{error} ({said})").into(),
            None => error,
        }
    }

    fn log(&self, program: &str) -> PathBuf {
        self.directory.join(format!("{program}.log"))
    }

    fn path(&self, file: &str) -> String {
        self.directory.join(file).display().to_string()
    }
}

/// The name of a program's file.
fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The switch goes before its database.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
