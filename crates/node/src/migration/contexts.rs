//! Contexts of one function, by the names of those they are of: so another node with the same
//! function goes on with them.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use weft_dataplane::command::contexts::{Octets, Written};
use weft_function::ContextError;

pub use crate::subscribers::Whose;

/// Contexts that a worker reads or writes between two bursts.
pub(crate) const PIECE: usize = 64;

/// How long a worker is waited for that has contexts to read or to write.
const PATIENCE: Duration = Duration::from_secs(2);

/// A context, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Whose it is.
    pub whose: Whose,
    /// As the function exports it, see [`weft_compose::Instance::export`].
    pub octets: Vec<u8>,
}

/// Why contexts are not read or written.
#[derive(Debug, thiserror::Error)]
pub enum NotCarried {
    /// There is no such function.
    #[error("there is no function `{0}`")]
    Unknown(String),
    /// It is something else.
    #[error("`{name}` is a {is} here, and was a {was}")]
    OtherFunction {
        /// Name of the instance.
        name: String,
        /// What it was where the contexts are from.
        was: String,
        /// What it is here.
        is: &'static str,
    },
    /// Another node or process has the contexts.
    #[error(
        "`{0}` is in a process or at another node; take it out first: `weft ctl function {0} \
         --composition call`"
    )]
    Away(String),
    /// No user, bearer or group has that name.
    #[error("there is no {1} here, of whom `{0}` has a context")]
    NoOwner(String, Whose),
    /// The function does not take it.
    #[error("`{0}` does not take the context: {1}")]
    Refused(String, ContextError),
    /// A worker is not to be had.
    #[error("the workers are busy")]
    Late,
}

/// Contexts that are being read.
#[derive(Debug)]
pub struct Reading {
    pub(crate) names: Vec<Whose>,
    /// Positions among the names, and what comes for them.
    pub(crate) pieces: Vec<(Vec<usize>, Receiver<Octets>)>,
}

impl Reading {
    /// Waits for the contexts.
    ///
    /// # Errors
    /// [`NotCarried::Late`].
    pub fn wait(self) -> Result<Vec<Named>, NotCarried> {
        let mut all: Vec<_> =
            self.names.into_iter().map(|whose| Named { whose, octets: Vec::new() }).collect();
        for (at, piece) in self.pieces {
            let contexts = piece.recv_timeout(PATIENCE).map_err(|_| NotCarried::Late)?;
            for (at, octets) in at.into_iter().zip(contexts) {
                all[at].octets = octets;
            }
        }
        Ok(all)
    }
}

/// Contexts that are being written.
#[derive(Debug)]
pub struct Writing {
    pub(crate) name: String,
    pub(crate) pieces: Vec<Receiver<Written>>,
}

impl Writing {
    /// Waits until the function has them.
    ///
    /// # Errors
    /// [`NotCarried`]; some may be written.
    pub fn wait(self) -> Result<(), NotCarried> {
        for piece in self.pieces {
            let (_, outcome) = piece.recv_timeout(PATIENCE).map_err(|_| NotCarried::Late)?;
            outcome.map_err(|error| NotCarried::Refused(self.name.clone(), error))?;
        }
        Ok(())
    }
}
