//! What controllers of one site share, in etcd (version 3.4 or newer).
//!
//! Several replicas of a controller campaign for one key ([`Election`]): the one whose key it is
//! leads, for as long as it renews the lease of the key. The revision at which the key was made
//! is the leader's *term*; terms only rise. Every transaction of an [`EtcdStore`] compares that
//! revision, so one that no longer leads can write nothing, however late it learns of it.
//!
//! Records are written as a log, one transaction for all changes that came together, and folded
//! into groups of up to 1,024 records, so that the keys are as many as groups and not as many as
//! records (`store.rs`).

#![forbid(unsafe_code)]

mod cluster;
mod election;
mod error;
mod layout;
pub mod local;
pub mod model;
mod remote;
mod requests;
mod store;

pub use self::cluster::{Cluster, Options};
pub use self::election::{Candidate, Election, Leader, Leadership};
pub use self::error::EtcdError;
pub use self::requests::{Carried, Etcd, Fence, Found, Operation, Page, Range};
pub use self::store::{Counts, EtcdStore};
