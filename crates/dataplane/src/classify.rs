//! The classifier: finds the user of a packet, and with the user its class.
//!
//! A packet in a tunnel is known by its TEID, and by nothing that its sender
//! could put inside. Of other packets a key is looked for in this order, the most
//! telling first: the flow (both addresses, protocol and ports), the user's
//! address within the network instance of the port, the longest route of a user
//! that the address lies in, the PPPoE session, the VLAN, the port. Kinds of keys that no user has are not looked for, so a node whose
//! users are known by address does one bulk lookup per burst and no more.
//!
//! Every worker holds the whole table, so that it can tell whose packet it has
//! received; what hangs on a user beyond the slot lies at the user's own worker.

mod bearer;
mod classified;
pub mod facts;
mod key;
mod linear;
mod look_up;
mod record;
mod selectors;
mod tables;
mod user_key;

use weft_compose::{Burst, Positions, SlotShift};
use weft_dpdk::{Batch, Table, prefetch, with_room};
use weft_function::{Direction, Metadata, Packet, PacketMetadata, StepValue, TAG_SLOTS};
use weft_rules::Condition;

pub use self::bearer::{Action, Filter, Selector};
use self::classified::Run;
pub use self::classified::{Classified, Entry};
use self::facts::PacketFacts;
use self::linear::Linear;
pub use self::record::UserRecord;
use self::record::{Record, Standing, Stops};
use self::selectors::Selectors;
pub use self::tables::Tables;
pub use self::user_key::UserKey;

/// What becomes of a packet that has to be looked at.
enum Admission {
    On,
    Held,
    Gate,
}

/// What the classifier knows of a port.
#[derive(Clone, Copy, Debug)]
pub struct PortClass {
    /// Its network instance.
    pub network: u32,
    /// Direction of what comes in there.
    pub direction: Direction,
}

/// What is searched for: how the packets of a burst came in.
#[derive(Clone, Copy)]
struct Search {
    port: u16,
    network: u32,
    direction: Direction,
}

/// Records of fewer bytes than this stay in the nearest cache by themselves.
const PREFETCH_BYTES: usize = 24 << 10;

/// The tables of one worker.
#[derive(Debug)]
pub struct Classifier {
    tables: Tables,
    /// In place of the tables, where the baseline is asked for.
    linear: Option<Linear>,
    selectors: Selectors,
    /// By the index of the slot at this worker: users, then the dedicated
    /// bearers that have an action of their own.
    records: Box<[Record]>,
    /// Tags of each class at each port: number `port * classes + class`.
    tags: Vec<[u32; TAG_SLOTS]>,
    classes: usize,
    /// Conditions of the dedicated bearers of each profile, from 1 on.
    profiles: Vec<Vec<Condition>>,
    ports: Vec<PortClass>,
    shift: SlotShift,
    worker: usize,
    scratch: Box<Scratch>,
}

/// Room for the keys of a burst, made once: clearing it for each burst would
/// cost as much as the lookup.
#[derive(Debug)]
struct Scratch {
    slots: [u32; Batch::CAPACITY],
    keys: [u64; Batch::CAPACITY],
    places: [u8; Batch::CAPACITY],
    found: [u32; Batch::CAPACITY],
}

/// How many users and keys a classifier has room for.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Users of this worker.
    pub users: usize,
    /// Dedicated bearers of this worker's users.
    pub bearers: usize,
    /// IPv4 addresses, TEIDs, VLANs and ports of all users of the node.
    pub narrow: usize,
    /// IPv6 addresses and prefixes of all users of the node.
    pub ipv6: usize,
    /// Flows of all users of the node.
    pub flows: usize,
}

