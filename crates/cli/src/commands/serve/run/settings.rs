//! What a controller says of how a node is to run, and what the node says of how it runs and
//! what it carries.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_functions::KINDS;
use weft_management_api::busy;
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::{Load, Report, Sender, note::Note};
use weft_node::show::Snapshot;
use weft_node::{Handle, Refused};
use weft_node_config as config;

/// How often the node says how it runs.
const EVERY: Duration = Duration::from_secs(1);
/// How long a change waits for one that is under way.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);
/// Looks that the node's load is of, one a second.
const LOOKS: usize = 6;
/// Characters of a reason that is told.
const REASON: usize = 500;

/// A node's configuration, as a controller says it.
pub struct Settings {
    /// What it is known by.
    pub generation: u64,
    /// YAML.
    pub text: String,
}

/// Takes settings where the node has registered, and tells how it runs and what it carries,
/// until it stops.
///
/// # Errors
/// When the machine has no thread for it.
pub fn follow(
    name: String,
    node: Handle,
    controller: Sender,
    (registers, told): (bool, Receiver<Settings>),
) -> std::io::Result<JoinHandle<()>> {
    let work = move || {
        let mut report = Report::default();
        let mut looks = VecDeque::new();
        let mut next = Instant::now() + EVERY;
        loop {
            match told.recv_timeout(next.saturating_duration_since(Instant::now())) {
                // Settings are said again until they are reported.
                Ok(settings) if settings.generation == report.generation => {}
                Ok(settings) => match take(&name, &node, &settings.text) {
                    Ok(()) => {
                        tracing::info!("the node runs as its controller says");
                        report.generation = settings.generation;
                        (report.refused, report.reason) = (0, String::new());
                    }
                    Err(reason) => {
                        tracing::warn!("settings of the controller are refused: {reason}");
                        report.refused = settings.generation;
                        report.reason = reason.chars().take(REASON).collect();
                    }
                },
                Err(RecvTimeoutError::Timeout) => next = Instant::now() + EVERY,
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let Ok(snapshot) = node.ask(|agent| agent.snapshot()) else { return };
            let load = carried(&mut looks, snapshot);
            (report.received, report.dropped) = (load.received, load.dropped);
            // Without a connection there is none to tell.
            if registers {
                controller.note(NodeId::CONTROLLER, &Note::Report(report.clone()));
            }
            controller.note(NodeId::CONTROLLER, &Note::Load(load));
        }
    };
    thread::Builder::new().name("settings".to_owned()).spawn(work)
}

/// What the node carries, by this look and those of the seconds before.
fn carried(looks: &mut VecDeque<Snapshot>, now: Snapshot) -> Load {
    let busy = looks.front().and_then(|before| busy(before, &now));
    let load = Load {
        uptime: now.uptime,
        received: now.received(),
        dropped: now.drops.iter().map(|drop| drop.packets).sum(),
        busy: busy.map(|share| (share.clamp(0.0, 1.0) * f64::from(Load::WHOLE)) as u16),
    };
    looks.push_back(now);
    if looks.len() > LOOKS {
        looks.pop_front();
    }
    load
}

/// Lets the node run so, whole or not at all; otherwise says in one line why it does not.
fn take(name: &str, node: &Handle, text: &str) -> Result<(), String> {
    let since = Instant::now();
    loop {
        let blueprint = config::read(text, "settings", KINDS);
        let blueprint = blueprint
            .map_err(|mistakes| mistakes.0.first().map_or_else(String::new, ToString::to_string))?;
        if blueprint.name != name {
            return Err(format!("they are those of the node `{}`", blueprint.name));
        }
        match node.ask(move |agent| agent.apply(blueprint)) {
            Ok(Ok(_)) => break,
            Ok(Err(Refused::Busy)) if since.elapsed() < PATIENCE => thread::sleep(PAUSE),
            Ok(Err(refused)) => return Err(refused.to_string()),
            Err(stopped) => return Err(stopped.to_string()),
        }
    }
    while !node.ask(|agent| agent.is_settled()).map_err(|stopped| stopped.to_string())? {
        if since.elapsed() > PATIENCE {
            return Err("workers did not take the change over in time".to_owned());
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}
