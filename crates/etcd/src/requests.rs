//! What is asked of etcd: of a cluster, or of a model of one ([`crate::model`]).

use std::time::{Duration, Instant};

use crate::error::EtcdError;

/// One part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The key has this value, and goes with a lease if there is one.
    Put {
        /// With the prefix.
        key: String,
        /// Its octets.
        value: Vec<u8>,
        /// 0 for none.
        lease: i64,
    },
    /// The key and its value are read.
    Get(String),
    /// There is no such key any more.
    Remove(String),
    /// There are no keys any more from one to before another.
    RemoveRange(String, String),
}

/// What a transaction depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fence {
    /// A key was made at a revision: 0 where there is to be no such key.
    Made(String, u64),
    /// A key has a value.
    Value(String, Vec<u8>),
}

/// A key as it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// With the prefix.
    pub key: String,
    /// Its octets.
    pub value: Vec<u8>,
    /// The revision at which it was made.
    pub made: u64,
    /// The lease that it goes with, or 0.
    pub lease: i64,
}

/// What a transaction has read, for each [`Operation::Get`]; none at all if what it depends on
/// did not hold.
pub type Carried = Option<Vec<Option<Found>>>;

/// Which keys are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first key.
    pub from: String,
    /// The keys before that one; none for the first key only.
    pub before: Option<String>,
    /// So many at most; 0 for all.
    pub limit: u64,
    /// As they were at this revision; 0 for now.
    pub revision: u64,
}

/// Keys that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In order.
    pub found: Vec<Found>,
    /// The revision of etcd when they were read.
    pub revision: u64,
    /// There are more.
    pub more: bool,
}

/// An etcd, and the clock of who asks it. All calls wait for the answer.
pub trait Etcd: Send + Sync {
    /// What all keys begin with.
    fn prefix(&self) -> &str;

    /// Carries out all operations at once, if all fences hold.
    ///
    /// # Errors
    /// [`EtcdError`]; the operations may have been carried out all the same, or may be later.
    fn transact(
        &self,
        fences: Vec<Fence>,
        operations: Vec<Operation>,
    ) -> Result<Carried, EtcdError>;

    /// Reads keys.
    ///
    /// # Errors
    /// [`EtcdError`]: [`EtcdError::Compacted`] where the revision is given up.
    fn range(&self, range: Range) -> Result<Page, EtcdError>;

    /// Makes a lease of about so long; returns it, and how long it lasts.
    ///
    /// # Errors
    /// [`EtcdError`].
    fn grant(&self, lasts: Duration) -> Result<(i64, Duration), EtcdError>;

    /// Lets a lease last anew; false if there is none.
    ///
    /// # Errors
    /// [`EtcdError`].
    fn renew(&self, lease: i64) -> Result<bool, EtcdError>;

    /// Ends a lease; one that cannot be ended ends by itself.
    fn revoke(&self, lease: i64);

    /// Returns when a key has changed since a revision, or when that is not to be known, and
    /// after `longest` in any case.
    fn wait_for_change(&self, key: &str, since: u64, longest: Duration);

    /// The clock of who asks.
    fn now(&self) -> Instant;

    /// Waits.
    fn sleep(&self, time: Duration);

    /// Does something beside; false if there is no thread for it.
    fn begin(&self, work: Box<dyn FnOnce() + Send>) -> bool;
}