impl Classifier {
    /// A classifier without users.
    pub fn new(
        capacity: Capacity,
        ports: Vec<PortClass>,
        shift: SlotShift,
        worker: usize,
    ) -> Classifier {
        let room = capacity.users + capacity.bearers;
        let mut records = with_room(room);
        records.resize(room, Record::new(UserRecord::VACANT, Stops::NONE));
        Classifier {
            tables: Tables::new(&capacity),
            linear: None,
            selectors: Selectors::with_capacity(capacity.bearers),
            records: records.into_boxed_slice(),
            tags: Vec::new(),
            classes: 0,
            profiles: vec![Vec::new()],
            ports,
            shift,
            worker,
            scratch: Box::new(Scratch {
                slots: [0; Batch::CAPACITY],
                keys: [0; Batch::CAPACITY],
                places: [0; Batch::CAPACITY],
                found: [0; Batch::CAPACITY],
            }),
        }
    }

    /// The same classifier, scanning masked entries in place of its tables.
    pub fn linear(self) -> Classifier {
        Classifier { linear: Some(Linear::default()), ..self }
    }

    /// Sets the tags of the classes and the conditions of the bearer profiles;
    /// gives back those until now. Numbers given out before mean the same as
    /// they did.
    pub fn set_classes(
        &mut self,
        tags: Vec<[u32; TAG_SLOTS]>,
        profiles: Vec<Vec<Condition>>,
    ) -> (Vec<[u32; TAG_SLOTS]>, Vec<Vec<Condition>>) {
        self.classes = tags.len() / self.ports.len().max(1);
        let old = std::mem::replace(&mut self.tags, tags);
        (old, std::mem::replace(&mut self.profiles, profiles))
    }

    /// Lets packets with `key` belong to the user at `slot`. Room was reserved
    /// when the command was checked; a key without room is not found.
    pub fn insert(&mut self, key: &UserKey, slot: u32) {
        match &mut self.linear {
            Some(linear) => linear.insert(key, slot),
            None => drop(self.tables.insert(key, slot)),
        }
    }

    /// Asks the processor for where `key` would be, ahead of use.
    #[inline]
    pub fn prefetch(&self, key: &UserKey) {
        if self.linear.is_none() {
            self.tables.prefetch(key);
        }
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: &UserKey) {
        match &mut self.linear {
            Some(linear) => linear.remove(key),
            None => drop(self.tables.remove(key)),
        }
    }

    /// Lets packets of a user of this worker that `selector` is of belong to
    /// the dedicated bearer at `bearer`.
    pub fn select(&mut self, user: u32, selector: &Selector, bearer: u32) {
        self.selectors.insert(user, selector, bearer);
    }

    /// Forgets a selector.
    pub fn unselect(&mut self, user: u32, selector: &Selector) {
        self.selectors.remove(user, selector);
    }

    /// Sets the record of one of this worker's users, whose packets go through a gate, or wait,
    /// as before.
    pub fn set_record(&mut self, slot: u32, record: UserRecord) {
        if let Some(place) = self.records.get_mut(self.shift.index(slot)) {
            let stops = if record.present { place.stops } else { Stops::NONE };
            *place = Record::new(record, stops);
        }
    }

    /// Puts a gate in the way of one of this worker's users, or takes it away.
    pub fn set_gated(&mut self, slot: u32, gated: bool) {
        self.set_stop(slot, Stops::GATE, gated);
    }

    /// Lets packets of all users wait whose index is below `users`: their contexts are still being
    /// read.
    pub fn begin_loading(&mut self, users: usize) {
        let users = users.min(self.records.len());
        for place in &mut self.records[..users] {
            if place.standing != Standing::Vacant {
                *place = Record::new(place.told(), place.stops.set(Stops::LOADING, true));
            }
        }
    }

    /// The contexts of one of this worker's users are there.
    pub fn end_loading(&mut self, slot: u32) {
        self.set_stop(slot, Stops::LOADING, false);
    }

    /// Whether contexts of one of this worker's users are still being read.
    pub fn is_loading(&self, slot: u32) -> bool {
        let record = self.records.get(self.shift.index(slot));
        record.is_some_and(|record| record.stops.has(Stops::LOADING))
    }

