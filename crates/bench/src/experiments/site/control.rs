//! A site: controllers in processes of their own, what they keep records in, and nodes.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weft_etcd::local::Members;
use weft_http::client::{Client, Server};
use weft_mobility_controller::api;
use weft_rig::Failure;
use weft_rig::machine::program::{Program, free_address};

use super::etcd::Etcd;
use super::nodes::{LATE, NAMES, Nodes, Pauses};

/// How long anything may take, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
const TOKEN: &str = "the-token-of-a-site-that-is-measured";
/// Options of etcd that are recommended where its members are near each other.
const TIMING: [&str; 4] = ["--heartbeat-interval", "50", "--election-timeout", "500"];
const REPLICAS: [&str; 2] = ["one", "two"];

/// Where a controller keeps its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// In a folder: there is one controller.
    Folder,
    /// In etcd: there are two replicas, and a leader's lease has so many seconds.
    Etcd {
        /// Seconds.
        lease: u32,
    },
}

/// What became of moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Users that have moved.
    pub made: u64,
    /// Moves that were given up.
    pub given_up: u64,
}

impl Moves {
    /// These, and others.
    pub fn and(self, other: Moves) -> Moves {
        Moves { made: self.made + other.made, given_up: self.given_up + other.given_up }
    }
}

/// A site that runs; it ends when it is dropped, its controllers first.
pub struct Site {
    controllers: Vec<Controller>,
    nodes: Nodes,
    members: Option<Members>,
    folder: TempDir,
    users: u32,
}

/// A controller in a process of its own.
struct Controller {
    name: &'static str,
    program: Program,
    client: Client,
}

impl Site {
    /// Starts a site with so many users, all of them at the station `a`, and waits until they
    /// are there. `window` moves are under way at once.
    ///
    /// # Errors
    /// When something does not start, or users do not settle.
    pub fn start(kept: Kept, users: u32, window: u32) -> Result<Site, Failure> {
        let folder = tempfile::tempdir()?;
        let members = match kept {
            Kept::Folder => None,
            Kept::Etcd { .. } => Some(Members::start(folder.path(), 1, &TIMING)?),
        };
        let places = [free_address(), free_address(), free_address()];
        let names = match kept {
            Kept::Folder => &REPLICAS[..1],
            Kept::Etcd { .. } => &REPLICAS[..],
        };
        let listen: Vec<_> = names.iter().map(|_| free_address()).collect();
        fs::write(folder.path().join("token"), TOKEN)?;
        for (name, listen) in names.iter().zip(&listen) {
            let records = records(name, kept, members.as_ref());
            let text = written(*listen, places, (users, window), &records);
            fs::write(folder.path().join(format!("{name}.yaml")), text)?;
        }
        let controllers: Result<Vec<_>, Failure> =
            names.iter().map(|name| Controller::start(folder.path(), name)).collect();
        let controllers = controllers?;
        let nodes = Nodes::start(places, &listen, TOKEN)?;
        let site = Site { controllers, nodes, members, folder, users };
        site.wait("users to settle", |site| site.is_settled())?;
        Ok(site)
    }

    /// What etcd says of itself, if there is one.
    ///
    /// # Errors
    /// When there is no room for a client.
    pub fn etcd(&self) -> Result<Option<Etcd>, Failure> {
        self.members.as_ref().map(Etcd::of).transpose()
    }

