//! A node without a share has that of a node at another machine.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use weft_dataplane::worker::{Direct, Worker};
use weft_dpdk::{Eal, Holder, Ingress};
use weft_node_config::Blueprint;
use weft_state::Store;

use super::super::conversation::{Kind, PortTransfer, UpgradeError};
use super::built::Built;
use super::{Predecessor, TakeOverError};
use crate::agent::{FORMAT, OfferedShare, check_functions};
use crate::node::Node;

/// How long packets that come directly wait at most for those that the node before relays.
const RELAYED: Duration = Duration::from_millis(100);
/// Pause when nothing comes.
const PAUSE: Duration = Duration::from_micros(50);
/// How often it is looked what the controller has decided.
const LOOK: Duration = Duration::from_millis(20);
/// How long the other node may take to say that the share is not its any more, where nothing else
/// is heard of that.
const DECISION: Duration = Duration::from_secs(5);

/// What a controller has decided of the move; none while it has not.
pub type Verdict<'a> = &'a mut dyn FnMut() -> Option<bool>;

impl Predecessor {
    /// Hears what the node at the other end of `stream` has.
    ///
    /// # Errors
    /// When it gives no share away, or says something else.
    pub fn hear_share(stream: UnixStream) -> Result<Predecessor, TakeOverError> {
        let heard = Predecessor::hear(stream)?;
        match heard.offer.share {
            Some(_) => Ok(heard),
            None => Err(UpgradeError::Foreign("a node without a share").into()),
        }
    }

    /// Gives this configuration the share, in place of its own addresses, and asks for the rest.
    ///
    /// # Errors
    /// [`TakeOverError::Conversation`] with what cannot be had.
    pub fn accept_share(&mut self, blueprint: &mut Blueprint) -> Result<(), TakeOverError> {
        if let Err(why) = self.check_share(blueprint) {
            self.refuse(&why);
            return Err(UpgradeError::Refused(why).into());
        }
        self.ask_for_all(blueprint)
    }

    fn check_share(&self, blueprint: &mut Blueprint) -> Result<(), String> {
        let format = self.offer.format;
        if !(1..=FORMAT).contains(&format) {
            let release = &self.offer.release;
            return Err(format!(
                "the other node (release {release}) speaks format {format}, this one {FORMAT}"
            ));
        }
        let room = blueprint.pfcp.as_ref().map_or(0, |pfcp| pfcp.sessions as u64);
        if self.offer.sessions > room.min(blueprint.limits.users.into()) {
            return Err(format!(
                "the spare node has room for {} sessions (`pfcp.limits.sessions`, \
                 `limits.users`), and the other one has {}",
                room.min(blueprint.limits.users.into()),
                self.offer.sessions
            ));
        }
        for offered in &self.offer.functions {
            let mut own = blueprint.functions.iter();
            if !own.any(|own| own.name == offered.name && own.kind.name == offered.function) {
                return Err(format!(
                    "the spare node has no function `{}` ({})",
                    offered.name, offered.function
                ));
            }
        }
        check_functions(&self.offer, blueprint)?;
        self.share().put_into(blueprint)
    }

    fn share(&self) -> OfferedShare {
        self.offer.share.clone().unwrap_or_default()
    }

    /// Builds the node and has the share: when this returns, packets that the other node relays
    /// were carried before those that came directly. `verdict` is asked what the controller has
    /// decided. Returns for how long packets have waited at most, too.
    ///
    /// # Errors
    /// [`TakeOverError`]; the share is the other node's.
    pub fn take_share(
        mut self,
        eal: &Eal,
        blueprint: Blueprint,
        store: Option<Store>,
        verdict: Verdict<'_>,
    ) -> Result<(Node, Duration), TakeOverError> {
        let outcome = self.try_to_take_share(eal, (blueprint, store), verdict);
        if let Err(error) = &outcome {
            let text = error.to_string();
            self.refuse(text.split("; the node goes on").next().unwrap_or_default());
        }
        outcome
    }

