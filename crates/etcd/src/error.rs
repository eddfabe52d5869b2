//! Why etcd does not do what it is asked.

use std::path::Path;

use weft_state::StateError;

/// Why a request came to nothing: one line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// No member answers, or those that do have no leader. The request may have been carried
    /// out all the same.
    #[error("no member of etcd answers: {0}")]
    Unreachable(String),
    /// The quota of etcd is used up (the alarm NOSPACE): it takes no more until an operator
    /// has compacted and defragmented it.
    #[error("etcd has no space left: compact and defragment it, then `etcdctl alarm disarm`")]
    Full,
    /// What is asked for is history that etcd has given up (compaction).
    #[error("etcd has compacted what is asked for")]
    Compacted,
    /// etcd refuses: who asks may not, or the request cannot be.
    #[error("etcd refuses: {0}")]
    Refused(String),
    /// A certificate or a key cannot be used.
    #[error("{0}")]
    Tls(String),
}

impl EtcdError {
    /// Whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, EtcdError::Unreachable(_) | EtcdError::Full)
    }

    pub(crate) fn file(path: &Path, reason: impl std::fmt::Display) -> EtcdError {
        EtcdError::Tls(format!("{}: {reason}", path.display()))
    }

    /// The error of a store under this prefix.
    pub(crate) fn of_store(self, prefix: &str) -> StateError {
        StateError::Remote { place: format!("etcd {prefix}"), reason: self.to_string() }
    }
}

/// What a request ended with, as far as it is not to be asked elsewhere.
pub(crate) enum Outcome {
    /// Another member may answer.
    Elsewhere(String),
    /// No member will.
    Final(EtcdError),
}

/// Sorts what the client says.
pub(crate) fn sort(error: &etcd_client::Error) -> Outcome {
    // What a member says is its own words behind the code.
    let text = error.to_string();
    let said = text.rsplit("message: ").next().unwrap_or(&text).trim_matches('"').to_owned();
    if text.contains("database space exceeded") {
        return Outcome::Final(EtcdError::Full);
    }
    if text.contains("has been compacted") {
        return Outcome::Final(EtcdError::Compacted);
    }
    let refused = ["permission denied", "authentication", "invalid auth", "too many operations"]
        .iter()
        .any(|words| text.to_ascii_lowercase().contains(words));
    let refused = refused || text.contains("request is too large");
    match error {
        etcd_client::Error::InvalidArgs(_) | etcd_client::Error::InvalidUri(_) => {
            Outcome::Final(EtcdError::Refused(said))
        }
        _ if refused => Outcome::Final(EtcdError::Refused(said)),
        _ => Outcome::Elsewhere(said),
    }
}
