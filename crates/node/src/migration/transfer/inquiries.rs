//! What processes have been asked for about users that move, and have not answered.

use std::collections::HashMap;

use weft_dataplane::command::transfer::{Extract, Intake};

use super::{Asked, TransferError};
use crate::subscribers::Member;

/// What processes have been asked for and have not answered.
#[derive(Default)]
pub(crate) struct Inquiries {
    pub exports: HashMap<u64, Export>,
    pub imports: HashMap<u64, Import>,
}

impl Inquiries {
    pub(crate) fn is_empty(&self) -> bool {
        self.exports.is_empty() && self.imports.is_empty()
    }
}

/// A user that is taken out.
pub(crate) struct Export {
    pub asked: Asked,
    pub member: Member,
    pub extract: Extract,
    pub waiting: usize,
    /// A function that could not be asked.
    pub lost: Option<String>,
}

/// A user that is taken in.
pub(crate) struct Import {
    pub asked: Asked,
    pub member: Member,
    pub without: Option<u16>,
    pub waiting: usize,
    pub rest: Box<Intake>,
    pub refusal: Option<TransferError>,
}
