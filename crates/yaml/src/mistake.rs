//! What is wrong with a configuration, where, and what may have been meant.

use std::collections::HashSet;
use std::fmt;

/// A place in a file: line and column count characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

impl Position {
    /// Where a file begins.
    pub const START: Position = Position { line: 1, column: 1 };
}

/// One mistake in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in the line, in characters, from 1.
    pub column: usize,
    /// What is wrong, in one sentence without a final stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Of more mistakes, the first so many are shown.
pub const MISTAKES: usize = 100;
/// Messages and hints are cut behind so many characters.
const LINE: usize = 400;
/// Hints list at most so many names.
const LISTED_NAMES: usize = 12;
/// How a hint begins that lists names.
const KNOWN: &str = "known here: ";

impl Mistake {
    /// A mistake at a place of a file that is named later, by [`Mistakes::of`].
    pub fn at(at: Position, message: impl Into<String>) -> Mistake {
        let (line, column) = (at.line, at.column);
        Mistake { file: String::new(), line, column, message: message.into(), hint: None }
    }

    /// Says what to do about it.
    pub fn hint(&mut self, hint: impl Into<String>) {
        self.hint = Some(hint.into());
    }

    /// Hints at the one of the `known` names that is nearest to `wrong`; if none
    /// is near, lists them, unless they are many.
    pub fn suggest<'n>(&mut self, wrong: &str, known: impl IntoIterator<Item = &'n str>) {
        let known = distinct(known);
        match nearest(wrong, known.iter().copied()) {
            Some(name) => self.hint(format!("did you mean `{name}`?")),
            None if (1..=LISTED_NAMES).contains(&known.len()) => {
                self.hint(format!("{KNOWN}{}", known.join(", ")));
            }
            None => {}
        }
    }
}

/// The names, each once, in their order.
fn distinct<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let mut seen = HashSet::new();
    names.into_iter().filter(|name| seen.insert(*name)).collect()
}

/// The one of the `known` names that is a slip of the keyboard away from `wrong`.
pub fn nearest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // A third of the letters may be wrong: further off, it is another word.
    let allowed = (wrong.chars().count() / 3).max(1);
    let distances = known.into_iter().map(|name| (strsim::osa_distance(wrong, name), name));
    let near = distances.filter(|(distance, _)| *distance <= allowed);
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Shows what a file put into a message as part of one line, cut if it is long.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(LINE));
    for (count, character) in text.chars().enumerate() {
        if count == LINE {
            line.push('…');
            break;
        }
        match character.is_control() {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line
}

/// The mistakes of one file, in its order, the first hundred of them; displayed
/// one a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mistakes(pub Vec<Mistake>);

impl Mistakes {
    /// The mistakes of `file`, put in order.
    pub fn of(file: &str, mut mistakes: Vec<Mistake>) -> Mistakes {
        for mistake in &mut mistakes {
            file.clone_into(&mut mistake.file);
            mistake.message = one_line(&mistake.message);
            mistake.hint = mistake.hint.as_deref().map(one_line);
        }
        mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        mistakes.dedup();
        mistakes.truncate(MISTAKES);
        // A list of names is told once.
        let mut listed = HashSet::new();
        for mistake in &mut mistakes {
            let list = mistake.hint.as_ref().filter(|hint| hint.starts_with(KNOWN));
            if list.is_some_and(|list| !listed.insert(list.clone())) {
                mistake.hint = None;
            }
        }
        Mistakes(mistakes)
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_listed_once() {
        let mistake = |line| {
            let mut mistake = Mistake::at(Position { line, column: 1 }, "there is no place `xyz`");
            mistake.suggest("xyz", ["access", "count", "count", "drop"]);
            mistake
        };
        let mistakes = Mistakes::of("f", vec![mistake(2), mistake(1)]);
        assert_eq!(
            mistakes.to_string(),
            "f:1:1: there is no place `xyz` (known here: access, count, drop)\n\
             f:2:1: there is no place `xyz`"
        );
    }
}
