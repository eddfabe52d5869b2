//! The share of a node behind N4 goes to a spare node: the node's part in that.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use weft_dpdk::Eal;
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::note::{Note, Share, ShareStep};
use weft_mobility_transport::{Security, Sender, Token, direct};
use weft_node::bearer::session::Keep;
use weft_node::{GivenShare, Running};
use weft_pfcp::Server;

use crate::failure::Failure;

/// How often the controller is asked what it has decided.
const ASK: Duration = Duration::from_millis(200);
/// How often the log says that it has not.
const REMINDER: Duration = Duration::from_secs(5);

/// What a node is told of shares, and how it answers.
pub struct Shares {
    pub told: Receiver<Share>,
    pub controller: Sender,
    pub token: Token,
    pub security: Option<Security>,
    /// Whether the node's share is that of its own file.
    pub is_at_home: bool,
    /// Says at the next start where the share is.
    pub mark: Mark,
    /// The last move that it has taken part in.
    pub last: Cell<u128>,
}

/// What has become of a node's share.
pub enum Gone {
    /// Another node has it by now.
    Given(GivenShare),
    /// Another node has had it since before.
    Elsewhere(String),
}

impl Shares {
    /// Does what the controller says.
    pub fn look_after(
        &self,
        eal: &'static Eal,
        running: &mut Running,
        pfcp: Option<&Server>,
    ) -> Option<Gone> {
        let told = self.told.try_recv().ok()?;
        match told.step {
            ShareStep::Give if told.id != self.last.get() => {
                self.last.set(told.id);
                match self.give(&told, eal, running, pfcp) {
                    Ok(given) => {
                        self.mark.put(&told.name);
                        return Some(Gone::Given(given));
                    }
                    Err(reason) => {
                        tracing::warn!("the share stays: {reason}");
                        self.abort(told.id, reason);
                    }
                }
            }
            // It was said before this process has given the move up.
            ShareStep::Give => self.abort(told.id, "it has failed before".to_owned()),
            ShareStep::Elsewhere if self.is_at_home => {
                self.mark.put(&told.name);
                return Some(Gone::Elsewhere(told.name));
            }
            _ => {}
        }
        None
    }

    fn give(
        &self,
        told: &Share,
        eal: &'static Eal,
        running: &mut Running,
        pfcp: Option<&Server>,
    ) -> Result<GivenShare, String> {
        tracing::info!(to = told.name, "the share goes to another node");
        let shared = direct::Shared {
            token: self.token.clone(),
            security: self.security.clone(),
            id: told.id,
            peer: told.name.clone(),
        };
        let stream = direct::dial(told.address.clone(), shared);
        let stream =
            stream.map_err(|error| format!("{} at {}: {error}", told.name, told.address))?;
        let mut giving = Giving { shares: self, id: told.id, pfcp };
        running.give_share(eal, stream, &mut giving).map_err(|error| error.to_string())
    }

    fn abort(&self, id: u128, reason: String) {
        self.say(Share { id, step: ShareStep::Aborts, reason, ..Share::default() });
    }

    fn say(&self, share: Share) {
        self.controller.note(NodeId::CONTROLLER, &Note::Share(share));
    }

    /// Waits until a controller has decided that the other node has the share, or that it stays:
    /// for as long as none leads, nothing is known. It hears how many packets are `waiting`, which
    /// go to no other node.
    fn decision(&self, id: u128, waiting: usize) -> Result<(), String> {
        let dropped = u32::try_from(waiting).unwrap_or(u32::MAX);
        let (mut asked, mut said) = (None::<Instant>, Instant::now());
        loop {
            if asked.is_none_or(|asked| asked.elapsed() >= ASK) {
                asked = Some(Instant::now());
                self.say(Share { id, step: ShareStep::Commits, dropped, ..Share::default() });
            }
            match self.told.recv_timeout(ASK) {
                Ok(told) if told.id == id && told.step == ShareStep::Committed => return Ok(()),
                Ok(told) if told.id == id && told.step == ShareStep::Aborted => {
                    return Err("the controller has given the move up".to_owned());
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(ASK),
            }
            if said.elapsed() >= REMINDER {
                said = Instant::now();
                tracing::warn!("no controller says who has the share: packets wait");
            }
        }
    }
}

/// What speaks for the node while its share goes.
struct Giving<'a> {
    shares: &'a Shares,
    id: u128,
    pfcp: Option<&'a Server>,
}

impl weft_node::Beside for Giving<'_> {
    fn pause(&mut self) -> Result<Vec<Keep>, String> {
        self.pfcp.map_or(Ok(Vec::new()), Server::pause)
    }

    fn resume(&mut self) {
        if let Some(pfcp) = self.pfcp {
            pfcp.resume();
        }
    }

    fn before_yours(&mut self, _: u32, waiting: usize) -> Result<Vec<u8>, String> {
        self.shares.decision(self.id, waiting).map(|()| Vec::new())
    }
}

/// A file that says that the share of a node is at another one: a process that starts must not have
/// its addresses.
#[derive(Clone)]
pub struct Mark(PathBuf);

impl Mark {
    /// That of the node at this socket: beside it, or where systemd keeps what lasts.
    pub fn of(node: &str, socket: &Path) -> Mark {
        let folders = std::env::var_os("STATE_DIRECTORY");
        let folder = folders.and_then(|all| std::env::split_paths(&all).next());
        let lasts = folder.map(|folder| folder.join(format!("{node}.share")));
        Mark(lasts.unwrap_or_else(|| socket.with_extension("share")))
    }

    fn put(&self, holder: &str) {
        if let Err(error) = fs::write(&self.0, holder) {
            let file = self.0.display();
            tracing::error!(%file, "{error}: the node may start with addresses of {holder}");
        }
    }

    /// The node begins without its share.
    pub fn clear(&self) {
        // There need not be one.
        let _ = fs::remove_file(&self.0);
    }

    /// Refuses to start with a share that another node has.
    ///
    /// # Errors
    /// Which one has it.
    pub fn check(&self) -> Result<(), Failure> {
        let Ok(holder) = fs::read_to_string(&self.0) else { return Ok(()) };
        Err(elsewhere(&holder, Some(&self.0)))
    }
}

/// Why a node ends, or does not start.
pub fn elsewhere(holder: &str, file: Option<&Path>) -> Failure {
    let holder: String = holder.chars().filter(|c| !c.is_control()).take(64).collect();
    let file = file.map(|file| format!("; if {holder} has lost it, remove {}", file.display()));
    Failure::input(format!(
        "the node's share of N4 is at {holder}: start it as a spare node (`weft run --spare`), and \
         drain {holder} to have a share here{}",
        file.unwrap_or_default()
    ))
}