    fn set_stop(&mut self, slot: u32, stop: Stops, is_set: bool) {
        if let Some(place) = self.records.get_mut(self.shift.index(slot)) {
            *place = Record::new(place.told(), place.stops.set(stop, is_set));
        }
    }

    /// Direction of what comes in at a port.
    pub fn direction_at(&self, port: u16) -> Direction {
        self.ports.get(usize::from(port)).map_or(Direction::Uplink, |port| port.direction)
    }

    /// Removes the record of one of this worker's users.
    pub fn remove_record(&mut self, slot: u32) {
        self.set_record(slot, UserRecord::VACANT);
    }

    /// What becomes of packets of the user or bearer at `slot`.
    pub fn action_of(&self, slot: u32) -> Action {
        let record = self.records.get(self.shift.index(slot));
        record.map_or(Action::Forward, |record| record.action)
    }

    /// Slot of the group of one of this worker's users; [`PacketMetadata::NONE`]
    /// without one.
    pub fn group_of(&self, slot: u32) -> u32 {
        self.records.get(self.shift.index(slot)).map_or(PacketMetadata::NONE, |record| record.group)
    }

    /// Metadata of the node's own packets for a bearer of this worker, uplink and
    /// downlink: as if they had come in at the first port of that
    /// direction.
    pub fn metadata(&self, user: u32, bearer: u32) -> [PacketMetadata; 2] {
        let vacant = Record::new(UserRecord::VACANT, Stops::NONE);
        let record = self.records.get(self.shift.index(user)).unwrap_or(&vacant);
        [Direction::Uplink, Direction::Downlink].map(|direction| {
            let port = self.ports.iter().position(|port| port.direction == direction);
            let port = port.unwrap_or_default();
            let tags = self.tags.get(port * self.classes + usize::from(record.class));
            let (port, tags) = (port as u16, tags.copied().unwrap_or_default());
            let vlan = PacketMetadata::NO_VLAN;
            PacketMetadata {
                tags,
                user,
                bearer,
                group: record.group,
                vlan,
                port,
                ..Default::default()
            }
        })
    }

    /// Finds the users of the packets at `selected`, all of which came in at
    /// `port`, and notes them in the packets. The parser has left the TEID in those at
    /// `tunnelled`.
    #[inline]
    pub fn find(
        &mut self,
        burst: &mut Burst,
        selected: Positions,
        tunnelled: Positions,
        port: u16,
    ) {
        self.scratch.slots[..burst.packets.len()].fill(Table::<u64>::MISS);
        if let Some(class) = self.ports.get(usize::from(port)) {
            let search = Search { port, network: class.network, direction: class.direction };
            if let Some(linear) = &self.linear {
                for position in selected {
                    let packet = &burst.packets[position];
                    let slot = linear.find(packet, search.network, search.direction);
                    self.scratch.slots[position] = slot.unwrap_or(Table::<u64>::MISS);
                }
            } else {
                if !tunnelled.is_empty() {
                    self.look_up_teids(burst, tunnelled, search);
                }
                self.look_up(burst, selected.without(tunnelled), search);
            }
        }
        let is_large = size_of_val(&*self.records) >= PREFETCH_BYTES;
        for position in selected {
            let slot = self.scratch.slots[position];
            if is_large {
                prefetch(&self.records, self.shift.index(slot));
            }
            let metadata = burst.packets[position].metadata_mut();
            // That of no user is [`PacketMetadata::NONE`]; the default bearer is the user's.
            (metadata.user, metadata.bearer) = (slot, slot);
        }
    }

    /// Tags the packets at `selected` whose users were found.
    #[inline]
    pub fn sort(&mut self, burst: &mut Burst, selected: Positions, out: &mut Classified) {
        out.clear();
        let mut run = Run::NONE;
        for position in selected {
            let packet = &mut burst.packets[position];
            let slot = packet.metadata().user;
            if slot == Table::<u64>::MISS {
                out.unknown.insert(position);
                continue;
            }
            match self.shift.worker(slot) == self.worker {
                true => self.admit_one(packet, position, &mut run, out),
                false => out.elsewhere.insert(position),
            }
        }
        out.add(run.entry);
    }

