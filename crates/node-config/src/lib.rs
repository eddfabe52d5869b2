//! The configuration of a node: one YAML file, read and checked whole.
//!
//! A file goes through four hands, each of which notes what it finds wrong at
//! its line and column:
//! 1. [`weft_yaml::document`] parses YAML into a tree that knows where everything
//!    stands;
//! 2. `shape` reads the tree into the types of `yaml`, whose comments are
//!    the published [`schema()`];
//! 3. `check` resolves names and compares numbers with their bounds; it makes
//!    every function once, on trial, and parses the rules;
//! 4. what comes out is a [`Blueprint`]: a node that is built from it can fail
//!    only because of the machine.

#![forbid(unsafe_code)]

mod blueprint;
mod check;
mod schema;
mod yaml;

#[cfg(test)]
mod tests;

use std::path::Path;

use weft_compose::Kind;
use weft_yaml::{locate, mistake, shape, values, wording};

pub use blueprint::{
    BearerPlan, BgpPeerPlan, BgpPlan, Blueprint, Classification, Composition, Echo, Forwarding,
    FunctionPlan, FusedWhen, GroupPlan, Gtpu, HandoverPlan, HandoverRole, Hop, HopTo, IpfixPlan,
    IpfixTransport, Limits, Loading, LocalLimits, Memory, MovingUsers, OnErrorIndication,
    Overrules, PathPlan, Peer, PeerAddress, PfcpChainPlan, PfcpInterfacePlan, PfcpNodeId, PfcpPlan,
    PfcpSide, Polling, PortPlan, ProcessPlan, RemotePlan, SitePlan, StagePlan, StandbyPlan,
    StatePlan, UserKey, UserPlan, VfPlan, Workers,
};
pub use check::stage;
pub use mistake::{Mistake, Mistakes};
pub use schema::schema;
pub use yaml::DEFAULT_NETWORK;

/// Reads a configuration from `path`; see [`read`].
///
/// # Errors
/// [`Mistakes`]; one, at the start of the file, when it cannot be read at all.
pub fn load(path: &Path, kinds: &[Kind]) -> Result<Blueprint, Mistakes> {
    read(&weft_yaml::load(path)?, &path.display().to_string(), kinds)
}

/// Reads a configuration in which the functions of `kinds` can be used. `file`
/// is what mistakes call it.
///
/// # Errors
/// [`Mistakes`]: as many as can be found at once.
pub fn read(text: &str, file: &str, kinds: &[Kind]) -> Result<Blueprint, Mistakes> {
    let mut source = weft_yaml::parse(text, file, "Node")?;
    let blueprint = shape::read(&mut source)
        .and_then(|node| check::blueprint(&node, &mut source, kinds))
        .ok_or_else(|| Mistakes::of(file, std::mem::take(&mut source.mistakes)))?;
    let warnings = Mistakes::of(file, blueprint.warnings.0);
    Ok(Blueprint { warnings, ..blueprint })
}
