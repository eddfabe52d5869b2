//! The configuration of a node: one YAML file, read and checked whole.
//!
//! A file goes through four hands, each of which notes what it finds wrong at
//! its line and column:
//! 1. [`document`] parses YAML into a tree that knows where everything stands;
//! 2. [`shape`] reads the tree into the types of [`yaml`], whose comments are
//!    the published [`schema()`];
//! 3. [`check`] resolves names and compares numbers with their bounds; it makes
//!    every function once, on trial, and parses the rules;
//! 4. what comes out is a [`Blueprint`]: a node that is built from it can fail
//!    only because of the machine.

mod blueprint;
mod check;
mod deserialize;
mod document;
mod locate;
mod mistake;
mod schema;
mod shape;
mod values;
mod wording;
mod yaml;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use weft_compose::Kind;

pub use blueprint::{
    BearerPlan, Blueprint, Forwarding, FunctionPlan, GroupPlan, Limits, Memory, Polling, PortPlan,
    UserKey, UserPlan, Workers,
};
pub use mistake::{Mistake, Mistakes};
pub use schema::schema;

use locate::Source;
use mistake::Position;

/// Longest file, in bytes.
const FILE_BYTES: usize = 4 << 20;

/// Reads a configuration from `path`; see [`read`].
///
/// # Errors
/// [`Mistakes`]; one, at the start of the file, when it cannot be read at all.
pub fn load(path: &Path, kinds: &[Kind]) -> Result<Blueprint, Mistakes> {
    let file = path.display().to_string();
    // One byte beyond the limit is enough to see that it is exceeded.
    let text = File::open(path).and_then(|opened| {
        let mut bytes = Vec::new();
        opened.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text in UTF-8"))
    });
    match text {
        Ok(text) => read(&text, &file, kinds),
        Err(error) => {
            let message = format!("cannot read the file: {error}");
            Err(Mistakes::of(&file, vec![Mistake::at(Position::START, message)]))
        }
    }
}

/// Reads a configuration in which the functions of `kinds` can be used. `file`
/// is what mistakes call it.
///
/// # Errors
/// [`Mistakes`]: as many as can be found at once.
pub fn read(text: &str, file: &str, kinds: &[Kind]) -> Result<Blueprint, Mistakes> {
    let fail = |mistakes| Mistakes::of(file, mistakes);
    if text.len() > FILE_BYTES {
        let message = format!("the file has more than {FILE_BYTES} bytes");
        return Err(fail(vec![Mistake::at(Position::START, message)]));
    }
    let mut source = Source::read(text).map_err(|mistake| fail(vec![mistake]))?;
    if let Some(mistake) = foreign(&mut source) {
        return Err(fail(vec![mistake]));
    }
    let blueprint = shape::read(&mut source)
        .and_then(|node| check::blueprint(&node, &mut source, kinds))
        .ok_or_else(|| fail(std::mem::take(&mut source.mistakes)))?;
    let warnings = Mistakes::of(file, blueprint.warnings.0);
    Ok(Blueprint { warnings, ..blueprint })
}

/// Says so if the file describes something else than a node, of which all other
/// mistakes would come.
fn foreign(source: &mut Source<'_>) -> Option<Mistake> {
    for (key, ours) in [("apiVersion", "weft/v1"), ("kind", "Node")] {
        if let Some(other) = source.root.text(key).filter(|text| *text != ours) {
            let message = format!("the {key} of a node is `{ours}`, not `{other}`");
            source.wrong(key, message);
            return source.mistakes.pop();
        }
    }
    None
}
