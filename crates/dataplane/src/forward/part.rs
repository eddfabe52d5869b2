//! A function as a change of configuration brings it, and settings of its contexts.

use std::sync::Arc;

use weft_compose::{Instance, Settings};

use super::Function;
use crate::counters::FunctionCounters;

/// A function that comes with a plan.
pub struct Part {
    /// Name of the instance.
    pub name: Arc<str>,
    /// A new instance; none for the one of that name that is at work already.
    pub instance: Option<Box<dyn Instance>>,
    /// What is counted for it.
    pub counters: Arc<FunctionCounters>,
    /// The queue to its process, where a new instance has one.
    pub remote_queue: Option<u16>,
    /// The queue to its stage, where it has one.
    pub stage: Option<u16>,
}

impl Part {
    /// Whether it goes on with the contexts of `old`, and with what is kept for
    /// them.
    pub fn follows(&self, old: &Function) -> bool {
        let is_alike = |new: &dyn Instance| {
            new.kind().name == old.instance.kind().name && new.scope() == old.instance.scope()
        };
        self.name == old.name && self.instance.as_deref().is_none_or(is_alike)
    }
}

/// Settings for one context.
#[derive(Debug)]
pub struct Configure {
    /// Number of the function.
    pub function: u16,
    /// Slot of the context.
    pub slot: u32,
    /// The settings.
    pub settings: Settings,
    /// Which of the users they were written for this is, from 0.
    pub nth: u32,
}
