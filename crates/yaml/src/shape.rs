//! Reads a whole file into a type and goes on after a mistake: what is wrong is
//! noted, taken out, and the rest is read again.

use std::collections::HashSet;

use serde::de::DeserializeOwned;

use crate::locate::Source;
use crate::mistake::{MISTAKES, nearest};
use crate::wording::Complaint;

/// The document as a `T`; `None` if there is a mistake in its shape.
pub fn read<T: DeserializeOwned>(source: &mut Source<'_>) -> Option<T> {
    let mut removed: HashSet<String> = HashSet::new();
    while source.mistakes.len() < MISTAKES {
        let error = match T::deserialize(&source.root) {
            Ok(value) => return source.mistakes.is_empty().then_some(value),
            Err(error) => error,
        };
        let path = error.path();
        let complaint = Complaint::of(&error.to_string());
        let culprit = match &complaint {
            Complaint::UnknownKey(key, known) => {
                complaint.hint(source.wrong_key(&path, complaint.message()));
                // The key that was meant is not missing.
                let parent = path.strip_suffix(key.as_str()).unwrap_or_default();
                let meant = nearest(key, known.iter().map(String::as_str));
                removed.extend(meant.map(|meant| format!("{parent}{meant}")));
                path
            }
            // What is missing because it was taken out has been noted.
            Complaint::MissingKey(key) if removed.contains(&child(&path, key)) => path,
            _ => {
                complaint.hint(source.wrong(&path, complaint.message()));
                path
            }
        };
        if !source.remove(&culprit) {
            return None;
        }
        // Where an item was taken out, the next one has moved to.
        let inside = format!("{culprit}.");
        removed.retain(|path| !path.starts_with(&inside));
        removed.insert(culprit);
    }
    None
}

fn child(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ => format!("{path}.{key}"),
    }
}
