//! The nodes of a controller: those of its file, and those that have registered.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::{Deserialize, Serialize};
use weft_mobility_protocol::NodeId;
use weft_mobility_transport::{PeerAddress, Registered};

use crate::config::Configuration;

/// Nodes that a controller has at most: each is told of all others.
const MOST: usize = weft_mobility_transport::hello::MOST_PLACES;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its number.
    #[serde(skip)]
    pub number: NodeId,
    /// Where other nodes connect to it, as `HOST:PORT`.
    pub address: String,
    /// What it can carry, in packets a second; 0 where it has not said so.
    pub capacity: u64,
    /// Version of its program; empty where it has not said so.
    pub version: String,
    /// Whether it has registered, and is not in the controller's file.
    #[serde(skip)]
    pub has_registered: bool,
}

/// Why a node cannot register.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Another node has its number.
    #[error("its number is that of {0}")]
    Number(String),
    /// Another node has its name.
    #[error("its name is that of node {0}")]
    Name(NodeId),
    /// Names of nodes have 1 to 64 characters, none of them a control character.
    #[error("its name does not have 1 to 64 characters")]
    NoName,
    /// The number of a controller.
    #[error("its number is 0, that of the controller")]
    Controller,
    /// There are too many.
    #[error("there are {0} nodes already, and no more can be told of each other")]
    Full(usize),
}

/// All nodes; clones are the same ones.
#[derive(Clone, Debug)]
pub struct Members(Arc<RwLock<Vec<Member>>>);

impl Members {
    /// Those of the file.
    pub fn new(configuration: &Configuration) -> Members {
        Members(Arc::new(RwLock::new(of_file(configuration))))
    }

    /// Those of the file, and those that had registered. A node of the file comes before one
    /// that has registered with its number or name.
    pub fn recover(&self, configuration: &Configuration, registered: &[Member]) {
        let mut all = of_file(configuration);
        for member in registered {
            if fits(&all, member.number, &member.name).is_ok() {
                all.push(member.clone());
            }
        }
        *self.write() = all;
    }

    /// All of them: those of the file in its order, then the others.
    pub fn all(&self) -> Vec<Member> {
        self.read().clone()
    }

    /// The node of that name.
    pub fn named(&self, name: &str) -> Option<NodeId> {
        self.read().iter().find(|member| member.name == name).map(|member| member.number)
    }

    /// The name of a node; its number where there is none of that number.
    pub fn name_of(&self, node: NodeId) -> String {
        let read = self.read();
        let member = read.iter().find(|member| member.number == node);
        member.map_or_else(|| node.to_string(), |member| member.name.clone())
    }

    /// The node of that number.
    pub fn get(&self, node: NodeId) -> Option<Member> {
        self.read().iter().find(|member| member.number == node).cloned()
    }

    /// Where they are.
    pub fn places(&self) -> Vec<PeerAddress> {
        self.read().iter().map(Member::place).collect()
    }

