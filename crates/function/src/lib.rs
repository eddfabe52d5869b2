//! What the author of a user plane function sees.
//!
//! A function is a type that implements [`UserPlaneFunction`]. It is handed one
//! packet at a time, together with the context it keeps for that packet's
//! bearer, user or group, and answers with a [`Verdict`]. It never learns what
//! comes before or behind it: the forwarding element steers, by rules that may
//! look at the [tags](tag) which functions set.
//!
//! The loop over a burst, the prefetch of contexts, the counters and the
//! containment of panics are written once, in the crate `weft-compose`; the
//! compiler inlines [`UserPlaneFunction::process`] into them.
//!
//! `docs/writing-a-function.md` walks through a whole function.

#![forbid(unsafe_code)]

mod emit;
mod error;
mod event;
mod fields;
mod function;
mod headers;
pub mod lower;
pub mod metadata;
pub mod tag;
pub mod tunnel;
mod unit;
mod verdict;

pub use emit::{Emission, EmissionKind, Emissions, Emit, Position};
pub use error::{ConfigError, ContextError};
pub use event::{EventSender, Events, FunctionEvent, events};
pub use fields::Fields;
pub use function::{NoSettings, Scope, Setup, UserPlaneFunction};
pub use headers::{FlowKey, Headers, IpMut, IpView};
pub use lower::Lower;
pub use metadata::{Metadata, PacketMetadata, StepData, StepValue, TAG_SLOTS};
pub use tag::{
    Colour, Direction, Tag, TagError, TagSlot, TagTable, TagValues, Values, tags_written,
};
pub use tunnel::{Tunnel, TunnelEnd, TunnelEnds};
pub use unit::{ByteSize, Rate};
pub use verdict::{Reason, Verdict};
pub use weft_dpdk::{Packet, Pool};
