//! The new process: has the node from another one.

use std::fmt::Display;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weft_dataplane::worker::{Copies, Worker};
use weft_dpdk::{Eal, Ingress, await_delivery, is_shared};
use weft_node_config::Blueprint;
use weft_offload::process::Supervisor;
use weft_state::{Collection, Records, Store};

use super::conversation::{Conversation, Drained, Kind, OF_OLD, UpgradeError};
use super::upgrade::scope_at;
use super::{Node, keeping};
use crate::agent::{
    Agent, FORMAT, Offer, check_functions, configured, folder_of, named_slots, part_in_moves,
    position, restore_compositions, take_neighbours, versions,
};
use crate::error::BuildError;
use crate::ports::Means;

/// How long the old process may take for its messages.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long processes of functions may take to come, how often they may fail, and how often they
/// are looked for.
const COMING: Duration = Duration::from_secs(10);
const FAILURES: u64 = 3;
const LOOK: Duration = Duration::from_millis(20);
/// How long the old process may take to end, where its ports must be closed first.
const CLOSING: Duration = Duration::from_secs(30);
/// How long the kernel may take to deliver a packet to both processes, where it does not say.
const DELIVERY: Duration = Duration::from_millis(100);

/// Why a node was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The conversation with the process that has it.
    #[error("{0}; the node goes on in the other process")]
    Conversation(#[from] UpgradeError),
    /// This process cannot have it.
    #[error("{0}; the node goes on in the other process")]
    Build(#[from] BuildError),
    /// The other process has ended already: nothing carries packets.
    #[error("{0}; the other process had closed its ports, and nothing carries packets now")]
    Ended(BuildError),
}

/// The node that another process has, and gives away.
#[derive(Debug)]
pub struct Predecessor {
    conversation: Conversation,
    offer: Offer,
    records: Collection,
    /// Whose contexts there are, by scope.
    subjects: [Vec<Vec<u8>>; 3],
    /// The node's part in moves of users, if it takes part; and what nodes share for that.
    moves: Option<Vec<u8>>,
    secret: Vec<u8>,
}

/// Is told that the node is this process's.
type Ours<'a> = &'a mut dyn FnMut(&[u8], Instant);

/// A function of this process whose contexts come, and their slots.
struct Destination {
    number: u16,
    slots: Vec<Option<u32>>,
}

/// A node that is built and waits for contexts.
struct Built {
    node: Node,
    /// By the number of the function at the other process.
    destinations: Vec<Option<Destination>>,
    ingress: Vec<(u16, String, Ingress)>,
}

impl From<io::Error> for TakeOverError {
    fn from(error: io::Error) -> TakeOverError {
        UpgradeError::from(error).into()
    }
}

impl Predecessor {
    /// Hears what the process at the other end of `stream` has.
    ///
    /// # Errors
    /// When it gives nothing away, or says something else.
    pub fn hear(stream: UnixStream) -> Result<Predecessor, TakeOverError> {
        let mut conversation = Conversation::new(stream, OF_OLD)?;
        conversation.wait_at_most(PATIENCE)?;
        let octets = conversation.hear_only(Kind::Offer)?;
        let offer: Offer = serde_json::from_slice(&octets)
            .map_err(|_| UpgradeError::Foreign("an offer that is none"))?;
        let (subjects, records, moves) = Default::default();
        Ok(Predecessor { conversation, offer, records, subjects, moves, secret: Vec::new() })
    }

    /// What nodes share that users move between, where this process takes part in that.
    #[must_use]
    pub fn with_secret(self, secret: Vec<u8>) -> Predecessor {
        Predecessor { secret, ..self }
    }

    /// What it has.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Whether a node of this configuration can have it all, and asks for it. The store of the
    /// other process is closed when this returns.
    ///
    /// # Errors
    /// [`TakeOverError::Conversation`] with what cannot be had.
    pub fn accept(&mut self, blueprint: &Blueprint) -> Result<(), TakeOverError> {
        if let Err(why) = self.check(blueprint) {
            self.refuse(&why);
            return Err(UpgradeError::Refused(why).into());
        }
        let mut accept = std::process::id().to_le_bytes().to_vec();
        let wanted = versions(&self.offer, blueprint).into_iter().flatten();
        accept.extend(wanted.flat_map(u16::to_le_bytes));
        self.conversation.say(Kind::Accept, &accept)?;
        loop {
            match self.conversation.hear()? {
                (Kind::Records, octets) => {
                    let some = Collection::read_from(&mut &octets[..])?;
                    self.records.append(some);
                }
                (Kind::Subjects, octets) => {
                    let named = octets.split_first().filter(|(at, _)| scope_at(**at).is_some());
                    let (at, names) = named.ok_or(UpgradeError::Foreign("names of no scope"))?;
                    self.subjects[usize::from(*at)].push(names.to_vec());
                }
                (Kind::Moves, _) if self.secret.is_empty() => {
                    let why = "users move to and from the node, and no controller is given \
                               (--handover-controller)";
                    self.refuse(why);
                    return Err(UpgradeError::Refused(why.to_owned()).into());
                }
                (Kind::Moves, octets) => self.moves = Some(octets),
                (Kind::Prepared, _) => return Ok(()),
                _ => return Err(UpgradeError::Foreign("not its turn to say that").into()),
            }
        }
    }

    fn check(&self, blueprint: &Blueprint) -> Result<(), String> {
        let Offer { format, node, release, process, sessions, standby, handover, .. } = &self.offer;
        if !(1..=FORMAT).contains(format) {
            return Err(format!(
                "the other process (release {release}) speaks format {format}, this one {FORMAT}"
            ));
        }
        if *node != blueprint.name {
            return Err(format!(
                "the other process has node {node}, the configuration is of node {}",
                blueprint.name
            ));
        }
        let own = part_in_moves(blueprint);
        if *handover != own {
            let part = |one: &Option<(u32, String)>| match one {
                Some((number, role)) => format!("node {number}, {role}"),
                None => "none".to_owned(),
            };
            return Err(format!(
                "the node's part in moves of users (`handover`) is {}, the configuration's {}; \
                 restart the node",
                part(handover),
                part(&own),
            ));
        }
        if *standby != blueprint.standby.as_ref().map(|plan| plan.node.0) {
            let number = |one: Option<u32>| one.map_or("none".to_owned(), |one| one.to_string());
            return Err(format!(
                "the node has the number {} in its pair (`standby.node`), the configuration {}; \
                 restart the node",
                number(*standby),
                number(blueprint.standby.as_ref().map(|plan| plan.node.0)),
            ));
        }
        if *sessions > 0 && blueprint.pfcp.is_none() {
            return Err(format!(
                "the node has {sessions} PFCP sessions, and the configuration no `pfcp`"
            ));
        }
        // The driver's sockets of two such processes would share packets (PACKET_FANOUT,
        // packet(7)), while one of them takes none.
        let same = (process ^ std::process::id()) & 0xffff == 0;
        if same && self.offer.devices.iter().any(|device| device.starts_with("net_af_packet")) {
            return Err("this process has the number of the other one; start it again".to_owned());
        }
        check_functions(&self.offer, blueprint)
    }

    /// Tells the other process why its node is not taken over.
    pub fn refuse(&mut self, why: &str) {
        self.conversation.refuse(why);
    }

    /// Builds the node of `blueprint` with all that the other process has, and takes over: when
    /// this returns the node is this process's, and waits to be started. `store` is the one that
    /// the other process has closed. `ours` is called in the moment from which on the node is
    /// this process's, with what was said for those who speak for it, and with a moment before
    /// that was said. Returns for how long packets have waited, too.
    ///
    /// # Errors
    /// [`TakeOverError`].
    pub fn take(
        mut self,
        eal: &Eal,
        blueprint: Blueprint,
        store: Option<Store>,
        mut ours: impl FnMut(&[u8], Instant),
    ) -> Result<(Node, Duration), TakeOverError> {
        let outcome = self.try_to_take(eal, (blueprint, store), &mut ours);
        if let Err(error) = &outcome {
            let text = error.to_string();
            self.refuse(text.split("; the node goes on").next().unwrap_or_default());
        }
        outcome
    }

    fn try_to_take(
        &mut self,
        eal: &Eal,
        (blueprint, store): (Blueprint, Option<Store>),
        ours: Ours<'_>,
    ) -> Result<(Node, Duration), TakeOverError> {
        if self.offer.standby.is_some() && !self.has_its_store(store.as_ref()) {
            let why = "state: a node that has a standby stays with its folder; restart the node";
            return Err(UpgradeError::Refused(why.to_owned()).into());
        }
        let own = blueprint.devices().iter().map(|port| &port.device);
        match own.chain(&self.offer.devices).all(|device| is_shared(device)) {
            true => self.take_beside(eal, (blueprint, store), ours),
            false => self.take_behind(eal, (blueprint, store), ours),
        }
    }

    /// Both processes have their ports open.
    fn take_beside(
        &mut self,
        eal: &Eal,
        (blueprint, store): (Blueprint, Option<Store>),
        ours: Ours<'_>,
    ) -> Result<(Node, Duration), TakeOverError> {
        let mut built = self.build(eal, blueprint, store, true)?;
        built.wait_for_functions()?;
        built.node.workers.iter_mut().for_each(Worker::discard_received);
        self.conversation.say(Kind::Ready, &[1])?;
        let waited = self.conversation.hear_only(Kind::Open)?;
        let since = Instant::now();
        let waited = waited.try_into().map_or(0, u64::from_le_bytes);
        built.node.workers.iter_mut().for_each(Worker::discard_received);
        for (_, _, ingress) in &built.ingress {
            ingress.open()?;
        }
        self.conversation.say(Kind::Opened, &[])?;
        let drained = loop {
            match self.conversation.hear()? {
                (Kind::Contexts, octets) => built.import(&octets)?,
                (Kind::Drained, octets) => break octets,
                _ => return Err(UpgradeError::Foreign("not its turn to say that").into()),
            }
        };
        let drained: Drained = serde_json::from_slice(&drained)
            .map_err(|_| UpgradeError::Foreign("ports that are none"))?;
        built.settle(&self.offer);
        self.is_ours(ours)?;
        built.leave_out(drained)?;
        Ok((built.node, since.elapsed() + Duration::from_nanos(waited)))
    }

    /// The other process closes its ports before this one opens its own.
    fn take_behind(
        &mut self,
        eal: &Eal,
        (blueprint, store): (Blueprint, Option<Store>),
        ours: Ours<'_>,
    ) -> Result<(Node, Duration), TakeOverError> {
        self.conversation.say(Kind::Ready, &[0])?;
        let mut contexts = Vec::new();
        let mut since = None;
        loop {
            let heard = self.conversation.hear()?;
            since.get_or_insert_with(Instant::now);
            match heard {
                (Kind::Contexts, octets) => contexts.push(octets),
                (Kind::Drained, _) => break,
                _ => return Err(UpgradeError::Foreign("not its turn to say that").into()),
            }
        }
        self.is_ours(ours)?;
        self.conversation.wait_at_most(CLOSING)?;
        self.conversation.wait_for_end();
        let ended = |error: TakeOverError| match error {
            TakeOverError::Build(error) => TakeOverError::Ended(error),
            other => other,
        };
        let mut built = self.build(eal, blueprint, store, false).map_err(ended)?;
        if let Err(error) = built.wait_for_functions() {
            tracing::warn!("{error}");
        }
        for octets in contexts {
            if let Err(error) = built.import(&octets) {
                tracing::error!("{error}: contexts begin anew");
            }
        }
        built.settle(&self.offer);
        Ok((built.node, since.map_or(Duration::ZERO, |since| since.elapsed())))
    }

    /// Says that it can go on, and hears that the other process does not.
    fn is_ours(&mut self, ours: Ours<'_>) -> Result<(), UpgradeError> {
        // Before the other process says anything.
        let since = Instant::now();
        self.conversation.say(Kind::Taken, &[])?;
        let said = self.conversation.hear_only(Kind::Yours)?;
        ours(&said, since);
        Ok(())
    }

    /// Whether a store is the one that the other process had.
    fn has_its_store(&self, store: Option<&Store>) -> bool {
        let same = |kept: &PathBuf| store.is_some_and(|own| folder_of(own) == *kept);
        self.offer.state && self.offer.store.as_ref().is_none_or(same)
    }

    fn build(
        &mut self,
        eal: &Eal,
        mut blueprint: Blueprint,
        store: Option<Store>,
        is_beside: bool,
    ) -> Result<Built, TakeOverError> {
        let (keeping, configured) = (keeping(&blueprint), configured(&blueprint));
        let records: &(dyn Records + Sync) = &self.records;
        restore_compositions(&mut blueprint, records).map_err(BuildError::from)?;
        let mut node = Node::build_with(eal, blueprint, None)?;
        node.agent.persistence.configured = configured;
        let mut ingress = Vec::new();
        for (number, port) in node.agent.ports.iter().enumerate() {
            if let Some(of_port) = port.ingress()? {
                of_port.shut()?;
                ingress.push((number as u16, port.name().to_owned(), of_port));
            }
        }
        let has_them = self.has_its_store(store.as_ref());
        let store = store.map(|store| (store, keeping));
        let taken = (is_beside, has_them);
        node.agent.restoration(&mut node.workers).take_records(records, store, taken)?;
        self.records = Collection::default();
        if let Some(moves) = self.moves.take() {
            node.agent.go_on_with_moves(&moves, &self.secret).map_err(UpgradeError::Refused)?;
        }
        let mut slots = [const { Vec::new() }; 3];
        for (at, (slots, names)) in slots.iter_mut().zip(&self.subjects).enumerate() {
            let scope = scope_at(at as u8).unwrap_or_default();
            for names in names {
                let some = named_slots(&node.agent.subscribers, scope, names);
                slots.extend(some.map_err(UpgradeError::Refused)?);
            }
        }
        let mut destinations = Vec::new();
        for offered in &self.offer.functions {
            let plans = node.agent.configuration.blueprint.functions.iter().enumerate();
            let own = plans.clone().find(|(_, own)| own.name == offered.name);
            let own = own.filter(|(at, own)| {
                let scope = node.agent.configuration.trials.instance(*at).scope();
                own.kind.name == offered.function && scope == offered.scope
            });
            if own.is_none() {
                let function = &offered.name;
                tracing::warn!(function, "the configuration does not have it any more");
            }
            destinations.push(own.map(|(number, _)| Destination {
                number: number as u16,
                slots: slots[position(offered.scope)].clone(),
            }));
        }
        Ok(Built { node, destinations, ingress })
    }
}

impl Built {
    /// Takes contexts as the other process sends them.
    fn import(&mut self, octets: &[u8]) -> Result<(), UpgradeError> {
        let damaged = || UpgradeError::Foreign("contexts that are none");
        let (function, mut rest) = octets.split_first_chunk().ok_or_else(damaged)?;
        let number = usize::from(u16::from_le_bytes(*function));
        let destination = self.destinations.get(number).ok_or_else(damaged)?;
        let shift = self.node.agent.workers.shift();
        let mut given = Vec::new();
        while !rest.is_empty() {
            let (at, behind) = rest.split_first_chunk().ok_or_else(damaged)?;
            let (length, behind) = behind.split_first_chunk().ok_or_else(damaged)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (octets, behind) = behind.split_at_checked(length).ok_or_else(damaged)?;
            rest = behind;
            let Some(Destination { number, slots }) = destination else { continue };
            let slot = slots.get(u32::from_le_bytes(*at) as usize).ok_or_else(damaged)?;
            if let (Some(slot), false) = (slot, octets.is_empty()) {
                let worker = &mut self.node.workers[shift.worker(*slot)];
                let taken = worker.begin_with_context(*number, *slot, octets);
                taken.map_err(|error| self.not_taken(*number, &error))?;
                given.push(*slot);
            }
        }
        let Some(Destination { number, .. }) = destination else { return Ok(()) };
        self.wait_for_process(*number, &given)
    }

    /// Waits until the process of a function has contexts that it was given, where it is in one.
    fn wait_for_process(&self, number: u16, slots: &[u32]) -> Result<(), UpgradeError> {
        let Agent { configuration, functions, workers, .. } = &self.node.agent;
        let plan = &configuration.blueprint.functions[usize::from(number)];
        let process = plan.process.as_ref().filter(|_| plan.is_isolated());
        let Some(process) = process.filter(|_| !slots.is_empty()) else { return Ok(()) };
        let function = (&*plan.name, process.started);
        let taken = functions.wait_for_imports(function, slots, workers.shift());
        taken.map_err(|error| self.not_taken(number, &error))
    }

    fn not_taken(&self, number: u16, why: &dyn Display) -> UpgradeError {
        let functions = &self.node.agent.configuration.blueprint.functions;
        let name = &functions[usize::from(number)].name;
        UpgradeError::Refused(format!("function {name}: a context: {why}"))
    }

    /// Waits for the processes of functions, which fail some times at most.
    fn wait_for_functions(&self) -> Result<(), UpgradeError> {
        let until = Instant::now() + COMING;
        while let Some(name) = self.node.wait_for_functions(LOOK) {
            let supervisor = self.node.agent.functions.supervisor(&name);
            let view = supervisor.map(Supervisor::view).unwrap_or_default();
            if view.failures >= FAILURES || Instant::now() >= until {
                let why = view.last_failure;
                let why = why.unwrap_or_else(|| "it does not attach to its ring".to_owned());
                let why = format!("function {name}: its process does not come: {why}");
                return Err(UpgradeError::Refused(why));
            }
        }
        Ok(())
    }

    /// Contexts have settings in them; those of the configuration hold.
    fn settle(&mut self, offer: &Offer) {
        let Node { agent, workers, .. } = &mut self.node;
        for number in 0..agent.configuration.blueprint.functions.len() {
            for configure in agent.subscribers.users.settings_of(number) {
                workers[agent.workers.owner(configure.slot)].begin_with_settings(&configure);
            }
        }
        agent.restoration(workers).take_on_sessions();
        agent.workers.apply_commands(workers);
        let Agent { ports, workers, answers: pool, clock, .. } = agent;
        take_neighbours(&offer.neighbours, ports, &mut Means { workers, pool }, clock.now());
    }

    /// Leaves out what the other process has carried.
    fn leave_out(&mut self, mut drained: Drained) -> io::Result<()> {
        let of_port = |(number, name, _): &(u16, String, Ingress)| {
            let (_, seen) = drained.seen.remove(name)?;
            Some((*number, seen.into_iter().collect()))
        };
        let copies = Arc::new(Copies::new(self.ingress.iter().filter_map(of_port).collect()));
        self.node.leave_out(&copies);
        let wait = move || {
            if let Err(error) = await_delivery() {
                tracing::debug!(%error, "waits for copies of packets without the kernel's help");
                thread::sleep(DELIVERY);
            }
            copies.end();
            tracing::debug!(packets = copies.dropped(), "the other process had them");
        };
        thread::Builder::new().name("copies".to_owned()).spawn(wait)?;
        Ok(())
    }
}
