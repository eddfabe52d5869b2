//! A function goes over to another composition, or to another core, while traffic runs.

use weft_node_config::{Composition, HandoverRole, StagePlan, stage};

use crate::agent::Agent;
use crate::change::{Changed, Refused};

/// How a function is to be run from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The composition.
    pub composition: Composition,
    /// Name of the thread, for a function that is to stand on one.
    pub stage: Option<String>,
    /// The processor core of the thread.
    pub core: Option<u32>,
}

/// Why a function is run as it was.
#[derive(Debug, thiserror::Error)]
pub enum NotComposed {
    /// There is no such function.
    #[error("there is no function `{0}`")]
    Unknown(String),
    /// What is behind a NIC is there as long as the node runs.
    #[error("`{0}`: behind a NIC, or back, only by the configuration and a restart of the node")]
    Elsewhere(String),
    /// Another node has to do with it.
    #[error(
        "`{0}` goes to another node, or comes back, only by somebody who carries its contexts: \
         `weft ctl function {0} --composition … --peer NODE`"
    )]
    Carried(String),
    /// No path was made ready.
    #[error(
        "`{0}` has no other node to go to: write `remote: {{path: …, port: …, to: …}}` beside its \
         `composition`, and restart the node"
    )]
    NoPath(String),
    /// It is there already.
    #[error("`{0}` is at the other node")]
    There(String),
    /// It has not left.
    #[error("`{0}` is at this node")]
    Here(String),
    /// It is not on its way, or not any more.
    #[error("`{0}` is not on its way to another node, or back")]
    NotGated(String),
    /// No process was made ready.
    #[error(
        "`{0}` has no process to go to: write `process: {{}}` beside its `composition`, and \
         restart the node"
    )]
    NotPrepared(String),
    /// A function of others.
    #[error("`{0}` has no tags in its process (`tags: none`), and nothing to bring or to take")]
    Plain(String),
    /// Its process does not run.
    #[error("`{0}` has no process to go to: {1}")]
    Absent(String, String),
    /// To be asked for again.
    #[error("{0}; try again")]
    NotYet(String),
    /// It has no micro-operations.
    #[error("`{0}` cannot be fused under its configuration")]
    NotFused(String),
    /// A thread for a function that does not stand on one.
    #[error("`{0}`: only composition thread has a thread and a core")]
    NoThread(String),
    /// The thread is elsewhere.
    #[error("the thread `{0}` is not on core {1}; give another name, or none")]
    OtherCore(String, u32),
    /// What follows packets into an anchor's tunnel would overtake them.
    #[error("`{0}`: at an anchor, whose End Markers go behind packets, no function has a thread")]
    Anchor(String),
    /// As for any change.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl NotComposed {
    /// Whether it may be granted a little later.
    pub fn passes(&self) -> bool {
        matches!(self, NotComposed::NotYet(_) | NotComposed::Refused(Refused::Busy))
    }
}

impl Agent {
    /// Runs a function otherwise from now on. Its contexts go along, no packet is lost,
    /// and none overtakes another: workers receive nothing until all that was under way
    /// has come back and the instances are where they are to be.
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub fn compose(&mut self, function: &str, wanted: &Wanted) -> Result<Changed, NotComposed> {
        self.move_failure = None;
        let mut new = self.blueprint().clone();
        let name = || function.to_owned();
        let Some(number) = new.functions.iter().position(|one| one.name == function) else {
            return Err(NotComposed::Unknown(name()));
        };
        let composition = wanted.composition;
        let before = new.functions[number].composition;
        if before == Composition::Vf || composition == Composition::Vf {
            return Err(NotComposed::Elsewhere(name()));
        }
        if before == Composition::Remote || composition == Composition::Remote {
            return Err(NotComposed::Carried(name()));
        }
        let can_fuse = self
            .trials
            .number(function)
            .is_some_and(|number| self.trials.instance(number).lower().is_some());
        if composition == Composition::Fused && !can_fuse {
            return Err(NotComposed::NotFused(name()));
        }
        let has_thread = wanted.stage.is_some() || wanted.core.is_some();
        let is_thread = composition == Composition::Thread;
        if !is_thread && has_thread {
            return Err(NotComposed::NoThread(name()));
        }
        let is_anchor = new.handover.as_ref().is_some_and(|plan| plan.role == HandoverRole::Anchor);
        if is_thread && is_anchor {
            return Err(NotComposed::Anchor(name()));
        }
        let mut plan = is_thread.then(|| stage(wanted.stage.as_deref(), wanted.core));
        if let Some(plan) = &mut plan {
            let others = new.functions.iter().filter_map(|one| one.stage.as_ref());
            let same = others.filter(|one| one.name == plan.name).find(|one| one.core != plan.core);
            match (same, wanted.core) {
                (Some(_), Some(core)) => {
                    return Err(NotComposed::OtherCore(plan.name.clone(), core));
                }
                (Some(StagePlan { core, .. }), None) => plan.core = *core,
                (None, _) => {}
            }
        }
        (new.functions[number].composition, new.functions[number].stage) = (composition, plan);
        // A request that says where it stands has chosen.
        new.functions[number].auto = None;
        match (before == Composition::Process) == (composition == Composition::Process) {
            true => Ok(self.apply(new)?),
            false => self.relocate(new, number),
        }
    }
}
