//! Functions alone, and mixed.

pub(crate) mod functions;
pub(crate) mod instructions;
pub(crate) mod mix;
pub(crate) mod overhead;
pub(crate) mod working_set;