    fn try_to_take_share(
        &mut self,
        eal: &Eal,
        (blueprint, store): (Blueprint, Option<Store>),
        verdict: Verdict<'_>,
    ) -> Result<(Node, Duration), TakeOverError> {
        let mut built = self.build(eal, (blueprint, store), PortTransfer::Elsewhere)?;
        built.wait_for_functions()?;
        let ingress = shut(&built.node)?;
        built.node.workers.iter_mut().for_each(Worker::discard_received);
        self.conversation.say(Kind::Ready, &[PortTransfer::Elsewhere.octet()])?;
        self.conversation.hear_only(Kind::Open)?;
        let since = Instant::now();
        built.node.workers.iter_mut().for_each(Worker::discard_received);
        ingress.iter().try_for_each(Ingress::open)?;
        self.conversation.say(Kind::Opened, &macs(&built.node)?)?;
        loop {
            match self.conversation.hear()? {
                (Kind::Contexts, octets) => built.import(&octets)?,
                (Kind::Drained, _) => break,
                _ => return Err(UpgradeError::Foreign("not its turn to say that").into()),
            }
        }
        built.settle(&self.offer);
        self.conversation.say(Kind::Taken, &[])?;
        self.hear_decision(verdict)?;
        let waited = since.elapsed();
        carry_in_order(&mut built, &self.share());
        Ok((built.node, waited))
    }

    /// Hears of the other node or of the controller that the share is this node's. Where the other
    /// node is gone, only the controller knows.
    fn hear_decision(&mut self, verdict: Verdict<'_>) -> Result<(), UpgradeError> {
        let until = Instant::now() + DECISION;
        let mut is_there = true;
        self.conversation.wait_at_most(LOOK)?;
        loop {
            match verdict() {
                Some(true) => return Ok(()),
                Some(false) => {
                    let why = "the controller has given the move up";
                    return Err(UpgradeError::Refused(why.to_owned()));
                }
                None if !is_there => thread::sleep(LOOK),
                None => {}
            }
            if !is_there {
                continue;
            }
            match self.conversation.hear() {
                Ok((Kind::Yours, _)) => return Ok(()),
                Err(UpgradeError::Gone(error)) if error.kind() == io::ErrorKind::TimedOut => {
                    is_there = Instant::now() < until;
                }
                // What it says now decides nothing.
                _ => is_there = false,
            }
        }
    }
}

/// Shuts the ports that can be shut.
fn shut(node: &Node) -> io::Result<Vec<Ingress>> {
    let mut shut = Vec::new();
    for port in node.agent.ports.iter() {
        let ingress = port.port_device().ingress(Holder::First)?.filter(Ingress::copies);
        ingress.iter().try_for_each(Ingress::shut)?;
        shut.extend(ingress);
    }
    Ok(shut)
}

/// The MAC addresses of the ports, by name.
fn macs(node: &Node) -> io::Result<Vec<u8>> {
    let offered = |port: &crate::ports::PortControl| {
        Some((port.name().to_owned(), port.port_device().offered()?.mac))
    };
    let macs: HashMap<String, [u8; 6]> = node.agent.ports.iter().filter_map(offered).collect();
    serde_json::to_vec(&macs).map_err(io::Error::other)
}

/// Says that the addresses are here, and carries what the node before relays ahead of what comes
/// directly.
fn carry_in_order(built: &mut Built, share: &OfferedShare) {
    let Node { agent, workers, .. } = &mut built.node;
    let by_name: HashMap<&str, [u8; 6]> =
        share.ports.iter().map(|port| (&*port.name, port.mac)).collect();
    let sources: Vec<Option<[u8; 6]>> =
        agent.ports.iter().map(|port| by_name.get(port.name()).copied()).collect();
    let source = |port: u16| sources.get(usize::from(port)).copied().flatten();
    let of_share =
        |name: &str| share.ports.iter().any(|p| p.name == name && !p.addresses.is_empty());
    let numbered = agent.ports.iter().enumerate();
    let mut open: HashSet<u16> = numbered
        .filter(|(_, port)| of_share(port.name()))
        .map(|(number, _)| number as u16)
        .collect();
    let mut directs: Vec<Direct> = workers.iter().map(|_| Direct::default()).collect();
    let until = Instant::now() + RELAYED;
    agent.announce();
    loop {
        let (mut is_busy, mut is_short) = (false, false);
        for (worker, direct) in workers.iter_mut().zip(&mut directs) {
            let ended = &mut |port| _ = open.remove(&port);
            let round = worker.carry_relayed(direct, &source, ended);
            is_busy |= round.is_busy;
            is_short |= round.is_short;
        }
        is_busy |= agent.poll();
        if open.is_empty() || is_short || Instant::now() >= until {
            break;
        }
        if !is_busy {
            thread::sleep(PAUSE);
        }
    }
    let direct: usize = directs.iter().map(Direct::waiting).sum();
    tracing::debug!(direct, ports = open.len(), "packets that came directly have waited");
    // What was relayed before the last word of that is in the queues.
    for (worker, direct) in workers.iter_mut().zip(&mut directs) {
        worker.carry_relayed(direct, &source, &mut |_| ());
        worker.carry_direct(direct);
    }
}
