//! Sessions, and what is under way about them.

use std::net::IpAddr;
use std::sync::Arc;

use weft_functions::session::rules::{Session, UrrId};

use crate::associations::AssociationId;
use crate::codec::rule::{CreatedPdr, CreatedTrafficEndpoint};
use crate::transactions::TransactionId;
use crate::translate::{Acquired, Extras};

/// What is known of a session. There may be a million.
pub(super) struct Record {
    /// The control plane's SEID.
    pub cp_seid: u64,
    /// Where reports go.
    pub cp_address: IpAddr,
    /// Who owns it; none if that has ended.
    pub association: Option<AssociationId>,
    /// Its place in the list of the association.
    pub place: u32,
    /// A command about it is not committed yet.
    pub is_committing: bool,
    pub rules: Arc<Session>,
    pub extras: Option<Box<Extras>>,
}

/// A command about a session, and what follows from it.
pub(super) enum Work {
    Establish {
        seid: u64,
        id: TransactionId,
        created: Vec<CreatedPdr>,
        created_endpoints: Vec<CreatedTrafficEndpoint>,
        acquired: Acquired,
    },
    Change(Box<Change>),
    Delete {
        seid: u64,
        cp_seid: u64,
        /// None if the node gives it up of its own accord.
        id: Option<TransactionId>,
        record: Option<Box<Record>>,
    },
}

/// A change of a session.
pub(super) struct Change {
    pub seid: u64,
    pub cp_seid: u64,
    /// None if a report's response has changed it.
    pub id: Option<TransactionId>,
    pub rules: Arc<Session>,
    pub extras: Option<Box<Extras>>,
    pub created: Vec<CreatedPdr>,
    pub updated: Vec<CreatedPdr>,
    pub created_endpoints: Vec<CreatedTrafficEndpoint>,
    pub acquired: Acquired,
    /// Usage reporting rules that are no more; known once it is committed.
    pub gone: Vec<UrrId>,
    /// Number of the query that reports answer.
    pub query: Option<u32>,
    /// Where reports go from now on.
    pub cp: Option<(u64, IpAddr)>,
}
