//! A node that moves: in threads of its own, or in this one.

use std::io;

use weft_dpdk::Eal;
use weft_node::show::Snapshot;
use weft_node::{Agent, Node, Running, Stopped};

use crate::failure::Failure;

/// A node and what moves it.
pub enum Drive {
    /// It runs by itself.
    Threads(Box<Running>),
    /// Every [`step`](Drive::step) moves it on.
    Here(Box<Node>),
}

impl Drive {
    /// Starts `node`, in threads of its own or not.
    ///
    /// # Errors
    /// When the machine has no thread for it.
    pub fn start(eal: &'static Eal, node: Node, threads: bool) -> io::Result<Drive> {
        Ok(match threads {
            true => Drive::Threads(Box::new(node.start(eal)?)),
            false => Drive::Here(Box::new(node)),
        })
    }

    /// Moves a node on that does not run by itself.
    #[inline]
    pub fn step(&mut self) {
        if let Drive::Here(node) = self {
            node.step();
        }
    }

    /// Asks the agent.
    ///
    /// # Errors
    /// When the node has stopped by itself.
    pub fn ask<T: Send + 'static>(
        &mut self,
        question: impl FnOnce(&mut Agent) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        match self {
            Drive::Threads(running) => running.handle().ask(question).map_err(Failure::broken),
            Drive::Here(node) => Ok(question(node.agent())),
        }
    }

    /// Stops the node. Returns what it counted.
    ///
    /// # Errors
    /// When the node has stopped by itself.
    pub fn stop(self) -> Result<Snapshot, Failure> {
        match self {
            Drive::Threads(running) => running.stop().ok_or_else(|| Failure::broken(Stopped)),
            Drive::Here(node) => Ok(node.stop()),
        }
    }
}
