//! What the node is for users that move: a station owns them, an anchor has ways to them. The next
//! life goes on with contexts where the controller gives users back, and with the routes at once.

use weft_mobility_protocol::{Kept, Route, User};
use weft_state::{Change, Kind, Records, StateError};

use super::{OWNED, Persistence, ROUTES};
use crate::mobility::Remembered;
use crate::subscribers::Whose;

/// What the last life has kept of users that move.
///
/// # Errors
/// [`StateError`], where a record is damaged or of a newer release.
pub(in crate::agent) fn read(records: &dyn Records) -> Result<Remembered, StateError> {
    Ok((
        each(records, (OWNED, Kept::VERSION), Kept::read)?,
        each(records, (ROUTES, Route::VERSION), Route::read)?,
    ))
}

fn each<T>(
    records: &dyn Records,
    (kind, newest): (Kind, u8),
    read: fn(u8, &[u8]) -> Option<T>,
) -> Result<Vec<(User, T)>, StateError> {
    let mut all = Vec::new();
    records.each_of(kind, &mut |key, version, octets| {
        if version > newest {
            return Err(format!("a user that moves of version {version}, of a newer release"));
        }
        let user = key.try_into().map(u64::from_be_bytes);
        let (Ok(user), Some(kept)) = (user, read(version, octets)) else {
            return Err("a record of a user that moves, which means nothing".to_owned());
        };
        all.push((User(user), kept));
        Ok(())
    })?;
    Ok(all)
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

    /// The only route to a user from now on, or that there is none.
    pub fn keep_route(&mut self, user: User, route: Option<Route>) {
        let key = user.0.to_be_bytes();
        self.keep_changes(vec![match route {
            Some(route) => Change::put(ROUTES, &key, Route::VERSION, &route.octets()),
            None => Change::remove(ROUTES, &key),
        }]);
    }

    /// Other contexts come in the place of these: what is written of them is not theirs.
    pub fn begin_contexts_anew(&mut self, subjects: Vec<(Whose, u32, [bool; 3])>) {
        if let Some(state) = &mut self.state {
            state.checkpoints.begin_anew(subjects, &mut state.changes);
        }
    }
}
