//! What the site is to be: documents come in, and nodes come to run as they say.

use std::time::{Duration, Instant};

use weft_mobility_protocol::NodeId;
use weft_mobility_transport::{Report, note::Note};
use weft_site::balance::Settings as Rebalance;
use weft_site::document::{Described, Document, DocumentKind};
use weft_site::history::{History, Phase, Progress, Revision};
use weft_site::rollout::{Action, NodeProgress, Rollout, Said};
use weft_site::set::{Change, Kept, Set};
use weft_yaml::mistake::Mistakes;

use super::Engine;
use super::events::Happening;

/// How long nodes may take to connect with a controller that begins to lead, before it goes on
/// without those that are away.
const ARRIVING: Duration = Duration::from_secs(10);

/// Documents, and how far nodes are.
#[derive(Debug)]
pub struct Desired {
    history: History,
    set: Set,
    rollout: Rollout,
    began: Instant,
    /// Something has happened since it was last looked what is to be done.
    look: bool,
}

/// What became of documents that were applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The newest revision: a new one if something has changed.
    pub revision: u64,
    /// What becomes of each document.
    pub changes: Vec<(DocumentKind, String, Change)>,
}

/// How far the newest revision is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its number; 0 for none.
    pub revision: u64,
    /// How far it is.
    pub progress: Progress,
    /// The nodes that documents speak of.
    pub nodes: Vec<NodeProgress>,
}

impl Desired {
    /// Goes on where the history ends.
    pub fn new(history: History, now: Instant) -> Desired {
        let mut desired = Desired {
            history,
            set: Set::default(),
            rollout: Rollout::new(),
            began: now,
            look: true,
        };
        let newest =
            desired.history.newest().map(|newest| (newest.number, Set::of(&newest.documents)));
        match newest {
            None => {}
            Some((_, Ok(set))) => {
                desired.set = set;
                desired.begin();
                desired.rollout.wait_for_nodes(ARRIVING);
            }
            // Nodes stay as they are until there are others.
            Some((revision, Err(mistakes))) => {
                let first = mistakes.0.first().map_or_else(String::new, ToString::to_string);
                tracing::error!(revision, "documents that were kept cannot be read: {first}");
            }
        }
        desired
    }

    fn begin(&mut self) {
        let is_strict = self.history.progress.phase == Phase::Rolling;
        self.rollout.begin(self.set.nodes(), self.set.pace(), is_strict);
        self.look = true;
    }

    /// Time since it began.
    fn since(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// A node has connected, or is away.
    pub fn connected(&mut self, node: &str, is: bool, now: Instant) {
        self.rollout.connected(node, is, self.since(now));
        self.look = true;
    }

    /// A node says how it runs.
    pub fn said(&mut self, node: &str, report: Report, now: Instant) {
        let Report { generation, refused, received, dropped, reason } = report;
        let said = Said { generation, refused, received, dropped, reason };
        self.rollout.said(node, said, self.since(now));
        self.look = true;
    }

    /// A node is none any more.
    pub fn forget(&mut self, node: &str) {
        self.rollout.forget(node);
    }

    /// When there is something to do although nothing happens.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        Some(self.began + self.rollout.next(self.since(now))?)
    }

    /// How users are spread over stations; none where they stay where they are.
    pub fn rebalance(&self) -> Option<Rebalance> {
        self.set.rebalance()
    }

    /// Whether nodes are being changed, or are about to be.
    pub fn is_restless(&self, now: Instant) -> bool {
        matches!(self.phase(), Phase::Rolling | Phase::RollingBack)
            || self.rollout.is_restless(self.since(now))
    }

    /// What becomes of the newest revision.
    pub fn phase(&self) -> Phase {
        self.history.progress.phase
    }

    fn revision(&self) -> u64 {
        self.history.newest().map_or(0, |newest| newest.number)
    }
}

impl Engine {
    /// These documents are to be, beside those of before. A dry run changes nothing.
    ///
    /// # Errors
    /// [`Mistakes`] of documents that do not go together.
    pub fn apply_documents(
        &mut self,
        documents: Vec<Document>,
        note: String,
        is_dry: bool,
    ) -> Result<Outcome, Mistakes> {
        let names: Vec<_> =
            documents.iter().map(|document| (document.kind, document.name.clone())).collect();
        let (set, changes) = self.desired.set.with(documents)?;
        if !is_dry && changes.iter().any(|change| *change != Change::Unchanged) {
            self.revise(set, note, Phase::Rolling, String::new());
        }
        let changes = names.into_iter().zip(changes);
        let changes = changes.map(|((kind, name), change)| (kind, name, change)).collect();
        Ok(Outcome { revision: self.desired.revision(), changes })
    }

