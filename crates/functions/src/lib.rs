//! The functions, one file each, and the [registry](KINDS) of them.
//!
//! Every file has the same parts: a `Config` for an instance, `Settings` for a
//! bearer, user or group, a `Context` that is kept for each of them, and the
//! type that implements [`UserPlaneFunction`](weft_function::UserPlaneFunction).
//! What a function costs and how it is used stands in `docs/functions/`, one
//! page each; `docs/writing-a-function.md` walks through adding one.

#![forbid(unsafe_code)]

pub mod counter;
pub mod filter;
pub mod forward;
pub mod marker;
pub mod pass;
pub mod prefix;
pub mod rewrite_address;
pub mod synthetic;
#[cfg(test)]
mod testing;
pub mod text;

use weft_compose::Kind;

/// All functions, by name. A new one is one more line here.
pub const KINDS: &[Kind] = &[
    Kind::of::<counter::Counter>(),
    Kind::of::<filter::Filter>(),
    Kind::of::<forward::Forward>(),
    Kind::of::<marker::Marker>(),
    Kind::of::<pass::Pass>(),
    Kind::of::<rewrite_address::RewriteAddress>(),
    Kind::of::<synthetic::Synthetic>(),
];

/// The function of that name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}
