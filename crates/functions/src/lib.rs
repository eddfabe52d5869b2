//! The functions, one file each, in a folder for each domain, and the
//! [list](KINDS) of them.
//!
//! Every file has the same parts: a `Config` for an instance, `Settings` for a
//! bearer, user or group, a `Context` that is kept for each of them, and the
//! type that implements [`UserPlaneFunction`](weft_function::UserPlaneFunction).
//! What a function costs and how it is used stands in `docs/functions/`, one
//! page each; `docs/writing-a-function.md` walks through adding one.
//!
//! The `mod.rs` of a domain lists its functions. Functions do not know each other:
//! what several of them use stands beside them in their domain, or in
//! [`common`] for all domains.

#![forbid(unsafe_code)]

use weft_compose::Kind;

#[macro_use]
mod registry;

pub mod basic;
pub mod common;
#[cfg(test)]
mod composition;
pub mod gtpu;
pub mod iphc;
pub mod ipsec;
pub mod lwaftr;
pub mod nat;
pub mod qos;
pub mod route;
pub mod session;
#[cfg(test)]
mod testing;

const DOMAINS: &[&[Kind]] = &[
    basic::KINDS,
    gtpu::KINDS,
    iphc::KINDS,
    ipsec::KINDS,
    lwaftr::KINDS,
    nat::KINDS,
    qos::KINDS,
    route::KINDS,
];

/// All functions, by name.
pub static KINDS: &[Kind] = &registry::by_name::<{ registry::count(DOMAINS) }>(DOMAINS);

/// The function of that name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}
