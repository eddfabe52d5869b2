//! Users that the node owns as a station: the next life goes on with their contexts where the
//! controller gives them back.

use weft_mobility_protocol::{Kept, User};
use weft_state::{Change, Records, StateError};

use super::{OWNED, Persistence};
use crate::subscribers::Whose;

/// Users that the last life owned.
///
/// # Errors
/// [`StateError`], where a record is damaged or of a newer release.
pub(in crate::agent) fn read(records: &dyn Records) -> Result<Vec<(User, Kept)>, StateError> {
    let mut owned = Vec::new();
    records.each_of(OWNED, &mut |key, version, octets| {
        if version > Kept::VERSION {
            return Err(format!("a user that moves of version {version}, of a newer release"));
        }
        let user = key.try_into().map(u64::from_be_bytes);
        let (Ok(user), Some(kept)) = (user, Kept::read(version, octets)) else {
            return Err("a record of a user that moves, which means nothing".to_owned());
        };
        owned.push((User(user), kept));
        Ok(())
    })?;
    Ok(owned)
}

impl Persistence {
    /// By what the node owns a user from now on, or that it does not.
    pub fn keep_owned(&mut self, user: User, kept: Option<Kept>) {
        let key = user.0.to_be_bytes();
        self.keep_changes(vec![match kept {
            Some(kept) => Change::put(OWNED, &key, Kept::VERSION, &kept.octets()),
            None => Change::remove(OWNED, &key),
        }]);
    }

    /// Other contexts come in the place of these: what is written of them is not theirs.
    pub fn begin_contexts_anew(&mut self, subjects: Vec<(Whose, u32, [bool; 3])>) {
        if let Some(state) = &mut self.state {
            state.checkpoints.begin_anew(subjects, &mut state.changes);
        }
    }
}
