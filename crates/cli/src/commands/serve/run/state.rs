//! The store of a node: opened before its ports are.

use std::path::Path;

use weft_node_config::Blueprint;
use weft_state::{Owner, Role, StateError, Store, set_aside};

use crate::failure::Failure;

/// The store that the configuration in `path` names, if it names one; a new one where what was
/// kept is not wanted.
///
/// # Errors
/// Why it cannot be used, and what to do.
pub fn open(blueprint: &Blueprint, path: &Path, anew: bool) -> Result<Option<Store>, Failure> {
    let Some(plan) = &blueprint.state else {
        return match anew {
            true => Err(Failure::input("--without-state: the configuration has no `state`")),
            false => Ok(None),
        };
    };
    let folder = path.parent().unwrap_or(Path::new("")).join(&plan.directory);
    let owner = Owner { role: Role::Node, name: blueprint.name.clone() };
    if !anew {
        return Store::open(&folder, &owner).map(Some).map_err(|error| refused(&error));
    }
    let opened = set_aside(&folder).and_then(|aside| {
        if let Some(aside) = aside {
            tracing::warn!(state = %aside.display(), "the node begins anew; what it had kept is here");
        }
        Store::open(&folder, &owner)
    });
    match opened {
        Ok(store) => Ok(Some(store)),
        Err(StateError::InUse(path)) => Err(refused(&StateError::InUse(path))),
        Err(error) => {
            tracing::warn!("{error}: the node keeps nothing");
            Ok(None)
        }
    }
}

fn refused(error: &StateError) -> Failure {
    match error {
        StateError::InUse(_) => Failure::input(error),
        _ => Failure::input(format!("{error}; --without-state begins anew")),
    }
}