    /// Tags the packets of a burst, whose metadata name users of this
    /// worker, and sorts them by port and class. A user that is gone makes its
    /// packets unknown.
    pub fn admit(&self, burst: &mut Burst, out: &mut Classified) {
        out.clear();
        let mut run = Run::NONE;
        for (position, packet) in burst.packets.iter_mut().enumerate() {
            self.admit_one(packet, position, &mut run, out);
        }
        out.add(run.entry);
    }

    /// Tags one packet, and adds it to `run` or begins another.
    #[inline(always)]
    fn admit_one<'a>(
        &'a self,
        packet: &mut Packet,
        position: usize,
        run: &mut Run<'a>,
        out: &mut Classified,
    ) {
        let metadata = packet.metadata_mut();
        let (slot, port) = (metadata.user, metadata.port);
        let record = self.records.get(self.shift.index(slot));
        let Some(record) = record.filter(|record| record.standing != Standing::Vacant) else {
            out.unknown.insert(position);
            return;
        };
        if (port, record.class) != (run.entry.port, run.entry.class) {
            out.add(run.entry);
            run.entry = Entry { port, class: record.class, positions: Positions::NONE };
            run.tags = self.tags.get(usize::from(port) * self.classes + usize::from(record.class));
        }
        if let Some(tags) = run.tags {
            metadata.tags = *tags;
        }
        metadata.group = record.group;
        metadata.bearer = slot;
        if record.standing == Standing::Special {
            match self.way_of(packet, *record) {
                Admission::On => {}
                Admission::Held => return out.held.insert(position),
                Admission::Gate => return out.gated.insert(position),
            }
        }
        run.entry.positions.insert(position);
    }

    /// Chooses the bearer of a packet; says whether it is to be forwarded now.
    #[cold]
    fn way_of(&self, packet: &mut Packet, record: Record) -> Admission {
        if record.stops.has(Stops::GATE) && packet.metadata().flags & PacketMetadata::PASSED == 0 {
            return Admission::Gate;
        }
        if record.stops.has(Stops::LOADING) {
            // A packet that is held and is to be forwarded waits for contexts.
            packet.metadata_mut().step = StepValue::new(Action::Forward);
            return Admission::Held;
        }
        let direction = self.ports.get(usize::from(packet.metadata().port));
        let direction = direction.map_or(Direction::Uplink, |port| port.direction);
        let mut action = record.action;
        if let Some(bearer) = self.dedicated(packet, &record, direction) {
            packet.metadata_mut().bearer = bearer;
            let own = self
                .records
                .get(self.shift.index(bearer))
                .filter(|own| own.standing != Standing::Vacant);
            action = own.map_or(action, |own| own.action);
        }
        packet.metadata_mut().step = StepValue::new(action);
        match action {
            Action::Drop => Admission::Held,
            Action::Buffer | Action::Notify if direction == Direction::Downlink => Admission::Held,
            _ => Admission::On,
        }
    }

    /// The dedicated bearer that carries a packet, if one does.
    fn dedicated(&self, packet: &Packet, record: &Record, direction: Direction) -> Option<u32> {
        if record.selects {
            let user = packet.metadata().user;
            if let Some(bearer) = self.selectors.choose(user, packet, direction) {
                return Some(bearer);
            }
        }
        let profile = self.profiles.get(usize::from(record.bearer_profile))?;
        let facts = PacketFacts(packet);
        let nth = profile.iter().position(|condition| condition.eval(&facts))?;
        // A user's bearers are neighbours at its worker.
        Some(self.shift.slot(self.worker, self.shift.index(record.bearers) + nth))
    }
}
