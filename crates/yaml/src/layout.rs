//! Tabs, quotation marks and indentation that make a text no YAML.

use crate::mistake::{Mistake, Position};

/// What the scanner says where text goes on behind its closing quotation mark, and where there
/// is no closing one.
const BEHIND_QUOTES: &str = "invalid trailing content after";
const OPEN_QUOTES: &str = "while scanning a quoted scalar, found unexpected end of stream";
/// What it says where a text in quotation marks goes on in a line that is not indented.
const UNQUOTED_LINE: &str = "invalid indentation in quoted scalar";
/// What it says where a line belongs to no block that is open.
const NO_BLOCK: &str = "while parsing a block mapping, did not find expected key";

/// The mistake that the scanner means by `info`, if it is one of these.
pub(crate) fn mistake(text: &str, at: Position, info: &str) -> Option<Mistake> {
    if info.contains("tab") {
        return tab(text, at.line);
    }
    if info == NO_BLOCK {
        return indentation(text, at.line);
    }
    let (message, hint) = if [OPEN_QUOTES, UNQUOTED_LINE].contains(&info) {
        ("the text that begins here has no closing quotation mark", "add it where the text ends")
    } else if info.starts_with(BEHIND_QUOTES) {
        let message = "something stands behind a closing quotation mark";
        (message, "if it should open a text, close the text in quotation marks before it")
    } else {
        return None;
    };
    let mut mistake = Mistake::at(at, message);
    mistake.hint(hint);
    Some(mistake)
}

/// The blanks and tabs that a line begins with.
fn margin(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// The first line from `line` on that is indented with a tab.
fn tab(text: &str, line: usize) -> Option<Mistake> {
    let mut lines = text.lines().enumerate().skip(line.saturating_sub(1));
    let tab = |content: &str| margin(content).chars().position(|c| c == '\t');
    let (number, column) = lines.find_map(|(number, content)| Some((number, tab(content)?)))?;
    let at = Position { line: number + 1, column: column + 1 };
    let mut mistake = Mistake::at(at, "a tab stands here, and YAML indents by blanks");
    mistake.hint("put blanks in its place");
    Some(mistake)
}

/// A line that begins beside the columns of the blocks above it.
fn indentation(text: &str, line: usize) -> Option<Mistake> {
    let content = text.lines().nth(line.checked_sub(1)?)?;
    let own = margin(content).chars().count();
    let mut columns: Vec<usize> = Vec::new();
    let above: Vec<_> = text.lines().take(line - 1).collect();
    let said = |content: &&str| !content.trim().is_empty() && !content.trim().starts_with('#');
    for content in above.into_iter().rev().filter(said) {
        let column = margin(content).chars().count();
        if columns.last().is_none_or(|inner| column < *inner) {
            columns.push(column);
        }
    }
    if columns.is_empty() || columns.contains(&own) {
        return None;
    }
    let columns: Vec<_> = columns.iter().map(usize::to_string).collect();
    let at = Position { line, column: own + 1 };
    let message = format!("this line begins with {own} blanks, as no line above it does");
    let mut mistake = Mistake::at(at, message);
    mistake.hint(format!("begin with {}", columns.join(" or ")));
    Some(mistake)
}

#[cfg(test)]
mod tests {
    use crate::locate::Source;

    #[test]
    fn tabs_quotes_and_indentation_are_named() {
        for (text, wanted) in [
            (
                "a:\n\tb: 2\n",
                "2:1: a tab stands here, and YAML indents by blanks (put blanks in its place)",
            ),
            (
                "a: 1\n\tb: 2\n",
                "2:1: a tab stands here, and YAML indents by blanks (put blanks in its place)",
            ),
            (
                "ports:\n  a: {b: 1}\n   c: {d: 2}\n",
                "3:4: this line begins with 3 blanks, as no line above it does (begin with 2 or 0)",
            ),
            (
                "ports:\n    a:\n      b: 1\n  c:\n    d: 2\n",
                "4:3: this line begins with 2 blanks, as no line above it does (begin with 6 or 4 or 0)",
            ),
            (
                "a: \"small\nb: \"c\"\n",
                "1:4: the text that begins here has no closing quotation mark (add it where the text \
                 ends)",
            ),
            (
                "a: \"b\" c\n",
                "1:8: something stands behind a closing quotation mark (if it should open a text, \
                 close the text in quotation marks before it)",
            ),
            (
                "name: 'a\nb: 1\n",
                "1:7: the text that begins here has no closing quotation mark (add it where the text \
                 ends)",
            ),
        ] {
            let mistake = Source::read(text).expect_err(text);
            assert_eq!(mistake.to_string()[1..], *wanted, "{text}");
        }
    }
}
