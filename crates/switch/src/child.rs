//! A switch in a process of its own, started from here; it ends with this one.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weft_vf::{SOFTWARE, Switch};

use crate::statistics::Statistics;

/// How long a switch may take to be there, and to go.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Why it is not there.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program.
    #[error("{SOFTWARE} {switch}: {program} cannot be started: {error}")]
    Program {
        /// The switch.
        switch: String,
        /// The program.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// It ended at once, and said why.
    #[error("{SOFTWARE} {switch}: its process ended ({status})")]
    Ended {
        /// The switch.
        switch: String,
        /// How.
        status: ExitStatus,
    },
    /// It does not answer.
    #[error("{SOFTWARE} {switch}: it was not there after {PATIENCE:?}")]
    Late {
        /// The switch.
        switch: String,
    },
}

/// The process of a switch.
#[derive(Debug)]
pub struct Child {
    switch: Switch,
    shared: Arc<Shared>,
    supervisor: Option<JoinHandle<()>>,
}

/// What its supervisor knows.
#[derive(Debug, Default)]
struct Shared {
    /// Whether it has answered.
    ready: AtomicBool,
    /// Whether it is to end.
    stop: AtomicBool,
    ended: Mutex<Option<ExitStatus>>,
}

impl Child {
    /// Starts `program vf switch FILE NAME --once`, and waits until it answers. `file` is the
    /// configuration that has the switch. `told` is called when the process ends by itself
    /// later on.
    ///
    /// # Errors
    /// [`ChildError`].
    pub fn start(
        program: &Path,
        file: &Path,
        switch: &Switch,
        told: impl FnOnce(ExitStatus) + Send + 'static,
    ) -> Result<Child, ChildError> {
        let failed = |error| ChildError::Program {
            switch: switch.name.clone(),
            program: program.display().to_string(),
            error,
        };
        let mut command = Command::new(program);
        command.args(["vf", "switch"]).arg(file).arg(&switch.name).arg("--once");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let (shared, (tell, spawned)) = (Arc::new(Shared::default()), channel());
        let known = shared.clone();
        // The process ends with the thread that starts it (PR_SET_PDEATHSIG), so that one
        // stays.
        let supervisor =
            thread::Builder::new().name(format!("switch-{}", switch.name)).spawn(move || {
                match weft_dpdk::keep_from_children().and_then(|()| command.spawn()) {
                    Ok(process) => {
                        let _ = tell.send(Ok(process.id()));
                        keep(process, &known, told);
                    }
                    Err(error) => drop(tell.send(Err(error))),
                }
            });
        let supervisor = Some(supervisor.map_err(failed)?);
        let child = Child { switch: switch.clone(), shared, supervisor };
        let id = spawned.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        child.wait(id.map_err(failed)?)?;
        Ok(child)
    }

    /// Waits until the process of that number answers.
    fn wait(&self, id: u32) -> Result<(), ChildError> {
        let switch = || self.switch.name.clone();
        let until = Instant::now() + PATIENCE;
        // Another switch may have the sockets.
        while !Statistics::ask(&self.switch).is_ok_and(|one| one.process == id) {
            if let Some(status) = *lock(&self.shared.ended) {
                return Err(ChildError::Ended { switch: switch(), status });
            }
            if Instant::now() >= until {
                return Err(ChildError::Late { switch: switch() });
            }
            thread::sleep(PAUSE);
        }
        self.shared.ready.store(true, Ordering::Release);
        Ok(())
    }

    /// What it has counted.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn statistics(&self) -> io::Result<Statistics> {
        Statistics::ask(&self.switch)
    }
}

/// Sees the process to its end.
fn keep(mut process: process::Child, shared: &Shared, told: impl FnOnce(ExitStatus)) {
    while !shared.stop.load(Ordering::Acquire) {
        if let Ok(Some(status)) = process.try_wait() {
            *lock(&shared.ended) = Some(status);
            if shared.ready.load(Ordering::Acquire) {
                told(status);
            }
            return;
        }
        thread::sleep(PAUSE);
    }
    // Asked first, it takes its sockets along.
    let _ = kill_process(Pid::from_child(&process), Signal::TERM);
    let until = Instant::now() + PATIENCE;
    while process.try_wait().is_ok_and(|status| status.is_none()) {
        if Instant::now() >= until {
            let _ = process.kill();
            let _ = process.wait();
            return;
        }
        thread::sleep(PAUSE);
    }
}

fn lock(ended: &Mutex<Option<ExitStatus>>) -> MutexGuard<'_, Option<ExitStatus>> {
    ended.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Child {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(supervisor) = self.supervisor.take() {
            // A panic there was logged.
            let _ = supervisor.join();
        }
    }
}

/// The program that is a switch when it is asked to: this one, or what `WEFT_PROGRAM` names.
pub fn program() -> PathBuf {
    let named = std::env::var_os("WEFT_PROGRAM").map(PathBuf::from);
    named.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| "weft".into())
}