    /// A document is not to be any more; the new revision, or none if there is no such document.
    /// Nodes that it speaks of run on as they do.
    ///
    /// # Errors
    /// [`Mistakes`] of documents that refer to it.
    pub fn delete_document(
        &mut self,
        kind: DocumentKind,
        name: &str,
    ) -> Result<Option<u64>, Mistakes> {
        let Some(set) = self.desired.set.without(kind, name)? else { return Ok(None) };
        self.revise(set, format!("delete {kind}/{name}"), Phase::Rolling, String::new());
        Ok(Some(self.desired.revision()))
    }

    fn revise(&mut self, set: Set, note: String, phase: Phase, reason: String) {
        let now = self.clock.since_1970();
        let desired = &mut self.desired;
        let (number, changes) = desired.history.add(now.as_secs(), note, set.kept(), phase, reason);
        desired.set = set;
        desired.begin();
        self.changes.extend(changes);
        tracing::info!(revision = number, "documents have changed");
    }

    /// Does what is to be done for nodes to run as documents say.
    pub(super) fn roll(&mut self) {
        // A node that goes over to another process does not take settings.
        if self.upgrading.is_busy() {
            return;
        }
        let now = self.clock.now();
        let is_due = self.desired.next(now).is_some_and(|at| at <= now);
        if !std::mem::take(&mut self.desired.look) && !is_due {
            return;
        }
        for action in self.desired.rollout.step(self.desired.since(now)) {
            match action {
                Action::Tell(described) => self.tell(described),
                Action::Complete => self.complete(),
                Action::Failed { node, reason } => {
                    tracing::warn!(node, "a node does not do well with its settings: {reason}");
                    let reason = format!("{node}: {reason}");
                    self.tell_event(Happening::rollout("failed", Some(node), reason.clone()));
                    if self.desired.history.progress.phase == Phase::Rolling {
                        self.roll_back(reason);
                    }
                }
            }
        }
    }

    fn tell(&mut self, described: Described) {
        let Described { node, text, generation } = described;
        let Some(number) = self.members.named(&node) else { return };
        // Where there is no connection, it is told when there is one.
        self.transport.note(number, &Note::Settings { generation, text });
        tracing::info!(node, generation, "a node is told how to run");
    }

    fn complete(&mut self) {
        let progress = self.desired.history.progress.clone();
        let phase = match progress.phase {
            Phase::Rolling | Phase::Complete => Phase::Complete,
            Phase::RollingBack | Phase::RolledBack => Phase::RolledBack,
        };
        let revision = self.desired.revision();
        if let Some(change) = self.desired.history.advance(phase, progress.reason) {
            self.changes.push(change);
            let said = format!("nodes run as revision {revision} says");
            tracing::info!(revision, "{said}");
            self.tell_event(Happening::rollout("complete", None, said));
        }
    }

    /// The documents of the newest revision that did no harm become the next one.
    fn roll_back(&mut self, reason: String) {
        let history = &self.desired.history;
        let (newest, good) = (self.desired.revision(), history.progress.good);
        let kept = history.get(good).map(|revision| revision.documents.clone());
        // They were read when they were applied.
        let set = Set::of(&kept.unwrap_or_default()).unwrap_or_default();
        let note = match good {
            0 => format!("revision {newest} did harm, and there was none before"),
            good => format!("back to revision {good}, as {newest} did harm"),
        };
        tracing::warn!(revision = newest, "{note}: {reason}");
        self.revise(set, note, Phase::RollingBack, reason);
    }

    /// All documents, and the number of their revision; or those of an earlier one.
    pub fn documents(&self, revision: Option<u64>) -> Option<(u64, Vec<Kept>)> {
        match revision {
            None => Some((self.desired.revision(), self.desired.set.kept())),
            Some(number) => {
                let found = self.desired.history.get(number)?;
                Some((number, found.documents.clone()))
            }
        }
    }

    /// Revisions that are remembered, newest first.
    pub fn revisions(&self) -> Vec<Revision> {
        self.desired.history.revisions().rev().cloned().collect()
    }

    /// How far the newest revision is.
    pub fn site_standing(&self) -> Standing {
        Standing {
            revision: self.desired.revision(),
            progress: self.desired.history.progress.clone(),
            nodes: self.desired.rollout.nodes(),
        }
    }

    /// A node says how it runs.
    pub(super) fn reported(&mut self, node: NodeId, report: Report) {
        let name = self.name(node);
        self.desired.said(&name, report, self.clock.now());
    }
}
