//! The new process: has the node from another one.

mod built;
mod elsewhere;
mod in_turn;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fmt, io};

use weft_dataplane::worker::Worker;
use weft_dpdk::{Eal, Holder, is_shared, may_steer};
use weft_node_config::{Blueprint, PortPlan};
use weft_state::{Collection, Records, Store};

use self::built::{Built, Destination, set_aside};
use super::conversation::{Conversation, Drained, Kind, OF_OLD, PortTransfer, UpgradeError};
use super::upgrade::scope_at;
use super::{Node, keeping};
use crate::agent::{
    FORMAT, Offer, check_functions, check_places, configured, folder_of, has_vf, named_slots,
    part_in_moves, position, restore_compositions, versions,
};
use crate::assemble::Devices;
use crate::error::BuildError;

/// How long the old process may take for its messages.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the old process may take to end, where its ports must be closed first.
const CLOSING: Duration = Duration::from_secs(30);

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
    Ended(String),
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
    when_closed: WhenClosed,
}

/// What is done once the other process has closed its ports, where it has to.
#[derive(Default)]
struct WhenClosed(Option<Box<dyn FnOnce() -> Result<(), String> + Send>>);

impl fmt::Debug for WhenClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WhenClosed").field(&self.0.is_some()).finish()
    }
}

