//! `weft control`: a controller, until it is told to stop.

mod n4;

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use weft_http::socket::controller_path;
use weft_mobility_controller::Controller;
use weft_mobility_controller::config::Configuration;

use super::page::PageArguments;
use crate::failure::Failure;
use crate::notify::ServiceManager;
use crate::number::counted;
use crate::signals::Termination;
use crate::{node_file, output};

#[derive(clap::Args)]
pub struct Arguments {
    /// Configuration of the controller
    #[arg(value_name = "CONTROLLER.yaml")]
    file: PathBuf,
    /// The controller's socket, where not at its usual place
    #[arg(long, value_name = "PATH", env = "WEFT_CONTROLLER_SOCKET")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    page: PageArguments,
}

/// How often its threads are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Why it comes to its end.
enum End {
    Signal(&'static str),
    Failed(String),
}

/// Runs the controller.
///
/// # Errors
/// Whatever keeps it from starting, and records that cannot be written.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let configuration = Configuration::load(&arguments.file)?;
    node_file::warn(&configuration.warnings);
    let termination = Termination::catch()?;
    let socket = arguments.socket.unwrap_or_else(|| controller_path(called(&configuration)));
    let what = summary(&configuration);
    let (tell, end) = mpsc::channel();
    let failed = tell.clone();
    let page = arguments.page.options()?;
    let plan = configuration.n4.clone();
    let controller = Controller::start(configuration, socket, page.as_ref(), move |error| {
        // The receiver waits below for as long as the controller runs.
        let _ = failed.send(End::Failed(error.to_string()));
    })?;
    let start = |plan| {
        n4::Serving::start(arguments.file.clone(), plan, controller.handle(), controller.n4())
    };
    let n4 = plan.map(start).transpose().map_err(Failure::broken)?;
    let api = controller.api().map_or(String::new(), |address| format!(", API {address}"));
    let page = controller.page().map_or(String::new(), |url| format!(", page {url}"));
    let (nodes, socket) = (controller.address(), controller.socket().display());
    // The controller runs on when its output is closed.
    let _ = output::line(&format!("{what}; nodes {nodes}, socket {socket}{api}{page}"));
    thread::spawn(move || tell.send(End::Signal(termination.wait())));
    let mut manager = ServiceManager::of_environment();
    manager.ready();
    let end = loop {
        match end.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            end => break end,
        }
        if let Some(thread) = controller.dead() {
            // Why it did may still be on its way.
            let reason = format!("the thread {thread} has ended by a panic");
            break end.try_recv().or(Ok(End::Failed(reason)));
        }
        if n4.as_ref().is_some_and(n4::Serving::is_dead) {
            break Ok(End::Failed("the thread n4-lead has ended by a panic".to_owned()));
        }
        manager.alive();
    };
    manager.stopping();
    drop(n4);
    controller.stop();
    match end {
        Ok(End::Failed(reason)) => Err(Failure::broken(reason)),
        Ok(End::Signal(signal)) => {
            tracing::info!("stopped after {signal}");
            Ok(())
        }
        Err(_) => Err(Failure::broken("the thread that waits for signals has ended")),
    }
}

/// What its socket is called after.
fn called(configuration: &Configuration) -> &str {
    configuration.replica().map_or(&configuration.name, |replica| &replica.name)
}

fn summary(configuration: &Configuration) -> String {
    let replica = configuration.replica();
    let replica = replica.map_or(String::new(), |replica| format!(", replica {}", replica.name));
    format!("controller {} is ready: {}{replica}", configuration.name, counts(configuration))
}

/// Of how many nodes and users a configuration speaks.
pub fn counts(configuration: &Configuration) -> String {
    let users: u64 = configuration.users.iter().map(|users| users.count).sum();
    format!("{}, {}", counted(configuration.nodes.len() as u64, "node"), counted(users, "user"))
}
