//! What a user can lack where it is to go.

use weft_function::ContextError;

use super::FormError;
use crate::bearer::BearerId;

/// Why a user is not taken out or in; nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// There is no such user.
    #[error("no user of this node is called `{0}`")]
    NoUser(String),
    /// The octets are no export.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The node lacks a function.
    #[error("user {user} has a context at function `{function}`, which is not configured here")]
    NoFunction {
        /// Name of the user.
        user: String,
        /// Name of the instance.
        function: String,
    },
    /// The function of that name is another one.
    #[error("user {user} has a context of `{was}` at `{function}`, which is a `{is}` here")]
    OtherFunction {
        /// Name of the user.
        user: String,
        /// Name of the instance.
        function: String,
        /// What it was.
        was: String,
        /// What it is.
        is: &'static str,
    },
    /// The process of a function did not take a context.
    #[error("function `{function}` has not taken the context of user {user}: {reason}")]
    Process {
        /// Name of the user.
        user: String,
        /// Name of the instance.
        function: String,
        /// What the process says, or that it is not there.
        reason: String,
    },
    /// The node lacks a bearer of the user.
    #[error("user {user} has a bearer `{bearer}`, which is not configured here")]
    NoBearer {
        /// Name of the user.
        user: String,
        /// Name of the bearer.
        bearer: String,
    },
    /// What a command has added for the user cannot be had here.
    #[error("bearer {bearer} of user {user}, which a command added: {wrong}")]
    Given {
        /// Name of the user.
        user: String,
        /// The bearer.
        bearer: BearerId,
        /// Why.
        wrong: String,
    },
    /// Here the user is one of the configuration.
    #[error("a command added user {0}, which the configuration has here")]
    Configured(String),
    /// The node lacks a chain or another tag, or a value.
    #[error("user {user} has {tag} {value}, which is not configured here")]
    NoTag {
        /// Name of the user.
        user: String,
        /// The tag.
        tag: String,
        /// The value.
        value: String,
    },
    /// No user here takes such a path.
    #[error("no users here are tagged like user {0}, so there is no path for it")]
    NoPath(String),
    /// A packet is kept that came in at a port that the node lacks.
    #[error("a packet of user {user} came in at port `{port}`, which is not configured here")]
    NoPort {
        /// Name of the user.
        user: String,
        /// The port.
        port: String,
    },
    /// No buffer is left for a kept packet.
    #[error("no buffer is left for the packets that are kept for user {0}")]
    NoBuffer(String),
    /// A function does not take a context.
    #[error("function `{function}` does not take the context of user {user}: {error}")]
    Context {
        /// Name of the user.
        user: String,
        /// Name of the instance.
        function: String,
        /// Why.
        error: ContextError,
    },
}
