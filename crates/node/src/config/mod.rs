//! The configuration of a node: one YAML file, read and checked whole.

mod blueprint;
mod mistake;

pub use blueprint::{
    BearerPlan, Blueprint, Forwarding, FunctionPlan, GroupPlan, Limits, Memory, Polling, PortPlan,
    UserKey, UserPlan, Workers,
};
pub use mistake::{Mistake, Mistakes};
