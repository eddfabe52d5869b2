//! `--spare`: the node waits, without users and addresses, until another one gives it its share.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use weft_dpdk::Eal;
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::note::{Note, Share, ShareStep};
use weft_mobility_transport::{Event, Options, Sender, Timing, Transport, direct};
use weft_node::{Node, Predecessor};
use weft_node_config::Blueprint;

use super::handover::Part;
use super::take_over::Taken;
use crate::failure::Failure;
use crate::notify::ServiceManager;
use crate::output;
use crate::signals::Termination;

/// How often the controller hears that the node is spare.
const EVERY: Duration = Duration::from_secs(1);
/// How long one round of waiting takes.
const LOOK: Duration = Duration::from_millis(50);
/// How long the other node may take to connect.
const COMING: Duration = Duration::from_secs(20);

/// What is needed to wait.
struct Waiting<'a> {
    eal: &'static Eal,
    blueprint: &'a Blueprint,
    options: &'a Options,
    sender: Sender,
    told: Receiver<Share>,
    listener: TcpListener,
    /// What the controller is told: where others connect, and where N4 finds the node.
    address: String,
    /// By which the controller tells this process from the one before it: hashed under keys of the
    /// system's random numbers.
    process: u64,
}

/// Waits until the node has a share; nothing if it is told to stop.
///
/// # Errors
/// What it lacks for that.
pub fn wait(
    eal: &'static Eal,
    blueprint: &mut Blueprint,
    part: Option<&Part>,
    (termination, manager): (&Termination, &mut ServiceManager),
) -> Result<Option<Taken>, Failure> {
    let wrong = |what: &str| Failure::input(format!("--spare: {what}"));
    let site = blueprint.site.as_ref().ok_or_else(|| wrong("the configuration has no `site`"))?;
    let part = part.ok_or_else(|| wrong("no controller is given (--handover-controller)"))?;
    let pfcp = blueprint.pfcp.as_ref().ok_or_else(|| wrong("the configuration has no `pfcp`"))?;
    if blueprint.state.is_some() {
        return Err(wrong("a node that takes shares keeps nothing: leave `state` out"));
    }
    let n4 = pfcp.listen.first().copied().ok_or_else(|| wrong("`pfcp.listen` is empty"))?;
    let options = part.clone().options(site.node, &blueprint.name, Timing::default());
    let advertised = options.registration.as_ref().and_then(|said| said.address.rsplit_once(':'));
    let Some((host, _)) = advertised else {
        return Err(wrong("nodes are not told where it is (--handover-advertise)"));
    };
    let listener = direct::listen(options.listen.ip()).map_err(Failure::input)?;
    let port = listener.local_addr().map_err(Failure::input)?.port();
    let address = address_of(host, port, n4);
    let (tell, told) = mpsc::channel();
    let deliver = move |event| match event {
        Event::Share(_, share) => tell.send(share).is_ok(),
        _ => true,
    };
    let transport = Transport::start(options.clone(), deliver).map_err(Failure::input)?;
    let described = blueprint.clone();
    let waiting = Waiting {
        eal,
        blueprint: &described,
        options: &options,
        sender: transport.sender(),
        told,
        listener,
        address,
        process: RandomState::new().hash_one(std::process::id()),
    };
    let _ = output::line(&format!("node {} is spare and waits for a share", blueprint.name));
    manager.ready();
    waiting.run(blueprint, (termination, manager))
}

fn address_of(host: &str, port: u16, n4: IpAddr) -> String {
    format!("{host}:{port} {n4}")
}

impl Waiting<'_> {
    fn run(
        &self,
        taken: &mut Blueprint,
        (termination, manager): (&Termination, &mut ServiceManager),
    ) -> Result<Option<Taken>, Failure> {
        let (mut said, mut last) = (None::<Instant>, 0);
        loop {
            manager.alive();
            if said.is_none_or(|said| said.elapsed() >= EVERY) {
                said = Some(Instant::now());
                let (id, address) = (self.process.into(), self.address.clone());
                self.say(Share { id, step: ShareStep::Spare, address, ..Share::default() });
            }
            if let Some(signal) = termination.wait_for(Duration::ZERO) {
                tracing::info!("stopping after {signal}");
                return Ok(None);
            }
            let Ok(told) = self.told.recv_timeout(LOOK) else { continue };
            if told.step != ShareStep::Take {
                continue;
            }
            if told.id == last {
                self.abort(told.id, "it has failed before".to_owned());
                continue;
            }
            last = told.id;
            tracing::info!(from = told.name, "a share comes");
            match self.take(&told) {
                Ok((node, blueprint, waited)) => {
                    *taken = blueprint;
                    let (owning, switches) = (None, Vec::new());
                    return Ok(Some(Taken { node, waited: Some(waited), owning, switches }));
                }
                Err(reason) => {
                    tracing::warn!("no share was taken: {reason}");
                    self.abort(told.id, reason);
                }
            }
        }
    }

    fn take(&self, told: &Share) -> Result<(Node, Blueprint, Duration), String> {
        let shared = direct::Shared {
            token: self.options.token.clone(),
            security: self.options.security.clone(),
            id: told.id,
            peer: told.name.clone(),
        };
        let stream = direct::accept(&self.listener, shared, COMING);
        let stream = stream.map_err(|error| format!("{} does not connect: {error}", told.name))?;
        let mut predecessor = Predecessor::hear_share(stream).map_err(|error| error.to_string())?;
        let mut blueprint = self.blueprint.clone();
        predecessor.accept_share(&mut blueprint).map_err(|error| error.to_string())?;
        let mut asked = Instant::now();
        let mut verdict = || {
            if asked.elapsed() >= EVERY {
                asked = Instant::now();
                let (id, step) = (told.id, ShareStep::Asks);
                self.say(Share { id, step, ..Share::default() });
            }
            let mut of_move = self.told.try_iter().filter(|one| one.id == told.id);
            of_move.find_map(|one| match one.step {
                ShareStep::Committed => Some(true),
                ShareStep::Aborted => Some(false),
                _ => None,
            })
        };
        let described = blueprint.clone();
        let taken = predecessor.take_share(self.eal, blueprint, None, &mut verdict);
        let (node, waited) = taken.map_err(|error| error.to_string())?;
        Ok((node, described, waited))
    }

    fn abort(&self, id: u128, reason: String) {
        self.say(Share { id, step: ShareStep::Aborts, reason, ..Share::default() });
    }

    fn say(&self, share: Share) {
        self.sender.note(NodeId::CONTROLLER, &Note::Share(share));
    }
}