    /// Moves all users from station to station, and says how many have moved: a move that is
    /// given up is ordered again.
    ///
    /// # Errors
    /// When the controller refuses, or users do not move.
    pub fn move_all(&self, from: &str, to: &str) -> Result<Moves, Failure> {
        let order = format!(r#"{{"allFrom": "{from}", "to": "{to}"}}"#);
        let client = self.client()?;
        self.empty(client, from, || Ok(vec![client.post("/v1/handovers", order.clone())?]))
    }

    /// Drains a node, which takes no further users then.
    ///
    /// # Errors
    /// As [`Site::move_all`].
    pub fn drain(&self, node: &str) -> Result<Moves, Failure> {
        let client = self.client()?;
        let path = format!("/v1/nodes/{node}/drain");
        self.empty(client, node, || Ok(client.post(&path, String::new())?))
    }

    /// Gives orders until a node has no users.
    fn empty(
        &self,
        client: &Client,
        node: &str,
        order: impl Fn() -> Result<Vec<api::Handover>, Failure>,
    ) -> Result<Moves, Failure> {
        let (began, mut moves) = (Instant::now(), Moves::default());
        while began.elapsed() < PATIENCE {
            for order in order()? {
                let mut order = order;
                while !order.finished {
                    order = client.get(&format!("/v1/handovers/{}?wait=20", order.id))?;
                }
                let (made, given_up) = (order.moved as u64, order.aborted as u64);
                moves = moves.and(Moves { made, given_up });
            }
            let nodes: Vec<api::Node> = client.get("/v1/nodes")?;
            if nodes.iter().any(|one| one.name == node && one.users + one.moving == 0) {
                return Ok(moves);
            }
        }
        Err(format!("users do not leave the node {node}").into())
    }

    /// Kills the controller that leads, and says how long it takes until another one does and all
    /// nodes are with it. The killed one is started again.
    ///
    /// # Errors
    /// When none leads.
    pub fn fail_over(&mut self) -> Result<Duration, Failure> {
        let leads = self.controllers.iter().position(Controller::leads);
        let leader = self.controllers.remove(leads.ok_or("no controller leads")?);
        let (name, began) = (leader.name, Instant::now());
        drop(leader);
        self.wait("another replica to lead", |site| site.is_settled())?;
        let took = began.elapsed();
        self.controllers.push(Controller::start(self.folder.path(), name)?);
        self.wait("the killed replica to be back", |site| {
            let answers = |one: &Controller| one.client.text("/v1/controller").is_ok();
            site.controllers.iter().all(answers)
        })?;
        Ok(took)
    }

    /// For how long users had no owner while they moved.
    pub fn pauses(&self) -> Pauses {
        self.nodes.pauses()
    }

    /// Starts a station that no file names, and says how long it takes from then until a new user
    /// is settled there, so that its packets pass both ways.
    ///
    /// # Errors
    /// When the station does not join, or the controller refuses the user.
    pub fn join(&mut self) -> Result<Duration, Failure> {
        let (began, user) = (Instant::now(), self.users + 1);
        self.nodes.join(free_address())?;
        let site = &*self;
        let is_there = || -> Result<bool, Failure> {
            let nodes: Vec<api::Node> = site.client()?.get("/v1/nodes")?;
            Ok(nodes.iter().any(|node| node.name == LATE && node.incarnation.is_some()))
        };
        site.wait("a station to join", |_| is_there().unwrap_or(false))?;
        let path = format!("/v1/users/{user}");
        let placement = format!(r#"{{"anchor": "{}", "node": "{LATE}"}}"#, NAMES[0]);
        let _: api::User = site.client()?.put(&path, placement)?;
        let is_settled = || -> Result<bool, Failure> {
            let user: api::User = site.client()?.get(&path)?;
            Ok(user.state == "Settled")
        };
        site.wait("a user to settle", |_| is_settled().unwrap_or(false))?;
        Ok(began.elapsed())
    }

    /// That of the controller that leads.
    fn client(&self) -> Result<&Client, Failure> {
        let leader = self.controllers.iter().find(|one| one.leads());
        Ok(&leader.ok_or("no controller leads")?.client)
    }

    /// Whether a controller leads that has all nodes, with all users settled.
    fn is_settled(&self) -> bool {
        self.controllers.iter().any(|one| {
            let nodes: Vec<api::Node> = one.client.get("/v1/nodes").unwrap_or_default();
            let users: usize = nodes.iter().map(|node| node.users).sum();
            nodes.len() == NAMES.len()
                && nodes.iter().all(|node| node.connected && node.incarnation.is_some())
                && users == self.users as usize
        })
    }

    fn wait(&self, what: &str, done: impl Fn(&Site) -> bool) -> Result<(), Failure> {
        let began = Instant::now();
        while !done(self) {
            if began.elapsed() > PATIENCE {
                let says = self.controllers.iter().map(Controller::last_line);
                let says = says.collect::<Vec<_>>().join("; ");
                return Err(format!("waited in vain for {what}: {says}").into());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Controller {
    fn start(folder: &Path, name: &'static str) -> Result<Controller, Failure> {
        let socket = folder.join(format!("{name}.controller"));
        let program = Program::start(&folder.join(format!("{name}.log")), |command| {
            command.arg("control").arg(folder.join(format!("{name}.yaml")));
            command.env("WEFT_CONTROLLER_SOCKET", &socket);
        })?;
        Ok(Controller { name, program, client: Client::of("controller", Server::Socket(socket))? })
    }

    fn last_line(&self) -> String {
        format!("{} says {:?}", self.name, self.program.last_line())
    }

    fn leads(&self) -> bool {
        self.client.get::<Vec<api::Node>>("/v1/nodes").is_ok()
    }
}

/// Where a controller keeps its records, as its configuration says.
fn records(name: &str, kept: Kept, members: Option<&Members>) -> String {
    let (Kept::Etcd { lease }, Some(members)) = (kept, members) else {
        return "records: records".to_owned();
    };
    let endpoints = members.options("/").endpoints;
    format!("etcd: {{endpoints: {endpoints:?}, lease: {lease}}}\nreplica: {{name: {name}}}")
}

/// The configuration of a controller.
fn written(
    listen: SocketAddr,
    places: [SocketAddr; 3],
    (users, window): (u32, u32),
    records: &str,
) -> String {
    let nodes = NAMES.iter().zip(places).zip(1..);
    let nodes = nodes.map(|((name, address), number)| {
        format!("  {name}: {{number: {number}, address: '{address}'}}\n")
    });
    format!(
        "apiVersion: weft/v1\nkind: Controller\nmetadata: {{name: bench}}\nlisten: {listen}\n\
         tokenFile: token\nwindow: {window}\n{records}\n\
         membership: {{lease: 60}}\nnodes:\n{}\
         users: [{{first: 1, count: {users}, anchor: gateway, node: a}}]\n",
        nodes.collect::<String>()
    )
}
