//! A node's part in handovers: its agent's messages on a transport.

use std::cell::Cell;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use weft_http::tls::Mutual;
use weft_mobility_protocol::{Incarnation, NodeId};
use weft_mobility_transport::{Event, Options, Registration, Security, Timing, Token, Transport};
use weft_node::Handle;
use weft_node::mobility::Mail;
use weft_node_config::Blueprint;

use super::orders::{self, Orders};
use super::questions::{self, ControlPlanes, Told};
use super::settings::{self, Settings};
use super::share::{Mark, Shares};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct HandoverArguments {
    /// Where the controller listens for nodes, as HOST:PORT; all of its replicas, with commas
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        env = "WEFT_HANDOVER_CONTROLLER",
        requires_all = ["handover_listen", "handover_token_file"]
    )]
    handover_controller: Vec<String>,
    /// Where other nodes connect, at the address that the controller tells them
    #[arg(long, value_name = "ADDRESS", env = "WEFT_HANDOVER_LISTEN")]
    handover_listen: Option<SocketAddr>,
    /// File of the token that nodes and controller share
    #[arg(long, value_name = "FILE", env = "WEFT_HANDOVER_TOKEN_FILE")]
    handover_token_file: Option<PathBuf>,
    /// Register with the controller: other nodes connect to this one at HOST:PORT. It need not
    /// be in the controller's file, and takes what documents say of it
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "WEFT_HANDOVER_ADVERTISE",
        requires = "handover_controller"
    )]
    handover_advertise: Option<String>,
    /// What this node can carry, in packets a second, as `weft model` says of a calibrated
    /// machine; stations are given users in that proportion
    #[arg(
        long,
        value_name = "PACKETS",
        env = "WEFT_HANDOVER_CAPACITY",
        requires = "handover_advertise"
    )]
    handover_capacity: Option<u64>,
}

/// Takes part until it is dropped.
pub struct Joined {
    transport: Transport,
    /// Where users move.
    post: Option<JoinHandle<()>>,
    /// Takes settings of the controller, and tells it how the node runs and what it carries.
    reporter: JoinHandle<()>,
    /// Lets another process have the node when the controller says so.
    orders: JoinHandle<()>,
    /// Answers what the controller asks.
    questions: JoinHandle<()>,
    /// Lets another node have its share.
    pub shares: Shares,
    /// The server of control planes, by which it is said which sessions there are.
    pub control_planes: ControlPlanes,
}

impl Joined {
    /// Says why the controller cannot move users here, if it cannot.
    pub fn hindrance(&self) -> impl Fn() -> Option<&'static str> + Send + Sync + use<> {
        let controller = self.transport.sender();
        move || {
            let is_there = controller.is_connected(NodeId::CONTROLLER);
            (!is_there).then_some("no controller is connected")
        }
    }

    /// The thread of it that has ended, if one has.
    pub fn dead(&self) -> Option<&'static str> {
        let is_finished = self.post.as_ref().is_some_and(JoinHandle::is_finished);
        let post = is_finished.then_some("post");
        let post = post.or(self.reporter.is_finished().then_some("settings"));
        let post = post.or(self.orders.is_finished().then_some("orders"));
        let post = post.or(self.questions.is_finished().then_some("questions"));
        post.or_else(|| self.transport.is_finished().then_some("handover"))
    }
}

/// What is needed to take part.
#[derive(Clone)]
pub struct Part {
    controllers: Vec<String>,
    listen: SocketAddr,
    token: Token,
    security: Option<Security>,
    registration: Option<Registration>,
    /// Whether the node's share of N4 is that of its file.
    pub is_at_home: bool,
}

impl HandoverArguments {
    /// What is needed to take part, if the node of the configuration in `path` is to.
    ///
    /// # Errors
    /// When token or certificates cannot be had, the configuration says nothing of handovers,
    /// or connections would be in plain text that it does not allow.
    pub fn part(&self, blueprint: &Blueprint, path: &Path) -> Result<Option<Part>, Failure> {
        let registration = self.registration()?;
        let controllers = self.handover_controller.clone();
        let (false, Some(listen), Some(file)) =
            (controllers.is_empty(), self.handover_listen, &self.handover_token_file)
        else {
            if blueprint.handover.is_some() {
                tracing::warn!("no user moves: no controller is given (--handover-controller)");
            }
            return Ok(None);
        };
        let handover = blueprint.handover.as_ref();
        let handover = handover.map(|plan| ("handover", &plan.security, plan.plaintext));
        let standby = blueprint.standby.as_ref();
        let standby = standby.map(|plan| ("standby", &plan.security, plan.plaintext));
        let site = blueprint.site.as_ref();
        let site = site.map(|plan| ("site", &plan.security, plan.plaintext));
        let Some((section, security, plaintext)) = handover.or(standby).or(site) else {
            let reason = "a controller is given, and the configuration has neither `handover`, \
                          `standby` nor `site`";
            return Err(Failure::input(reason));
        };
        let is_near = listen.ip().is_loopback() && controllers.iter().all(|one| is_loopback(one));
        if security.is_none() && !plaintext && !is_near {
            return Err(Failure::input(format!(
                "connections would go without encryption, and contexts have keys in them: give \
                 `{section}.tls`; `{section}.plaintext: true` is for a network that is trusted"
            )));
        }
        let token = Token::load(file).map_err(Failure::input)?;
        let security = security.as_ref().map(|security| {
            let folder = path.parent().unwrap_or(Path::new(""));
            let mutual = Mutual::load(&blueprint.name, &security.files.within(folder));
            let controller = security.controller.clone();
            mutual.map(|mutual| Security { mutual, controller })
        });
        let security = security.transpose().map_err(Failure::input)?;
        let is_at_home = true;
        Ok(Some(Part { controllers, listen, token, security, registration, is_at_home }))
    }

