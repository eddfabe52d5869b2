//! The configuration of a controller: one YAML file, read and checked whole.

mod check;
mod yaml;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::schema_for;
use serde_json::Value;
use weft_http::tls::CertificateFiles;
use weft_mobility_protocol::{NodeId, User};
use weft_mobility_transport::Timing;
use weft_yaml::mistake::Mistakes;
use weft_yaml::shape;

use crate::n4::N4;
use crate::pair::Couple;

/// A controller as a file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// Where nodes connect.
    pub listen: SocketAddr,
    /// File of the token that nodes show.
    pub token_file: PathBuf,
    /// Certificates, by which connections with nodes are enciphered.
    pub tls: Option<CertificateFiles>,
    /// The API over TCP.
    pub api: Option<Api>,
    /// Where records are kept.
    pub records: Records,
    /// Moves that are under way at once.
    pub window: usize,
    /// Users that it takes in all, of the file and of the API.
    pub most_users: usize,
    /// How nodes join that the file does not have; none if they cannot.
    pub membership: Option<Membership>,
    /// Times and bounds of connections with nodes.
    pub timing: Timing,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Nodes of which one stands by the other.
    pub pairs: Vec<Couple>,
    /// For how long a node of a pair owns the users without a word.
    pub lease: Duration,
    /// Users that there are at first.
    pub users: Vec<Users>,
    /// One N4 for several nodes.
    pub n4: Option<N4>,
    /// What is probably not meant.
    pub warnings: Mistakes,
}

/// Where records are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Records {
    /// In a folder.
    Folder(PathBuf),
    /// In etcd, for several replicas.
    Etcd(Replica),
}

/// One of several controllers, of which one leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its name.
    pub name: String,
    /// Where clients reach it: a URL.
    pub address: Option<String>,
    /// Where records are.
    pub etcd: weft_etcd::Options,
    /// How long it leads without renewing its lease.
    pub lease: Duration,
}

/// How nodes join and are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// How long a node may be without a connection.
    pub lease: Duration,
    /// Whether other stations adopt the users of a node whose lease has ended.
    pub adopt: bool,
}

/// The API over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// Where it is served.
    pub listen: SocketAddr,
    /// File of the token that clients show.
    pub token_file: PathBuf,
    /// TLS, if it is spoken.
    pub tls: Option<Tls>,
}

/// What shows clients that they speak to this controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// File of the certificate.
    pub certificate: PathBuf,
    /// File of its key.
    pub key: PathBuf,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: NodeId,
    /// Where other nodes connect to it, as `HOST:PORT`.
    pub address: String,
}

/// Users in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Users {
    /// The first of them.
    pub first: User,
    /// How many.
    pub count: u64,
    /// Their anchor.
    pub anchor: NodeId,
    /// Their first owner.
    pub node: NodeId,
}

impl Users {
    /// Whether a user is one of them.
    pub fn contains(&self, user: User) -> bool {
        user.0.checked_sub(self.first.0).is_some_and(|nth| nth < self.count)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = User> {
        (self.first.0..self.first.0 + self.count).map(User)
    }
}

impl Configuration {
    /// Reads a configuration from `path`. Paths in it begin at its folder.
    ///
    /// # Errors
    /// [`Mistakes`]: as many as can be found at once.
    pub fn load(path: &Path) -> Result<Configuration, Mistakes> {
        let text = weft_yaml::load(path)?;
        let mut configuration = Configuration::read(&text, &path.display().to_string())?;
        let folder = path.parent().unwrap_or(Path::new(""));
        match &mut configuration.records {
            Records::Folder(records) => *records = folder.join(&records),
            Records::Etcd(replica) => {
                replica.etcd.tls = replica.etcd.tls.as_ref().map(|files| files.within(folder));
            }
        }
        configuration.token_file = folder.join(&configuration.token_file);
        if let Some(files) = &mut configuration.tls {
            *files = files.within(folder);
        }
        if let Some(api) = &mut configuration.api {
            let tls = api.tls.iter_mut().flat_map(|tls| [&mut tls.certificate, &mut tls.key]);
            for path in tls.chain([&mut api.token_file]) {
                *path = folder.join(&path);
            }
        }
        Ok(configuration)
    }

    /// Reads a configuration. `file` is what mistakes call it.
    ///
    /// # Errors
    /// [`Mistakes`]: as many as can be found at once.
    pub fn read(text: &str, file: &str) -> Result<Configuration, Mistakes> {
        let mut source = weft_yaml::parse(text, file, "Controller")?;
        shape::read(&mut source)
            .and_then(|written| check::configuration(&written, &mut source))
            .map(|read| Configuration { warnings: Mistakes::of(file, read.warnings.0), ..read })
            .ok_or_else(|| Mistakes::of(file, std::mem::take(&mut source.mistakes)))
    }

    /// JSON schema (2020-12) of configurations.
    pub fn schema() -> Value {
        schema_for!(yaml::ControllerFile).to_value()
    }

    /// Which replica it is, if there are several.
    pub fn replica(&self) -> Option<&Replica> {
        match &self.records {
            Records::Folder(_) => None,
            Records::Etcd(replica) => Some(replica),
        }
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// The name of a node.
    pub fn name_of(&self, number: NodeId) -> Option<&str> {
        self.nodes.iter().find(|node| node.number == number).map(|node| node.name.as_str())
    }
}

#[cfg(test)]
mod tests;
