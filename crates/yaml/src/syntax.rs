//! What the scanner says of a text that is not YAML, in the words of someone who writes a
//! configuration.

use saphyr_parser::{Marker, ScanError};

use crate::layout;
use crate::mistake::{Mistake, Position};

/// What the scanner says where a word in the place of a key has no colon.
const NO_COLON: [&str; 3] = [
    "simple key expect ':'",
    "simple key expected",
    "while parsing a block mapping, did not find expected key",
];
/// What it says where a colon comes behind something that is no key.
const COLON: &str = "mapping values are not allowed in this context";

/// Where the scanner says that something is.
pub(crate) fn position(marker: &Marker) -> Position {
    Position { line: marker.line().max(1), column: marker.col() + 1 }
}

/// The mistake behind which nothing of `text` can be read.
pub(crate) fn unreadable(error: &ScanError, text: &str) -> Mistake {
    let (at, info) = (position(error.marker()), error.info());
    if NO_COLON.contains(&info)
        && let Some((key, word)) = key_before(text, at.line)
    {
        return no_colon(key, word);
    }
    if let Some((key, word)) = key_in(text, at.line) {
        return no_colon(key, word);
    }
    if info == COLON {
        // The scanner has joined the line before with this one.
        return match key_before(text, at.line) {
            Some((key, word)) => no_colon(key, word),
            None => {
                let mut mistake = Mistake::at(at, "a second `:` stands in this line");
                mistake.hint("put text in quotes that has a colon and a blank in it");
                mistake
            }
        };
    }
    let unnamed = || Mistake::at(at, format!("this is not YAML: {info}"));
    layout::mistake(text, at, info).unwrap_or_else(unnamed)
}

fn no_colon(at: Position, word: &str) -> Mistake {
    let mut mistake = Mistake::at(at, format!("a `:` is missing behind `{word}`"));
    mistake.hint(format!("write `{word}:`"));
    mistake
}

/// The nearest line above `line` that has something in it, if that is one word without a
/// colon.
fn key_before(text: &str, line: usize) -> Option<(Position, &str)> {
    let lines = text.lines().enumerate().take(line.saturating_sub(1));
    let (above, content) = lines
        .map(|(number, content)| (number, content.split(" #").next().unwrap_or_default()))
        .filter(|(_, content)| !content.trim().is_empty() && !content.trim().starts_with('#'))
        .last()?;
    let word = content.trim();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let blanks = content.chars().take_while(|c| c.is_whitespace()).count();
    word.chars().all(plain).then_some((Position { line: above + 1, column: blanks + 1 }, word))
}

/// The first word of a line that has its value behind it without a colon between them: one that
/// begins with a bracket or a quotation mark.
fn key_in(text: &str, line: usize) -> Option<(Position, &str)> {
    let content = text.lines().nth(line.checked_sub(1)?)?;
    let word = content.trim_start().split(' ').next()?;
    let column = content.len() - content.trim_start().len();
    let value = content[column + word.len()..].trim_start();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_key = word.starts_with(char::is_alphabetic) && word.chars().all(plain);
    let is_value = value.starts_with(['{', '[', '"', '\'']);
    (is_key && is_value).then_some((Position { line, column: column + 1 }, word))
}

#[cfg(test)]
mod tests {
    use crate::locate::Source;

    fn said(text: &str) -> String {
        let mistake = Source::read(text).expect_err("a mistake");
        mistake.to_string()[1..].to_owned()
    }

    #[test]
    fn a_key_without_its_colon_is_named_where_it_stands() {
        for (text, wanted) in [
            (
                "ports:\n  access\n    device: x\n  core:\n    device: y\n",
                "2:3: a `:` is missing behind `access` (write `access:`)",
            ),
            (
                "ports:\n  access:\n    device: x\n  core # the other\n\nrules: x\n",
                "4:3: a `:` is missing behind `core` (write `core:`)",
            ),
            (
                "ports:\n  access:\n    device: x\n  core\n",
                "4:3: a `:` is missing behind `core` (write `core:`)",
            ),
            (
                "a: 1\nmetadata\nb: 2\n",
                "2:1: a `:` is missing behind `metadata` (write `metadata:`)",
            ),
            (
                "ports:\n  access {device: \"x\", direction: uplink}\n  core: {device: y}\n",
                "2:3: a `:` is missing behind `access` (write `access:`)",
            ),
            (
                "name: from: here\n",
                "1:11: a second `:` stands in this line (put text in quotes that has a colon and a \
                 blank in it)",
            ),
            ("a: *b\n", "1:4: this is not YAML: while parsing node, found unknown anchor"),
        ] {
            assert_eq!(said(text), wanted, "{text}");
        }
    }
}
