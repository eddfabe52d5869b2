//! What the agent tells a worker, and what a worker tells the agent.
//!
//! Commands reach a worker over a ring and are applied between bursts, in the
//! order they were given, within a budget: a thousand users are added over many
//! bursts, so traffic never waits for long. Everything that a command brings
//! was checked and allocated by the agent, and what it replaces goes back to
//! the agent to be freed.

pub mod attachment;
pub mod contexts;
mod punt;
pub mod transfer;
mod waker;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use weft_compose::Instance;
use weft_dpdk::Packet;
use weft_function::TAG_SLOTS;
use weft_mobility_protocol::EndMarker;
use weft_rules::Condition;

use self::attachment::Attachment;
use self::contexts::{Load, Octets, Values, Written};
pub use self::punt::{FIRST_SOURCE_PORT, Punt, Punted};
use self::transfer::{Extract, Intake};
pub use self::waker::Waker;
use crate::classify::{Selector, UserKey, UserRecord};
use crate::forward::Plan;
pub use crate::forward::{Configure, Part};
use crate::gates::Order;
use crate::offload::stage::{Map, StageQueue};
use crate::trace::Tap;

/// A change at one worker.
pub enum Command {
    /// Steer by these rules and functions from now on.
    Replace(Box<Replacement>),
    /// Add, change or remove users; a long list is worked off in pieces.
    Users(Box<[UserChange]>),
    /// Give a context its settings.
    Configure(Configure),
    /// The MAC address of a neighbour, or that it has none.
    Neighbour {
        /// The port it is reached through.
        port: u16,
        /// Its IP address.
        address: IpAddr,
        /// Its MAC address; none when it does not answer any more.
        mac: Option<[u8; 6]>,
    },
    /// Give back the queues of a port whose device is gone.
    Detach {
        /// The port.
        port: u16,
        /// Where they go.
        answer: Sender<Attachment>,
    },
    /// The device of a port is back.
    Attach(Box<Attachment>),
    /// Send a frame as it is.
    Transmit {
        /// Out of this port.
        port: u16,
        /// The frame.
        frame: Packet,
    },
    /// Send an IP packet of the node's own, behind room for an Ethernet header.
    Originate {
        /// Out of this port.
        port: u16,
        /// The packet, with metadata.
        packet: Packet,
    },
    /// Send an IP packet of the node's own to a user of this worker, whose slot is
    /// in the metadata, as if it had come in for the user.
    Answer(Packet),
    /// Treat a user that moves otherwise.
    Order(Box<Order>),
    /// Carry what has been received for users by now, and say so with this number.
    Drain(u64),
    /// Take a user's belongings out.
    TakeOut(Box<Extract>),
    /// Take a user's belongings in.
    TakeIn(Box<Intake>),
    /// Say what a function has in contexts.
    ReadContexts {
        /// Number of the function.
        function: u16,
        /// Slots of the contexts.
        slots: Vec<u32>,
        /// Where the answer goes, in the same order.
        answer: Sender<Octets>,
    },
    /// Say what contexts of a function hold.
    ShowContexts {
        /// Number of the function.
        function: u16,
        /// Slots of the contexts.
        slots: Vec<u32>,
        /// Where the answer goes, in the same order.
        answer: Sender<Values>,
    },
    /// Give a function contexts.
    WriteContexts {
        /// Number of the function.
        function: u16,
        /// Slot, and what was exported.
        contexts: Vec<(u32, Vec<u8>)>,
        /// Where the answer goes.
        answer: Sender<Written>,
    },
    /// Give functions contexts that were read from the store, and let users go on that have all of
    /// theirs.
    Load(Box<Load>),
    /// Let the packets of a function wait at its queue, and give the instance to the agent
    /// once none is away.
    Lift {
        /// Number of the function.
        function: u16,
        /// The queue to where it goes or comes from.
        remote_queue: u16,
    },
    /// Take part in a change of how packets come to the queues of a port.
    Redirect(Redirect),
    /// Watch packets; the number names the tap when it is to be removed.
    Tap(u64, Box<Tap>),
    /// Stop watching.
    Untap(u64),
    /// Say what the contexts of a user hold.
    Show {
        /// Slot of the user.
        user: u32,
        /// Where the answer goes: function, and what it shows.
        answer: Sender<Shown>,
    },
}

impl Command {
    /// Whether it may be carried out before others that wait for a function: it has
    /// nothing to do with any.
    pub fn passes(&self) -> bool {
        matches!(
            self,
            Command::Neighbour { .. }
                | Command::Detach { .. }
                | Command::Attach(_)
                | Command::Transmit { .. }
                | Command::Originate { .. }
                | Command::Answer(_)
        )
    }
}

/// What a worker does while the redirection table of a port is changed, so that no packet overtakes
/// another. It reports the number of the step when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// Receive nothing from this port: its queues are about to get packets whose flows have older
    /// ones at other queues.
    Hold {
        /// The port.
        port: u16,
        /// Of the step.
        number: u64,
    },
    /// Carry all that the queues of this port have, of which some are about to get less.
    Drain {
        /// The port.
        port: u16,
        /// Of the step.
        number: u64,
    },
    /// Carry all that other workers have handed over.
    TakeOver {
        /// Of the step.
        number: u64,
    },
    /// Receive from the ports that were held.
    Release {
        /// Of the step.
        number: u64,
    },
}

