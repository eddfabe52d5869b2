//! Which of the agent's parts each task works with.

use weft_dataplane::worker::Worker;
use weft_dpdk::Pool;

use super::Agent;
use super::change::Reconfiguration;
use super::configuration::Configuration;
use super::contexts::FunctionContexts;
use super::gtpu_peers::PeerSignals;
use super::provisioning::Provisioning;
use super::restore::Restoration;
use super::show::UserViews;
use super::transfer::UserTransfers;
use super::upgrade::{Offering, ProcessContexts};
use crate::bearer::Listeners;
use crate::functions::Functions;
use crate::migration::Migration;
use crate::mobility::Mobility;
use crate::plan::Classes;

/// Parts, borrowed at the same time.
struct Parts<'a> {
    node: Provisioning<'a>,
    classes: &'a Classes,
    functions: &'a Functions,
    migration: &'a mut Migration,
    mobility: Option<&'a mut Mobility>,
    listeners: &'a mut Listeners,
    pool: &'a Pool,
    answers: &'a Pool,
}

impl Agent {
    fn parts(&mut self) -> Parts<'_> {
        let node = Provisioning {
            blueprint: &self.configuration.blueprint,
            trials: &self.configuration.trials,
            subscribers: &mut self.subscribers,
            workers: &mut self.workers,
            ports: &mut self.ports,
            gtpu_peers: &mut self.gtpu_peers,
            persistence: &mut self.persistence,
            clock: &self.clock,
        };
        Parts {
            node,
            classes: &self.configuration.classes,
            functions: &self.functions,
            migration: &mut self.migration,
            mobility: self.mobility.as_deref_mut(),
            listeners: &mut self.listeners,
            pool: &self.pool,
            answers: &self.answers,
        }
    }

    /// For commands about bearers and sessions; and what knows which users move.
    pub(super) fn provisioning(&mut self) -> (Provisioning<'_>, Option<&Mobility>) {
        let Parts { node, mobility, .. } = self.parts();
        (node, mobility.map(|mobility| &*mobility))
    }

    /// For users that leave the node and come to it.
    pub(super) fn transfers(&mut self) -> UserTransfers<'_> {
        let Parts { node, classes, functions, migration, mobility, pool, .. } = self.parts();
        UserTransfers { node, classes, functions, migration, mobility, pool }
    }

    /// For the handover protocol, and what carries out its decisions; none where the node does
    /// not take part.
    pub(super) fn handover(&mut self) -> Option<(&mut Mobility, UserTransfers<'_>)> {
        let mut host = self.transfers();
        let mobility = host.mobility.take()?;
        Some((mobility, host))
    }

    /// For GTP-U messages of peers.
    pub(super) fn peer_signals(&mut self) -> PeerSignals<'_> {
        let Parts { node, listeners, mobility, answers, .. } = self.parts();
        PeerSignals { node, listeners, mobility: mobility.map(|mobility| &*mobility), answers }
    }

    /// For a configuration that changes, and functions that are run otherwise.
    pub(super) fn reconfiguration(&mut self) -> Reconfiguration<'_> {
        Reconfiguration {
            configuration: &mut self.configuration,
            subscribers: &mut self.subscribers,
            workers: &mut self.workers,
            functions: &mut self.functions,
            gtpu_peers: &mut self.gtpu_peers,
            migration: &mut self.migration,
            persistence: &mut self.persistence,
            clock: &self.clock,
        }
    }

    /// For contexts that are read and written by name; and functions that move.
    pub(super) fn contexts(&mut self) -> (FunctionContexts<'_>, &mut Migration) {
        let Agent { configuration, subscribers, workers, migration, .. } = self;
        let Configuration { blueprint, trials, .. } = configuration;
        (FunctionContexts { blueprint, trials, subscribers, workers }, migration)
    }

    /// For a node whose workers stand still: before its first packet, or behind its last.
    pub(crate) fn restoration<'a>(&'a mut self, workers: &'a mut [Worker]) -> Restoration<'a> {
        Restoration { node: self.parts().node, workers }
    }

    /// For another process that is to have the node.
    pub(crate) fn offering(&mut self) -> Offering<'_> {
        let is_redirecting = self.redirection.is_under_way();
        let Parts { node, functions, migration, mobility, .. } = self.parts();
        let mobility = mobility.map(|mobility| &*mobility);
        Offering { node, functions, migration, mobility, is_redirecting }
    }

    /// For contexts in processes that go over to another process of the node.
    pub(crate) fn process_contexts(&self) -> ProcessContexts<'_> {
        let Agent { configuration, functions, workers, clock, subscribers, .. } = self;
        ProcessContexts { configuration, functions, workers, room: subscribers.room, clock }
    }

    /// For users and bearers as they are shown.
    pub(super) fn user_views(&self) -> UserViews<'_> {
        let Agent { configuration, subscribers, workers, .. } = self;
        UserViews { blueprint: &configuration.blueprint, subscribers, workers }
    }
}