    /// A node says of itself where and what it is; the node, if that is new. One of the file
    /// stays at its address there.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn register(&self, said: Registered) -> Result<Option<Member>, Unfit> {
        let Registered { node, name, registration } = said;
        let mut all = self.write();
        let known = all.iter().position(|member| member.number == node && member.name == name);
        let mut member = Member {
            name,
            number: node,
            address: registration.address,
            capacity: registration.capacity,
            version: registration.version,
            has_registered: true,
        };
        match known {
            Some(at) => {
                if !all[at].has_registered {
                    member.has_registered = false;
                    member.address.clone_from(&all[at].address);
                }
                let is_new = all[at] != member;
                all[at] = member.clone();
                Ok(is_new.then_some(member))
            }
            None => {
                fits(&all, node, &member.name)?;
                all.push(member.clone());
                Ok(Some(member))
            }
        }
    }

    /// A node that had registered is one no longer.
    pub fn forget(&self, node: NodeId) {
        self.write().retain(|member| member.number != node || !member.has_registered);
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Member>> {
        // What is locked is whole at any time.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Member>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Where it is.
    pub fn place(&self) -> PeerAddress {
        PeerAddress { node: self.number, name: self.name.clone(), address: self.address.clone() }
    }
}

fn of_file(configuration: &Configuration) -> Vec<Member> {
    let member = |node: &crate::config::Node| Member {
        name: node.name.clone(),
        number: node.number,
        address: node.address.clone(),
        capacity: 0,
        version: String::new(),
        has_registered: false,
    };
    configuration.nodes.iter().map(member).collect()
}

fn fits(all: &[Member], node: NodeId, name: &str) -> Result<(), Unfit> {
    if node == NodeId::CONTROLLER {
        return Err(Unfit::Controller);
    }
    if !(1..=64).contains(&name.len()) || name.contains(char::is_control) {
        return Err(Unfit::NoName);
    }
    if let Some(other) = all.iter().find(|member| member.number == node) {
        return Err(Unfit::Number(other.name.clone()));
    }
    // Certificates do not tell `A` from `a`.
    if let Some(other) = all.iter().find(|member| member.name.eq_ignore_ascii_case(name)) {
        return Err(Unfit::Name(other.number));
    }
    if all.len() >= MOST {
        return Err(Unfit::Full(all.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weft_mobility_transport::Registration;

    use super::*;

    fn said(number: u32, name: &str, address: &str) -> Registered {
        let registration =
            Registration { address: address.to_owned(), capacity: 7, version: "0.1.0".to_owned() };
        Registered { node: NodeId(number), name: name.to_owned(), registration }
    }

    fn members() -> Members {
        let text = "apiVersion: weft/v1\nkind: Controller\nmetadata: {name: test}\n\
                    listen: 127.0.0.1:0\ntokenFile: token\nrecords: records\n\
                    nodes:\n  gateway: {number: 1, address: '192.0.2.1:1'}\n";
        Members::new(&Configuration::read(text, "file").unwrap())
    }

    #[test]
    fn a_node_registers_and_says_so_again() {
        let members = members();
        let new = members.register(said(2, "a", "192.0.2.2:1")).unwrap().unwrap();
        assert!(new.has_registered && new.capacity == 7);
        assert_eq!(members.register(said(2, "a", "192.0.2.2:1")), Ok(None));
        let moved = members.register(said(2, "a", "192.0.2.3:1")).unwrap().unwrap();
        assert_eq!(moved.address, "192.0.2.3:1");
        assert_eq!(members.named("a"), Some(NodeId(2)));
        members.forget(NodeId(2));
        members.forget(NodeId(1));
        assert_eq!(members.all().len(), 1, "one of the file stays");
    }

    #[test]
    fn one_that_would_be_another_is_refused() {
        let members = members();
        let refused = |said| members.register(said).unwrap_err();
        assert_eq!(refused(said(1, "a", "x:1")), Unfit::Number("gateway".to_owned()));
        assert_eq!(refused(said(2, "Gateway", "x:1")), Unfit::Name(NodeId(1)));
        assert_eq!(refused(said(0, "a", "x:1")), Unfit::Controller);
        assert_eq!(refused(said(2, "", "x:1")), Unfit::NoName);
        // One of the file stays where the file says that it is.
        let known = members.register(said(1, "gateway", "198.51.100.1:9")).unwrap().unwrap();
        assert_eq!((known.address.as_str(), known.capacity), ("192.0.2.1:1", 7));
    }

    #[test]
    fn the_file_comes_before_what_had_registered() {
        let members = members();
        let a = members.register(said(2, "a", "x:1")).unwrap().unwrap();
        let other = Member { number: NodeId(1), name: "b".to_owned(), ..a.clone() };
        let text = "apiVersion: weft/v1\nkind: Controller\nmetadata: {name: test}\n\
                    listen: 127.0.0.1:0\ntokenFile: token\nrecords: records\n\
                    nodes:\n  gateway: {number: 1, address: '192.0.2.1:1'}\n";
        members.recover(&Configuration::read(text, "file").unwrap(), &[other, a]);
        assert_eq!(members.name_of(NodeId(1)), "gateway");
        assert_eq!(members.name_of(NodeId(2)), "a");
        assert_eq!(members.name_of(NodeId(3)), NodeId(3).to_string());
    }
}
