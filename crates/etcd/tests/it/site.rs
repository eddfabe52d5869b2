//! What a test works with: members of etcd, replicas that campaign, and a client beside them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use etcd_client::Client;
use weft_etcd::local::{Members, is_installed};
use weft_etcd::{Candidate, Cluster, Election, EtcdStore, Leadership};
use weft_state::{Owner, Role, StateError};

pub const PREFIX: &str = "/weft/test/";
/// Longer than a machine that has much to do keeps a member from answering.
pub const LEASE: Duration = Duration::from_secs(5);

pub fn owner() -> Owner {
    Owner { role: Role::Controller, name: "test".to_owned() }
}

pub struct Site {
    pub members: Members,
    _folder: tempfile::TempDir,
}

impl Site {
    /// So many members; none where there is no etcd.
    pub fn start(count: usize, options: &[&str]) -> Option<Site> {
        if !is_installed() {
            eprintln!("skipped: there is no etcd (Debian package etcd-server)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let members = Members::start(folder.path(), count, options).unwrap();
        Some(Site { members, _folder: folder })
    }

    pub fn election(&self, name: &str) -> Election {
        let cluster = Cluster::new(self.members.options(PREFIX)).unwrap();
        let address = format!("http://{name}");
        Election::new(Arc::new(cluster), Candidate { name: name.to_owned(), address }, LEASE)
    }

    /// A replica that leads, as soon as no other does.
    pub fn lead(&self, name: &str) -> Leadership {
        self.election(name).campaign(&AtomicBool::new(false), |_, _| {}).unwrap()
    }

    /// Something done by a client that knows nothing of us.
    pub fn meddle<F: Future<Output = ()>>(&self, work: impl FnOnce(Client) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoints = self.members.options(PREFIX).endpoints;
            work(Client::connect(endpoints, None).await.unwrap()).await;
        });
    }
}

pub fn open(leadership: &Leadership) -> Result<EtcdStore, StateError> {
    EtcdStore::open(leadership.clone(), &owner(), Arc::new(AtomicBool::new(false)))
}
