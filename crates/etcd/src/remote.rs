//! A cluster of etcd answers requests.

use std::thread;
use std::time::{Duration, Instant};

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, KeyValue, PutOptions, Txn, TxnOp, TxnOpResponse,
    WatchOptions,
};
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::error::EtcdError;
use crate::requests::{Carried, Etcd, Fence, Found, Operation, Page, Range};

/// Octets of an answer.
const ANSWER: usize = 64 << 20;
/// Pause where a key cannot be watched.
const PAUSE: Duration = Duration::from_millis(200);

fn operation(operation: &Operation) -> TxnOp {
    match operation {
        Operation::Put { key, value, lease } => {
            let options = (*lease != 0).then(|| PutOptions::new().with_lease(*lease));
            TxnOp::put(key.clone(), value.clone(), options)
        }
        Operation::Get(key) => TxnOp::get(key.clone(), None),
        Operation::Remove(key) => TxnOp::delete(key.clone(), None),
        Operation::RemoveRange(first, before) => {
            let options = DeleteOptions::new().with_range(before.clone());
            TxnOp::delete(first.clone(), Some(options))
        }
    }
}

fn found(there: KeyValue) -> Found {
    let (made, lease) = (there.create_revision() as u64, there.lease());
    let (key, value) = there.into_key_value();
    Found { key: String::from_utf8_lossy(&key).into_owned(), value, made, lease }
}

impl Cluster {
    /// Waits for something that the thread of this cluster does.
    fn asked<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EtcdError>> + Send + 'static,
    ) -> Result<T, EtcdError> {
        let ended = || EtcdError::Unreachable("the thread for etcd has ended".to_owned());
        self.wait(work).ok_or_else(ended)?
    }

    async fn watch_until_change(self, key: String, since: u64) {
        let watched = self.ask(|mut client| {
            let options = WatchOptions::new().with_start_revision(since as i64 + 1);
            let key = key.clone();
            async move { client.watch(key, Some(options)).await }
        });
        let Ok(mut watched) = watched.await else { return tokio::time::sleep(PAUSE).await };
        // The first answer says that it is watched.
        while let Ok(Some(answer)) = watched.message().await {
            if answer.canceled() || !answer.events().is_empty() {
                return;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Etcd for Cluster {
    fn prefix(&self) -> &str {
        Cluster::prefix(self)
    }

    fn transact(
        &self,
        fences: Vec<Fence>,
        operations: Vec<Operation>,
    ) -> Result<Carried, EtcdError> {
        let operations: Vec<_> = operations.iter().map(operation).collect();
        let compare = |fence: Fence| match fence {
            Fence::Made(key, made) => Compare::create_revision(key, CompareOp::Equal, made as i64),
            Fence::Value(key, value) => Compare::value(key, CompareOp::Equal, value),
        };
        let fences: Vec<_> = fences.into_iter().map(compare).collect();
        let cluster = self.clone();
        self.asked(async move {
            let request = |client: etcd_client::Client| {
                let transaction = Txn::new().when(fences.clone());
                let transaction = transaction.and_then(operations.clone());
                let mut client = client.kv_client().max_decoding_message_size(ANSWER);
                async move { client.txn(transaction).await }
            };
            let answer = cluster.ask(request).await?;
            let read = |answer: TxnOpResponse| match answer {
                TxnOpResponse::Get(mut answer) => Some(answer.take_kvs().pop().map(found)),
                _ => None,
            };
            let read = || answer.op_responses().into_iter().filter_map(read).collect();
            Ok(answer.succeeded().then(read))
        })
    }

    fn range(&self, range: Range) -> Result<Page, EtcdError> {
        let cluster = self.clone();
        self.asked(async move {
            let answer = cluster.ask(|client| {
                let mut client = client.kv_client().max_decoding_message_size(ANSWER);
                let Range { from, before, limit, revision } = range.clone();
                let options = GetOptions::new().with_limit(limit as i64);
                let options = options.with_revision(revision as i64);
                let options = match before {
                    Some(before) => options.with_range(before),
                    None => options,
                };
                async move { client.get(from, Some(options)).await }
            });
            let mut answer = answer.await?;
            let revision = answer.header().map_or(0, |header| header.revision() as u64);
            let more = answer.more();
            let found = answer.take_kvs().into_iter().map(found).collect();
            Ok(Page { found, revision, more })
        })
    }

    fn grant(&self, lasts: Duration) -> Result<(i64, Duration), EtcdError> {
        let (cluster, seconds) = (self.clone(), lasts.as_secs().max(1) as i64);
        self.asked(async move {
            let granted = cluster.ask(async |mut client| client.lease_grant(seconds, None).await);
            let granted = granted.await?;
            Ok((granted.id(), Duration::from_secs(granted.ttl().max(1) as u64)))
        })
    }

    fn renew(&self, lease: i64) -> Result<bool, EtcdError> {
        let cluster = self.clone();
        let renewed = self.asked(async move {
            cluster.ask(async |mut client| client.lease_keep_alive(lease).await).await.map(drop)
        });
        match renewed {
            Err(error) if error.to_string().contains("lease not found") => Ok(false),
            renewed => renewed.map(|()| true),
        }
    }

    fn revoke(&self, lease: i64) {
        let cluster = self.clone();
        // One that cannot be given back ends by itself.
        let _ = self.asked(async move {
            cluster.ask(async |mut client| client.lease_revoke(lease).await).await.map(drop)
        });
    }

    fn wait_for_change(&self, key: &str, since: u64, longest: Duration) {
        let (cluster, key) = (self.clone(), key.to_owned());
        self.wait(async move {
            // That nothing has changed is an answer as well.
            let _ = timeout(longest, cluster.watch_until_change(key, since)).await;
        });
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn begin(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        thread::Builder::new().name("lease".to_owned()).spawn(work).is_ok()
    }
}
