//! YAML files that people write, read so that every mistake is told at its line
//! and column, and as many as can be found at once.
//!
//! A file goes through three hands:
//! 1. [`document`] parses YAML into a tree that knows where everything stands;
//! 2. [`shape`] reads the tree into types with serde, goes on after a mistake,
//!    and says what serde found in the words of [`wording`];
//! 3. the reader of a format knows what its values mean, checks them, and notes what
//!    is wrong at its path in the [`Source`].
//!
//! [`values`] has the types of values that are written as one word.

#![forbid(unsafe_code)]

mod deserialize;
pub mod document;
mod layout;
pub mod locate;
pub mod mistake;
pub mod shape;
pub mod stream;
mod syntax;
pub mod values;
pub mod wording;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use locate::Source;
use mistake::{Mistake, Mistakes, Position};

/// Longest file, in bytes.
const FILE_BYTES: usize = 4 << 20;
/// The version of all formats.
const VERSION: &str = "weft/v1";

/// The text of a file.
///
/// # Errors
/// [`Mistakes`]: one, at the start of the file, when it cannot be read.
pub fn load(path: &Path) -> Result<String, Mistakes> {
    // One byte beyond the limit is enough to see that it is exceeded.
    let text = File::open(path).and_then(|opened| {
        let mut bytes = Vec::new();
        opened.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text in UTF-8"))
    });
    text.map_err(|error| {
        let message = format!("cannot read the file: {error}");
        Mistakes::of(&path.display().to_string(), vec![Mistake::at(Position::START, message)])
    })
}

/// Parses a text that describes a `kind`, such as `Node`. `file` is what mistakes
/// call it.
///
/// # Errors
/// [`Mistakes`]: one, behind which nothing can be read, or where the text says
/// that it describes something else, of which all other mistakes would come.
pub fn parse<'t>(text: &'t str, file: &str, kind: &str) -> Result<Source<'t>, Mistakes> {
    let fail = |mistake| Mistakes::of(file, vec![mistake]);
    if text.len() > FILE_BYTES {
        let message = format!("the file has more than {FILE_BYTES} bytes");
        return Err(fail(Mistake::at(Position::START, message)));
    }
    let mut source = Source::read(text).map_err(fail)?;
    match foreign(&mut source, kind) {
        Some(mistake) => Err(fail(mistake)),
        None => Ok(source),
    }
}

/// Says so if the file describes something else.
fn foreign(source: &mut Source<'_>, kind: &str) -> Option<Mistake> {
    let name = kind.to_lowercase();
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    for (key, ours) in [("apiVersion", VERSION), ("kind", kind)] {
        if let Some(other) = source.root.text(key).filter(|text| *text != ours) {
            let message = format!("the {key} of {article} {name} is `{ours}`, not `{other}`");
            let other = READERS.iter().find(|(kind, _)| key == "kind" && *kind == other);
            let hint = other.map(|(_, command)| format!("`{command}` reads this file"));
            let mistake = source.wrong(key, message);
            mistake.hint = hint;
            return source.mistakes.pop();
        }
    }
    None
}

/// Which command reads a file of each kind.
const READERS: [(&str, &str); 9] = [
    ("Node", "weft run"),
    ("Controller", "weft control"),
    ("Model", "weft model"),
    ("Profile", "weft generate"),
    ("ControlPlane", "weft smf"),
    ("Experiment", "weft bench"),
    ("Site", "weft apply"),
    ("NodeTemplate", "weft apply"),
    ("Bearers", "weft ctl bearer add --file"),
];
