//! What is wrong with a rule text, where, and what may have been meant.

use std::fmt;

/// A place in a rule text: line and column count characters from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Position {
    pub line: usize,
    pub column: usize,
}

/// How bad a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Probably not meant, but the rules can be used.
    Warning,
    /// The rules cannot be used.
    Error,
}

/// One mistake in a rule text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Line within the text, from 1.
    pub line: usize,
    /// Column within the line, in characters, from 1.
    pub column: usize,
    /// What is wrong, in one sentence without a final stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// How bad it is.
    pub severity: Severity,
}

impl Diagnostic {
    pub(crate) fn error(at: Position, message: impl Into<String>) -> Self {
        let (line, column) = (at.line, at.column);
        Self { line, column, message: message.into(), hint: None, severity: Severity::Error }
    }

    pub(crate) fn warning(at: Position, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(at, message) }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Hints at the nearest of `known` names, if one is near.
    pub(crate) fn nearest(self, wrong: &str, known: &[&str]) -> Self {
        match closest(wrong, known) {
            Some(name) => self.hint(format!("did you mean `{name}`?")),
            None => self,
        }
    }

    /// Hints at the nearest of `known` names, or else lists them if they are few.
    pub(crate) fn suggest<'n>(self, wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for name in known {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let known = names;
        let diagnostic = self.nearest(wrong, &known);
        if diagnostic.hint.is_none() && (1..=LISTED_NAMES).contains(&known.len()) {
            return diagnostic.hint(format!("known here: {}", known.join(", ")));
        }
        diagnostic
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{}:{}: {severity}: {}", self.line, self.column, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Lists of at most so many names are shown in a hint.
const LISTED_NAMES: usize = 12;

/// The name nearest to `wrong`, if it is near enough to be a slip of the keyboard.
fn closest<'n>(wrong: &str, known: &[&'n str]) -> Option<&'n str> {
    let length = wrong.chars().count();
    let allowed = (length / 3).max(1);
    known
        .iter()
        // As many insertions or deletions are needed at least.
        .filter(|name| name.chars().count().abs_diff(length) <= allowed)
        .map(|name| (edit_distance(wrong, name), *name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Insertions, deletions, substitutions and swaps of neighbours between two words.
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitution = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitution.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_of_damerau() {
        assert_eq!(edit_distance("access", "access"), 0);
        assert_eq!(edit_distance("acess", "access"), 1);
        assert_eq!(edit_distance("acecss", "access"), 1);
        assert_eq!(edit_distance("", "red"), 3);
        assert_eq!(edit_distance("count", "police"), 5);
    }

    #[test]
    fn only_near_names_are_suggested() {
        assert_eq!(closest("rde", &["green", "yellow", "red"]), Some("red"));
        assert_eq!(closest("blue", &["green", "yellow", "red"]), None);
    }

    #[test]
    fn a_name_is_listed_once() {
        let diagnostic = Diagnostic::error(Position { line: 1, column: 1 }, "no");
        let listed = diagnostic.suggest("blue", ["access", "count", "access"]);
        assert_eq!(listed.hint.as_deref(), Some("known here: access, count"));
    }

    #[test]
    fn displays_in_one_line() {
        let at = Position { line: 3, column: 6 };
        let diagnostic = Diagnostic::error(at, "there is no place `acess`");
        assert_eq!(diagnostic.to_string(), "3:6: error: there is no place `acess`");
        let diagnostic = diagnostic.suggest("acess", ["access"]);
        assert_eq!(
            diagnostic.to_string(),
            "3:6: error: there is no place `acess` (did you mean `access`?)"
        );
    }
}
