//! A node's part in handovers: its agent's messages on a transport.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use weft_mobility_protocol::Incarnation;
use weft_mobility_transport::{Event, Options, Token, Transport};
use weft_node::Handle;
use weft_node::mobility::Mail;
use weft_node_config::Blueprint;

use crate::failure::Failure;

#[derive(clap::Args)]
pub struct HandoverArguments {
    /// Where the controller listens for nodes, as HOST:PORT
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "WEFT_HANDOVER_CONTROLLER",
        requires_all = ["handover_listen", "handover_token_file"]
    )]
    handover_controller: Option<String>,
    /// Where other nodes connect, at the address that the controller tells them
    #[arg(long, value_name = "ADDRESS", env = "WEFT_HANDOVER_LISTEN")]
    handover_listen: Option<SocketAddr>,
    /// File of the token that nodes and controller share
    #[arg(long, value_name = "FILE", env = "WEFT_HANDOVER_TOKEN_FILE")]
    handover_token_file: Option<PathBuf>,
}

/// What is needed to take part.
pub struct Part {
    controller: String,
    listen: SocketAddr,
    token: Token,
}

impl HandoverArguments {
    /// What is needed to take part, if the node is to.
    ///
    /// # Errors
    /// When the token cannot be had, or the configuration says nothing of
    /// handovers.
    pub fn part(self, blueprint: &Blueprint) -> Result<Option<Part>, Failure> {
        let (Some(controller), Some(listen), Some(file)) =
            (self.handover_controller, self.handover_listen, self.handover_token_file)
        else {
            if blueprint.handover.is_some() {
                tracing::warn!("no user moves: no controller is given (--handover-controller)");
            }
            return Ok(None);
        };
        if blueprint.handover.is_none() {
            let reason = "a controller is given, and the configuration has no `handover`";
            return Err(Failure::input(reason));
        }
        let token = Token::load(&file).map_err(Failure::input)?;
        Ok(Some(Part { controller, listen, token }))
    }
}

impl Part {
    /// Takes part until the transport is dropped.
    ///
    /// # Errors
    /// When the address is taken, or the node has stopped.
    pub fn take(
        self,
        blueprint: &Blueprint,
        socket: &Path,
        handle: &Handle,
    ) -> Result<Transport, Failure> {
        let life = incarnation(&socket.with_extension("incarnation"))?;
        let joined = handle.ask(move |agent| agent.join_handover(life));
        let Mail { to_node, from_node, waker } =
            joined.map_err(Failure::broken)?.map_err(Failure::input)?;
        let plan = blueprint.handover.as_ref();
        let options = Options {
            node: plan.map(|plan| plan.node).unwrap_or_default(),
            name: blueprint.name.clone(),
            listen: self.listen,
            token: self.token,
            controller: Some(self.controller),
            places: Vec::new(),
            timing: plan.map(|plan| plan.timing).unwrap_or_default(),
        };
        let deliver = move |event| match event {
            Event::Message(envelope) => {
                let taken = to_node.send(envelope).is_ok();
                waker.wake();
                taken
            }
            Event::Connected(_) | Event::Lost(_) => true,
        };
        let transport = Transport::start(options, deliver).map_err(Failure::input)?;
        let sender = transport.sender();
        let post = thread::Builder::new().name("post".to_owned());
        // Ends with the node.
        let pass = move || from_node.iter().for_each(|envelope| sender.send(envelope));
        post.spawn(pass).map_err(Failure::broken)?;
        Ok(transport)
    }
}

/// A number that no life of this node has had: the seconds since 1970, or one more
/// than the last, which a file remembers.
fn incarnation(file: &Path) -> Result<Incarnation, Failure> {
    let last = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // Enough until 2106.
    let now = u32::try_from(now).unwrap_or(u32::MAX);
    let life = last.map_or(now, |last| now.max(last.saturating_add(1)));
    fs::write(file, life.to_string())
        .map_err(|error| Failure::input(format!("{}: {error}", file.display())))?;
    Ok(Incarnation(life))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_life_has_a_higher_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.incarnation");
        let first = incarnation(&file).unwrap();
        let second = incarnation(&file).unwrap();
        assert!(second > first);
        // The clock was ahead once.
        fs::write(&file, "4000000000").unwrap();
        assert_eq!(incarnation(&file).unwrap(), Incarnation(4_000_000_001));
    }
}
