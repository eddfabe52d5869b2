//! Users that are taken out of the node and into it: what they are written as, and which
//! transfers workers and processes have not finished.

mod error;
mod form;
mod inquiries;
mod provisioned_bearers;
mod translation;

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use weft_mobility_protocol::{Epoch, User};

pub use self::error::TransferError;
pub(crate) use self::form::Form;
pub use self::form::FormError;
pub(crate) use self::inquiries::{Export, Import, Inquiries};
pub(crate) use self::provisioned_bearers::ProvisionedBearer;
pub(crate) use self::translation::Translation;
use crate::subscribers::Member;

/// Who has asked for a transfer.
pub(crate) enum Asked {
    /// A request waits for octets.
    Export(Sender<Vec<u8>>),
    /// A request waits for the outcome.
    Import(Sender<Result<(), TransferError>>),
    /// The user moves.
    Handover(User, Epoch),
    /// The user does not move after all, or goes.
    Resumed(User),
    /// No request waits.
    Unasked,
}

/// Transfers that workers have not finished.
#[derive(Default)]
pub(crate) struct Transfers {
    next: u64,
    pub(crate) asked: HashMap<u64, (Asked, Member)>,
    /// What commands have added for users that are taken out.
    pub(crate) given: HashMap<u64, Vec<ProvisionedBearer>>,
}

impl Transfers {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    pub(crate) fn note(&mut self, asked: Asked, member: Member) -> u64 {
        let ticket = self.next();
        self.asked.insert(ticket, (asked, member));
        ticket
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