/// Is told that the node is this process's.
type Ours<'a> = &'a mut dyn FnMut(&[u8], Instant);

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
        let (secret, when_closed) = Default::default();
        Ok(Predecessor { conversation, offer, records, subjects, moves, secret, when_closed })
    }

    /// What nodes share that users move between, where this process takes part in that.
    #[must_use]
    pub fn with_secret(self, secret: Vec<u8>) -> Predecessor {
        Predecessor { secret, ..self }
    }

    /// Ports of this process need what `then` starts, and the other process's ports need its own:
    /// that closes its ports first, and then `then` is called.
    #[must_use]
    pub fn when_closed(
        self,
        then: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Predecessor {
        Predecessor { when_closed: WhenClosed(Some(Box::new(then))), ..self }
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
        self.ask_for_all(blueprint)
    }

    /// Asks for what goes over before packets stop.
    fn ask_for_all(&mut self, blueprint: &Blueprint) -> Result<(), TakeOverError> {
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
                (Kind::Prepared, _) => return self.check_composed(blueprint),
                _ => return Err(UpgradeError::Foreign("not its turn to say that").into()),
            }
        }
    }

    /// Looks at functions as records say how they are run.
    fn check_composed(&mut self, blueprint: &Blueprint) -> Result<(), TakeOverError> {
        let (mut composed, records) = (blueprint.clone(), &self.records);
        let restored = restore_compositions(&mut composed, records as &dyn Records);
        let checked = restored.map_err(|error| error.to_string());
        if let Err(why) = checked.and_then(|()| check_places(&self.offer, &composed)) {
            self.refuse(&why);
            return Err(UpgradeError::Refused(why).into());
        }
        Ok(())
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
        match self.port_transfer(&blueprint) {
            PortTransfer::Beside => self.take_beside(eal, (blueprint, store), ours),
            PortTransfer::InTurn => self.take_in_turn(eal, (blueprint, store), ours),
            _ => self.take_behind(eal, (blueprint, store), ours),
        }
    }

    /// How the ports of a node of this configuration come over.
    fn port_transfer(&self, blueprint: &Blueprint) -> PortTransfer {
        if self.when_closed.0.is_some() || has_vf(&self.offer, blueprint) {
            return PortTransfer::Behind;
        }
        match (self.are_shared(blueprint), self.are_known(blueprint)) {
            (true, _) => PortTransfer::Beside,
            (false, true) => PortTransfer::InTurn,
            (false, false) => PortTransfer::Behind,
        }
    }

    /// Whether it is known of all ports what they will be like, so that the node can be built
    /// before they are open.
    fn are_known(&self, blueprint: &Blueprint) -> bool {
        let is_known = |port: &PortPlan| {
            let mut offered = self.offer.ports.iter();
            offered.any(|one| one.device == port.device && one.rx_queues == port.queues)
        };
        self.offer.workers == blueprint.workers.count && blueprint.devices().iter().all(is_known)
    }

    /// Whether both processes may have all ports open at the same time.
    fn are_shared(&self, blueprint: &Blueprint) -> bool {
        let admits = |device: &String| {
            let mut offered = self.offer.ports.iter();
            offered.any(|offered| offered.device == *device && offered.admits_another)
        };
        let own = blueprint.devices().iter();
        let mut steered = own.filter(|port| !is_shared(&port.device)).peekable();
        let has_rights = steered.peek().is_none() || may_steer();
        let mut of_other = self.offer.devices.iter();
        has_rights
            && steered.all(|port| {
                let queues = port.queues.max(blueprint.workers.count as u16);
                queues == 1 && admits(&port.device)
            })
            && of_other.all(|device| is_shared(device) || admits(device))
    }

    /// Both processes have their ports open.
    fn take_beside(
        &mut self,
        eal: &Eal,
        (blueprint, store): (Blueprint, Option<Store>),
        ours: Ours<'_>,
    ) -> Result<(Node, Duration), TakeOverError> {
        let mut built = self.build(eal, (blueprint, store), PortTransfer::Beside)?;
        built.wait_for_functions()?;
        built.node.workers.iter_mut().for_each(Worker::discard_received);
        self.conversation.say(Kind::Ready, &[PortTransfer::Beside.octet()])?;
        let waited = self.conversation.hear_only(Kind::Open)?;
        let since = Instant::now();
        let waited = waited.try_into().map_or(0, u64::from_le_bytes);
        built.node.workers.iter_mut().for_each(Worker::discard_received);
        for (_, port, ingress) in &built.ingress {
            let opened = ingress.open();
            opened.map_err(|error| UpgradeError::Refused(format!("port {port}: {error}")))?;
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
        built.node.agent.ports.own();
        built.put_in_place();
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
        self.conversation.say(Kind::Ready, &[PortTransfer::Behind.octet()])?;
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
            TakeOverError::Build(error) => TakeOverError::Ended(error.to_string()),
            other => other,
        };
        if let Some(then) = self.when_closed.0.take() {
            then().map_err(TakeOverError::Ended)?;
        }
        let mut built = self.build(eal, (blueprint, store), PortTransfer::Behind).map_err(ended)?;
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
        (mut blueprint, store): (Blueprint, Option<Store>),
        transfer: PortTransfer,
    ) -> Result<Built, TakeOverError> {
        let (keeping, configured) = (keeping(&blueprint), configured(&blueprint));
        let records: &(dyn Records + Sync) = &self.records;
        restore_compositions(&mut blueprint, records).map_err(BuildError::from)?;
        let (devices, sockets) = match transfer {
            PortTransfer::Behind | PortTransfer::Elsewhere => (Devices::Own, Vec::new()),
            PortTransfer::Beside => (Devices::Beside(&self.offer.ports), set_aside(&mut blueprint)),
            PortTransfer::InTurn => (Devices::Held(&self.offer.ports), set_aside(&mut blueprint)),
        };
        let mut node = Node::build_with(eal, blueprint, None, devices)?;
        node.agent.persistence.configured = configured;
        for offered in self.offer.functions.iter().filter(|offered| offered.is_reachable) {
            node.workers.iter_mut().for_each(|worker| worker.begin_reachable(&offered.name));
        }
        let mut ingress = Vec::new();
        // Only then is there another process to share packets with.
        let ports =
            node.agent.ports.iter().enumerate().filter(|_| transfer == PortTransfer::Beside);
        for (number, port) in ports {
            if let Some(of_port) = port.port_device().ingress(Holder::Second)? {
                of_port.shut()?;
                ingress.push((number as u16, port.name().to_owned(), of_port));
            }
        }
        let has_them = self.has_its_store(store.as_ref());
        let store = store.map(|store| (store, keeping));
        let taken = (transfer != PortTransfer::Behind, has_them);
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
        Ok(Built { node, destinations, ingress, sockets })
    }
}
