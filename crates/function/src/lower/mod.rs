//! What a small function does, said as data.
//!
//! A function that implements [`Lower`] describes the way of one packet through
//! it as a short list of [micro-operations](Operation). From that one
//! description it is interpreted, as the reference, and compiled together with
//! its neighbours into one loop over the burst (the crate `weft-fusion`). For
//! every packet the outcome is that of
//! [`process`](UserPlaneFunction::process): the same bytes, context, tags and
//! verdict.
//!
//! Jumps lead forward only, and no byte of a packet is touched whose presence
//! was not [required](Operation::Require) before. What needs a loop, such as
//! options or extension headers, leaves by [`Operation::Punt`] before anything
//! was changed, and `process` handles that packet.

mod builder;
mod operation;
mod show;

use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use builder::Builder;
pub use operation::{
    Base, Checksum, ContextField, HeaderField, Label, Note, Operation, Operator, Program, Value,
};

use crate::UserPlaneFunction;

/// A function that can be fused with its neighbours.
///
/// Its context is plain data: numbers without padding and without forbidden
/// values, so that machine code may work on the same bytes as `process`. Derive
/// `FromBytes`, `IntoBytes` and `Immutable` of the crate `zerocopy` for it.
///
/// `process` must ask nothing of [`Emit`](crate::Emit) but the time: a function
/// that keeps, sends or releases packets, or wants a timer, cannot be lowered.
pub trait Lower: UserPlaneFunction<Context: FromBytes + IntoBytes + Immutable> {
    /// Fields of the context that micro-operations name.
    const FIELDS: &'static [ContextField] = &[];

    /// What [`process`](UserPlaneFunction::process) does under this
    /// configuration. None when it cannot be said in micro-operations, or not in
    /// a few: the function is then called.
    fn lower(&self, program: Builder) -> Option<Program>;
}

/// The place of a field in a context, for [`Lower::FIELDS`]:
/// `context_field!(Context, packets: u64)`.
#[macro_export]
macro_rules! context_field {
    ($context:ty, $($field:ident).+ : $type:ty) => {{
        const _: fn(&$context) -> &$type = |context| &context.$($field).+;
        $crate::lower::ContextField {
            name: ::core::stringify!($($field).+),
            offset: ::core::mem::offset_of!($context, $($field).+) as u16,
            octets: ::core::mem::size_of::<$type>() as u8,
        }
    }};
}