    /// What the node says of itself.
    fn registration(&self) -> Result<Option<Registration>, Failure> {
        let Some(address) = self.handover_advertise.clone() else { return Ok(None) };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let capacity = self.handover_capacity.unwrap_or_default();
        let registration = Registration { address, capacity, version };
        match registration.has_address() && registration.address.len() < 256 {
            true => Ok(Some(registration)),
            false => {
                let address = registration.address;
                Err(Failure::input(format!("--handover-advertise: `{address}` is not HOST:PORT")))
            }
        }
    }
}

/// Whether `HOST:PORT` is of this machine.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.map_or(host == "localhost", |ip| ip.is_loopback())
}

impl Part {
    /// What all nodes share.
    pub fn secret(&self) -> Vec<u8> {
        self.token.octets().to_vec()
    }

    /// The connections of the node of that number and name.
    pub fn options(self, node: NodeId, name: &str, timing: Timing) -> Options {
        Options {
            node,
            name: name.to_owned(),
            listen: self.listen,
            token: self.token,
            controllers: self.controllers,
            term: 0,
            places: Vec::new(),
            registration: self.registration,
            admits: false,
            timing,
            security: self.security,
        }
    }

    /// Takes part until what it returns is dropped.
    ///
    /// # Errors
    /// When the address is taken, or the node has stopped.
    pub fn take(
        self,
        blueprint: &Blueprint,
        socket: &Path,
        (handle, orders): (&Handle, &Orders),
    ) -> Result<Joined, Failure> {
        let secret = self.token.clone();
        let mail = match &blueprint.handover {
            Some(_) => {
                let life = incarnation(&socket.with_extension("incarnation"))?;
                let joined = handle.ask(move |agent| agent.join_handover(life, secret.octets()));
                Some(joined.map_err(Failure::broken)?.map_err(Failure::input)?)
            }
            None => None,
        };
        let (to_node, from_node) = match mail {
            Some(Mail { to_node, from_node, waker }) => (Some((to_node, waker)), Some(from_node)),
            None => (None, None),
        };
        let plan = blueprint.handover.as_ref();
        let of_site = blueprint.site.as_ref().map(|site| site.node);
        let node = plan.map(|plan| plan.node).or(of_site).unwrap_or_default();
        let timing = plan.map(|plan| plan.timing).unwrap_or_default();
        let (token, security) = (self.token.clone(), self.security.clone());
        let is_at_home = self.is_at_home;
        let for_n4 = questions::behind_n4(blueprint, is_at_home);
        let options = self.options(node, &blueprint.name, timing);
        let (tell, told) = mpsc::channel();
        let (order, ordered) = mpsc::channel();
        let (move_share, told_of_share) = mpsc::channel();
        let (ask, asked) = mpsc::channel();
        let registers = options.registration.is_some();
        let deliver = move |event| match event {
            Event::Message(envelope) => match &to_node {
                Some((to_node, waker)) => {
                    let taken = to_node.send(envelope).is_ok();
                    waker.wake();
                    taken
                }
                // None of its users move.
                None => true,
            },
            Event::Settings(generation, text) => {
                registers && tell.send(Settings { generation, text }).is_ok()
            }
            Event::Upgrade(upgrade) => order.send(upgrade).is_ok(),
            Event::Share(_, share) => move_share.send(share).is_ok(),
            Event::Asked(question) => ask.send(Told::Asked(question)).is_ok(),
            Event::N4(_, answer) => ask.send(Told::N4(answer)).is_ok(),
            _ => true,
        };
        let transport = Transport::start(options, deliver).map_err(Failure::input)?;
        let sender = transport.sender();
        let post = thread::Builder::new().name("post".to_owned());
        // Ends with the node.
        let pass = |mail: std::sync::mpsc::Receiver<_>| {
            post.spawn(move || mail.iter().for_each(|envelope| sender.send(envelope)))
        };
        let post = from_node.map(pass).transpose().map_err(Failure::broken)?;
        let (name, sender) = (blueprint.name.clone(), transport.sender());
        let reporter = settings::follow(name, handle.clone(), sender, (registers, told));
        let reporter = reporter.map_err(Failure::broken)?;
        let orders = orders::follow(ordered, transport.sender(), orders.clone());
        let orders = orders.map_err(Failure::broken)?;
        let control_planes = ControlPlanes::default();
        let means = (for_n4, control_planes.clone());
        let questions = questions::follow(asked, transport.sender(), means);
        let questions = questions.map_err(Failure::broken)?;
        let shares = Shares {
            told: told_of_share,
            controller: transport.sender(),
            token,
            security,
            is_at_home,
            mark: Mark::of(&blueprint.name, socket),
            last: Cell::new(0),
        };
        Ok(Joined { transport, post, reporter, orders, questions, shares, control_planes })
    }
}

/// A number that no life of this node has had: the seconds since 1970, or one more
/// than the last, which a file remembers.
pub fn incarnation(file: &Path) -> Result<Incarnation, Failure> {
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
    fn plain_text_stays_on_this_machine() {
        for near in ["127.0.0.1:9471", "[::1]:9471", "localhost:9471", "127.9.9.9:1"] {
            assert!(is_loopback(near), "{near}");
        }
        for far in ["192.0.2.1:9471", "[2001:db8::1]:9471", "site.example:9471", "[::]:1"] {
            assert!(!is_loopback(far), "{far}");
        }
    }

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
