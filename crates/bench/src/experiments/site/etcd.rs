//! What etcd says of itself.

use std::thread;
use std::time::Duration;

use serde_json::Value;
use weft_etcd::local::Members;
use weft_http::client::{Client, Server};
use weft_rig::Failure;

/// etcd tells the size of its database anew after each batch, which takes 100 ms at most.
const BATCH: Duration = Duration::from_millis(300);

/// A member that is asked.
pub struct Etcd(Client);

/// What a member says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    /// One higher with each transaction that changes something.
    revision: u64,
    /// Octets of the database, without pages that are free.
    in_use: u64,
}

impl Etcd {
    /// The first of these members.
    ///
    /// # Errors
    /// When there is no room for a client.
    pub fn of(members: &Members) -> Result<Etcd, Failure> {
        let endpoint = members.options("/").endpoints.into_iter().next().unwrap_or_default();
        let address = endpoint.trim_start_matches("http://").to_owned();
        // A member without users of its own asks for no token.
        let server = Server::Remote { address, token: String::new(), trust: None };
        Ok(Etcd(Client::of("etcd", server)?))
    }

    /// Its revision: one higher with each transaction that changes something.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn revision(&self) -> Result<u64, Failure> {
        Ok(self.status()?.revision)
    }

    /// Gives all history up; the octets of its database that are in use then.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn compact(&self) -> Result<u64, Failure> {
        let revision = self.revision()?;
        let order = format!(r#"{{"revision": {revision}, "physical": true}}"#);
        let _: Value = self.0.post("/v3/kv/compaction", order)?;
        let look = || {
            thread::sleep(BATCH);
            self.status().map(|status| status.in_use)
        };
        let mut before = look()?;
        loop {
            let now = look()?;
            if now == before {
                return Ok(now);
            }
            before = now;
        }
    }

    fn status(&self) -> Result<Status, Failure> {
        let said: Value = self.0.post("/v3/maintenance/status", "{}".to_owned())?;
        // It writes numbers of 64 bits as text.
        let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        let status = number(&said["header"]["revision"]).zip(number(&said["dbSizeInUse"]));
        let (revision, in_use) = status.ok_or("etcd does not say how large its database is")?;
        Ok(Status { revision, in_use })
    }
}
