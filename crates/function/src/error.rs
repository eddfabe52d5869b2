//! Errors that a function reports about what it was given.

/// A configuration or a setting that a function cannot work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// Where in the function's configuration, as a path of keys and indexes
    /// separated by dots (`rules.3.source`); empty for the whole of it. The
    /// node turns it into a line and a column.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl ConfigError {
    /// An error about the value at `path`.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> ConfigError {
        ConfigError { path: path.into(), message: message.into() }
    }
}

/// Exported bytes from which no context can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// The bytes come from a version of the function that this one cannot read.
    #[error("version {0} of the context is not known here")]
    Version(u16),
    /// The bytes are too short, too long, or hold values that cannot be.
    #[error("the exported context is damaged")]
    Damaged,
    /// The function panicked as it read the bytes.
    #[error("the function panicked over the exported context")]
    Panicked,
}
