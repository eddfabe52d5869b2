//! What is shown of sessions.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a node announces, and to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BgpView {
    /// Our AS number.
    pub autonomous_system: u32,
    /// Networks, such as 10.45.0.0/16.
    pub networks: Vec<String>,
    /// Routers.
    pub peers: Vec<PeerView>,
}

/// A router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerView {
    /// Its address.
    #[schema(value_type = String)]
    pub address: IpAddr,
    /// Its AS number.
    pub autonomous_system: u32,
    /// `connect`, `open-sent`, `open-confirm` or `established`.
    pub state: String,
    /// Networks that it was told of.
    pub announced: u64,
    /// How often a session was established.
    pub sessions: u64,
    /// Why the last connection or session ended, or was not made.
    pub reason: Option<String>,
}

/// What is shown; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<BgpView>>);

impl Watch {
    pub(crate) fn new(view: BgpView) -> Watch {
        Watch(Arc::new(Mutex::new(view)))
    }

    /// As it is now.
    pub fn view(&self) -> BgpView {
        // What is locked is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what is shown of a router.
    pub(crate) fn change(&self, peer: usize, change: impl FnOnce(&mut PeerView)) {
        let mut view = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = view.peers.get_mut(peer) {
            change(peer);
        }
    }
}
