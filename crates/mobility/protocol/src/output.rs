//! What machines ask of the program that holds them.

use std::time::Duration;

use crate::identity::{Direction, Epoch, Leg, NodeId, User};
use crate::message::Envelope;
use crate::record::{Kept, Notice, Record, Route};
use crate::transition::Transition;

/// Something to be done. Outputs are carried out in the order they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message. It may be lost, doubled, late.
    Send(Envelope),
    /// Give the timer back as an input after this time. A timer of the same key
    /// that runs already is set anew.
    SetTimer(TimerKey, Duration),
    /// The timer is not needed any more.
    CancelTimer(TimerKey),
    /// Treat the user's packets so. What was held and is not to be held any more
    /// leaves now, forwarded packets before fresh ones, oldest first.
    Steer(User, Posture),
    /// An anchor's: treat the user's packets so.
    SteerAnchor(User, AnchorPosture),
    /// Wait until what is inside functions has come out, copy all that belongs
    /// to the user, and give the bytes back as an input. The contexts stay.
    Export {
        /// Whose.
        user: User,
        /// To be given back with the bytes.
        epoch: Epoch,
    },
    /// Make these contexts, and say whether it went well.
    Import {
        /// Whose.
        user: User,
        /// To be given back.
        epoch: Epoch,
        /// Which.
        contexts: Contexts,
    },
    /// Keep by what the station owns the user, for its next life
    /// ([`Station::remember`](crate::Station::remember)), or that it does not. Nothing waits for
    /// that, but what is kept stays in order, contexts among it.
    Keep(User, Option<Kept>),
    /// Keep the user's only route, for the anchor's next life
    /// ([`Anchor::remember`](crate::Anchor::remember)), or that there is none. Answers that come
    /// behind and let a move go on, or end the user, leave once that is durable
    /// ([`Step::needs_kept`](crate::Step::needs_kept)).
    KeepRoute(User, Option<Route>),
    /// Contexts that stayed at export are used again.
    Resume {
        /// Whose.
        user: User,
        /// They may be older than what has been processed elsewhere: functions
        /// whose contexts cannot be rolled back start new ones.
        rolled_back: bool,
    },
    /// Forward what the ports to the user's radio have received already, and give the
    /// epoch back as an input ([`Station::drained`](crate::Station::drained)).
    Drain {
        /// Whose radio.
        user: User,
        /// To be given back.
        epoch: Epoch,
    },
    /// Forget the user's contexts and posture. What is still held is dropped.
    Discard(User),
    /// Send an End Marker behind all packets that have gone that way.
    SendEndMarker {
        /// Of whom.
        user: User,
        /// To which node.
        to: NodeId,
        /// What it says.
        marker: EndMarker,
    },
    /// Make the record durable, and say so with [`Controller::persisted`].
    /// Records become durable in the order they come; `None` forgets the user.
    ///
    /// [`Controller::persisted`]: crate::Controller::persisted
    Persist {
        /// Whose record.
        user: User,
        /// The record.
        record: Option<Record>,
        /// No epoch from here on has been given to a move.
        next_epoch: Epoch,
    },
    /// Add one to a counter.
    Count(Counter),
    /// Tell the program that gives the controller its orders.
    Tell(Notice),
    /// A state has changed, for logs and checks.
    Changed(User, Transition),
}

/// Contexts of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contexts {
    /// What the source exported.
    Exported(Vec<u8>),
    /// Those that the station's last life has kept.
    Kept,
    /// New ones.
    New,
}

/// An End Marker (TS 29.281 §7.3.2; NSH OAM where a link is not GTP-U): nothing
/// of the user follows it on this path in this direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndMarker {
    /// The move that ends the path.
    pub epoch: Epoch,
    /// Of which packets.
    pub direction: Direction,
    /// The source has resumed: the path from source to target ends because the
    /// move was given up.
    pub resumed: bool,
}

/// Which timer of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerKey {
    /// Whose; `None` for the node itself.
    pub user: Option<User>,
    /// What for.
    pub kind: TimerKind,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimerKind {
    /// Sends a message again.
    Resend,
    /// Opens a gate without an End Marker.
    Gate(Direction),
    /// Ends a path without the node that should have ended it.
    Release,
}

/// What a station does with packets of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Treatment {
    /// The user's path: functions, then out.
    Process,
    /// The gate: keep, within the bounds.
    Hold,
    /// Untouched to another station, marked with the posture's `link`.
    Forward(NodeId),
    /// Drop, counted as of a stale epoch.
    Refuse,
}

/// What a station does with a user's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posture {
    /// Downlink from the anchor is of this epoch; what is not is stale. Uplink
    /// that is processed leaves with it.
    pub epoch: Epoch,
    /// Forwarded packets are of this epoch.
    pub link: Epoch,
    /// Packets from radio and anchor.
    pub fresh: Ways,
    /// Packets that another station forwards.
    pub forwarded: Ways,
}

/// A treatment for each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// From the user.
    pub uplink: Treatment,
    /// To the user.
    pub downlink: Treatment,
}

impl Ways {
    /// The same for both.
    pub const fn both(treatment: Treatment) -> Ways {
        Ways { uplink: treatment, downlink: treatment }
    }

    /// That of one direction.
    pub fn of(&self, direction: Direction) -> Treatment {
        match direction {
            Direction::Uplink => self.uplink,
            Direction::Downlink => self.downlink,
        }
    }
}

/// What an anchor does with a user's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnchorPosture {
    /// Where downlink goes.
    pub downlink: Option<Leg>,
    /// Uplink of this epoch is passed on.
    pub accept: Option<Epoch>,
    /// Uplink of this epoch, too: passed on, or held until it is. Whatever is of
    /// neither is stale.
    pub next: Option<(Epoch, bool)>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// A source handed a user over.
    Exported,
    /// A target took a user with contexts.
    Imported,
    /// A move was given up and the source went on.
    Resumed,
    /// Contexts, or what came after they were exported, are lost with a node.
    ContextLost,
    /// A user that the node's last life had goes on with contexts of their last checkpoint.
    ContextKept,
    /// A user has no owner: the owner is gone.
    NoOwner,
    /// A gate for uplink was opened without an End Marker.
    UplinkGateTimeout,
    /// A gate for downlink was opened without an End Marker.
    DownlinkGateTimeout,
    /// A path was ended without the event that should have ended it.
    ReleaseTimeout,
    /// A message was sent again.
    Resent,
    /// A message for another incarnation, or of a stale epoch.
    Stale,
}

impl Counter {
    /// All of them.
    pub const ALL: [Counter; 11] = [
        Counter::Exported,
        Counter::Imported,
        Counter::Resumed,
        Counter::ContextLost,
        Counter::ContextKept,
        Counter::NoOwner,
        Counter::UplinkGateTimeout,
        Counter::DownlinkGateTimeout,
        Counter::ReleaseTimeout,
        Counter::Resent,
        Counter::Stale,
    ];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Counter::Exported => "exported",
            Counter::Imported => "imported",
            Counter::Resumed => "resumed",
            Counter::ContextLost => "context_lost",
            Counter::ContextKept => "context_kept",
            Counter::NoOwner => "no_owner",
            Counter::UplinkGateTimeout => "uplink_gate_timeout",
            Counter::DownlinkGateTimeout => "downlink_gate_timeout",
            Counter::ReleaseTimeout => "release_timeout",
            Counter::Resent => "resent",
            Counter::Stale => "stale",
        }
    }
}