/// Where a function stands that was lifted.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Number of the function.
    pub function: u16,
    /// The queue at which its packets wait.
    pub remote_queue: u16,
    /// Whether it is at hand; otherwise the queue leads to it.
    pub at_hand: bool,
}

/// Everything that a change of configuration replaces at once.
pub struct Replacement {
    /// Rules and, once the worker has put them together, functions.
    pub plan: Box<Plan>,
    /// The functions of the plan, in order. The plan has room for them.
    pub parts: Vec<Part>,
    /// Tags of all classes at all ports, those of all classes at one port behind
    /// those at the port before;
    /// numbers of classes given out before keep their meaning.
    pub tags: Vec<[u32; TAG_SLOTS]>,
    /// Conditions of the bearer profiles; numbers keep their meaning.
    pub profiles: Vec<Vec<Condition>>,
    /// The worker's ways to stages that are new.
    pub stages: Vec<StageQueue>,
    /// What each stage is to know of the rules.
    pub maps: Vec<Arc<Map>>,
    /// The function that was lifted and stands elsewhere now.
    pub arrival: Option<Arrival>,
}

/// A change of one user at one worker.
pub enum UserChange {
    /// Packets with this key belong to the user at this slot from now on.
    Key(UserKey, u32),
    /// Packets with this key belong to no user any more.
    Unkey(UserKey),
    /// The user at this slot is this worker's, with fresh contexts or with
    /// those it had.
    Record(u32, UserRecord),
    /// All that comes for the user at this slot goes through a gate.
    Gate(u32),
    /// The user's packets that this selector is of belong to this bearer.
    Select {
        /// Slot of the user.
        user: u32,
        /// Which packets.
        selector: Selector,
        /// Slot of the bearer.
        bearer: u32,
    },
    /// They belong to another of the user's bearers again.
    Unselect {
        /// Slot of the user.
        user: u32,
        /// Which packets.
        selector: Selector,
    },
    /// The user is gone, with the contexts of its bearers.
    Remove {
        /// Slot of the user.
        user: u32,
        /// Slots of its bearers; the default bearer has the user's own.
        contexts: Vec<u32>,
    },
    /// The group is gone, with its contexts.
    RemoveGroup {
        /// Slot of the group.
        slot: u32,
    },
    /// An End Marker goes down each tunnel of a context that it will not have any
    /// more with its next settings.
    EndTunnels {
        /// Slot of the user.
        user: u32,
        /// The next settings, which another change gives it.
        next: Configure,
    },
    /// Settings of one function for a slot.
    Configure(Configure),
    /// Drop what a function keeps for a context.
    Forget {
        /// Number of the function.
        function: u16,
        /// Slot of the context.
        slot: u32,
    },
    /// Ask a function of a context. The answer comes back with the list.
    Ask {
        /// Number of the function.
        function: u16,
        /// Slot of the context.
        slot: u32,
        /// What is asked.
        question: Box<[u8]>,
        /// What it says.
        answer: Vec<u8>,
    },
    /// Nothing changes: the list belongs to the batch of this number.
    Batch(u64),
    /// A context starts afresh.
    Reset {
        /// Number of the function.
        function: u16,
        /// Slot of the context.
        slot: u32,
    },
}

/// What the contexts of a user hold, by function.
pub type Shown = Vec<(String, Vec<(&'static str, u64)>)>;

/// What a worker has for the agent, to free or to answer.
pub enum Report {
    /// No longer used.
    Replaced(Box<Replacement>),
    /// Worked off.
    UsersDone(Box<[UserChange]>),
    /// Done.
    Configured(Configure),
    /// No longer used.
    TapRemoved(Box<Tap>),
    /// A context was reset after a panic and has no settings now.
    ContextReset {
        /// Name of the function: it may have another number by now.
        function: Arc<str>,
        /// Slot of the context.
        slot: u32,
    },
    /// The command is applied.
    Ordered(Box<Order>),
    /// The first packet of a user waits at the gate for fresh packets of this
    /// direction.
    Held(u32, weft_mobility_protocol::Direction),
    /// An End Marker has come for the user at this slot.
    EndMarker(u32, EndMarker),
    /// What had been received for users is carried.
    Drained(u64),
    /// A user's belongings.
    TakenOut(Box<Extract>),
    /// The instance of a function whose packets wait.
    Lifted(Box<dyn Instance>),
    /// A user's belongings were taken in, or it says which were not.
    TakenIn(Box<Intake>),
    /// A function has something to tell of a context.
    OfFunction {
        /// Name of the function: it may have another number by now.
        function: Arc<str>,
        /// Slot of the context.
        slot: u32,
        /// What it tells, by a code of its own.
        code: u32,
    },
    /// A packet waits for the bearer at this slot, the first one.
    DownlinkData(u32),
    /// A packet waits for contexts of the user at this slot, the first one.
    Wanted(u32),
    /// This step of a change of a redirection table is done.
    Redirected(u64),
    /// A next hop is needed.
    Resolve {
        /// The port it is reached through.
        port: u16,
        /// Its IP address.
        address: IpAddr,
    },
}
