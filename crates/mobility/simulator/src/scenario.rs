//! What is simulated.

use weft_mobility_protocol::gate::{Bounds, Policy};

/// Makes the struct `Faults` of a simulator from one list: a field for each fault, their names,
/// all of them, and the choice by name.
#[macro_export]
macro_rules! fault_set {
    ($($(#[$about:meta])* $name:ident),+ $(,)?) => {
        /// What can go wrong.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Faults {
            $($(#[$about])* pub $name: bool,)+
        }

        impl Faults {
            /// All of them.
            pub const ALL: Faults = Faults { $($name: true,)+ };
            /// The names by which faults are chosen.
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// Adds one by its name, `all` or `none`; false if there is no such name.
            pub fn add(&mut self, name: &str) -> bool {
                match name {
                    "all" => *self = Faults::ALL,
                    "none" => {}
                    $(stringify!($name) => self.$name = true,)+
                    _ => return false,
                }
                true
            }
        }
    };
}

crate::fault_set! {
    /// Messages are lost, doubled, and late by up to fifty times their time.
    messages,
    /// Stations, anchors and the controller die and start again; some stations do
    /// not come back.
    deaths,
    /// Two parties cannot reach each other for a while, by messages or packets.
    cuts,
    /// A station is not told that the radio has left it, or the radio goes before
    /// the target owns the user.
    radio,
    /// Targets cannot make contexts of what they are sent.
    contexts,
}

/// Something built wrong on purpose, to show that the checks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// A source exports while packets are still inside its functions.
    SkipFence,
    /// A target works off fresh packets before the End Markers.
    OpenGateEarly,
    /// A source goes on processing after it was told to move.
    KeepProcessing,
    /// A packet that leaves a gate is lost.
    LoseHeld,
    /// A packet that is forwarded goes out twice.
    DoubleForwarded,
    /// End Markers do not keep behind the packets before them.
    MarkerOvertakes,
    /// Stations send no End Markers.
    NoMarkers,
    /// Gates do not open by themselves.
    NoGateTimers,
    /// What waits in a gate stays there when it opens.
    KeepHeld,
    /// The controller is told that records are durable, and they are not.
    ForgetRecords,
    /// A controller that starts again gives epochs anew that it gave before.
    ForgetEpochs,
    /// Nodes follow messages that were meant for an earlier life.
    IgnoreIncarnation,
    /// The source is told to resume although the target may have imported.
    ResumeUnasked,
    /// Lost contexts are not counted.
    HideLostContexts,
    /// A node that starts again has the incarnation that it had before.
    SameIncarnation,
    /// A radio is taken to have left before what it sent has come.
    SkipDrain,
    /// A station goes on with whatever contexts it has kept.
    TrustCheckpoints,
    /// A station takes each user without a source for one that is given back from the epoch that it
    /// has kept.
    TrustRecords,
    /// An anchor lets a move go on before its disk has forgotten the route until then.
    AnswerEarly,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 19] = [
        Mutation::SkipFence,
        Mutation::OpenGateEarly,
        Mutation::KeepProcessing,
        Mutation::LoseHeld,
        Mutation::DoubleForwarded,
        Mutation::MarkerOvertakes,
        Mutation::NoMarkers,
        Mutation::NoGateTimers,
        Mutation::KeepHeld,
        Mutation::ForgetRecords,
        Mutation::ForgetEpochs,
        Mutation::IgnoreIncarnation,
        Mutation::ResumeUnasked,
        Mutation::HideLostContexts,
        Mutation::SameIncarnation,
        Mutation::SkipDrain,
        Mutation::TrustCheckpoints,
        Mutation::TrustRecords,
        Mutation::AnswerEarly,
    ];

    /// The name by which it is chosen.
    pub fn name(self) -> &'static str {
        match self {
            Mutation::SkipFence => "skip-fence",
            Mutation::OpenGateEarly => "open-gate-early",
            Mutation::KeepProcessing => "keep-processing",
            Mutation::LoseHeld => "lose-held",
            Mutation::DoubleForwarded => "double-forwarded",
            Mutation::MarkerOvertakes => "marker-overtakes",
            Mutation::NoMarkers => "no-markers",
            Mutation::NoGateTimers => "no-gate-timers",
            Mutation::KeepHeld => "keep-held",
            Mutation::ForgetRecords => "forget-records",
            Mutation::ForgetEpochs => "forget-epochs",
            Mutation::IgnoreIncarnation => "ignore-incarnation",
            Mutation::ResumeUnasked => "resume-unasked",
            Mutation::HideLostContexts => "hide-lost-contexts",
            Mutation::SameIncarnation => "same-incarnation",
            Mutation::SkipDrain => "skip-drain",
            Mutation::TrustCheckpoints => "trust-checkpoints",
            Mutation::TrustRecords => "trust-records",
            Mutation::AnswerEarly => "answer-early",
        }
    }
}

/// What is simulated. Times are in microseconds of virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Nodes that own users.
    pub stations: u32,
    /// Nodes before them.
    pub anchors: u32,
    /// Users.
    pub users: u64,
    /// Moves to be completed before the run comes to its end.
    pub moves: u64,
    /// Mean time between two packets of a user in one direction.
    pub packet_gap: u64,
    /// Mean time between two orders to the controller.
    pub order_gap: u64,
    /// Faults.
    pub faults: Faults,
    /// Bounds of a gate.
    pub gate: Bounds,
    /// Bounds of all gates of a node.
    pub node_gates: Bounds,
    /// Which packet gives way.
    pub policy: Policy,
    /// Links of packets keep no order: order is then not checked.
    pub disorder: bool,
    /// Something built wrong on purpose.
    pub mutation: Option<Mutation>,
    /// Keep the last so many lines of the log.
    pub log: usize,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            stations: 4,
            anchors: 2,
            users: 6,
            moves: 20,
            packet_gap: 2_000,
            order_gap: 4_000,
            faults: Faults::ALL,
            gate: Bounds { packets: 4096, bytes: 8 << 20 },
            node_gates: Bounds { packets: 65_536, bytes: 128 << 20 },
            policy: Policy::DropNewest,
            disorder: false,
            mutation: None,
            log: 0,
        }
    }
}
