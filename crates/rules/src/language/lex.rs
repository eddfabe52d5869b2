//! Splits a rule text into statements, and statements into tokens.

use std::fmt;

use crate::language::diagnostic::{Diagnostic, Position};

/// A token and where it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token<'t> {
    pub kind: Kind<'t>,
    pub at: Position,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind<'t> {
    /// A name, number, address or prefix; which one, the parser's context tells.
    Word(&'t str),
    /// An operator or bracket, one of [`SYMBOLS`].
    Symbol(&'static str),
}

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Word(text) => write!(f, "`{text}`"),
            Kind::Symbol(text) => write!(f, "`{text}`"),
        }
    }
}

/// All symbols; longer ones stand before their prefixes.
const SYMBOLS: [&str; 17] =
    ["->", "==", "!=", "<=", ">=", "&&", "||", "..", "<", ">", "!", "=", "(", ")", "{", "}", ","];

/// The tokens of one statement, which may span lines.
#[derive(Debug, Default)]
pub(crate) struct Statement<'t> {
    pub tokens: Vec<Token<'t>>,
    /// Where the statement ends: behind its last token.
    pub end: Position,
    /// A character in it could not be read; that has been reported.
    pub broken: bool,
}

/// Splits `text` into statements; what cannot be read is reported and marks its statement.
pub(crate) fn statements<'t>(
    text: &'t str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Statement<'t>> {
    let mut statements: Vec<Statement<'t>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(next) = tokens_of_line(index + 1, line, diagnostics) else { continue };
        match statements.last_mut() {
            Some(last) if continues(last, &next) => {
                last.tokens.extend(next.tokens);
                last.end = next.end;
                last.broken |= next.broken;
            }
            _ => statements.push(next),
        }
    }
    statements
}

/// Whether a line goes on with the statement before it: no statement begins with a symbol.
fn continues(statement: &Statement<'_>, line: &Statement<'_>) -> bool {
    matches!(line.tokens.first(), Some(Token { kind: Kind::Symbol(_), .. }))
        || (ends_open(statement) && !begins_statement(line))
}

/// Whether a statement so far ends in an operator.
fn ends_open(statement: &Statement<'_>) -> bool {
    match statement.tokens.as_slice() {
        [.., Token { kind: Kind::Symbol(symbol), .. }] => !matches!(*symbol, ")" | "}"),
        // After a word, `in` is the operator; anywhere else it is a name.
        [.., Token { kind: Kind::Word(_), .. }, Token { kind: Kind::Word("in"), .. }] => true,
        _ => false,
    }
}

/// Whether a line can only be the start of a rule or chain, so that a forgotten target in the
/// line before does not swallow it.
fn begins_statement(line: &Statement<'_>) -> bool {
    let kinds: Vec<Kind<'_>> = line.tokens.iter().take(3).map(|token| token.kind).collect();
    matches!(
        kinds.as_slice(),
        [Kind::Word("from"), Kind::Word(_), ..]
            | [Kind::Word("chain"), Kind::Word(_), Kind::Symbol("=")]
    )
}

/// The tokens of a line up to its comment; `None` if there is nothing in it.
fn tokens_of_line<'t>(
    line: usize,
    text: &'t str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Statement<'t>> {
    let mut statement = Statement::default();
    let mut rest = text;
    let mut column = 1;
    while let Some(first) = rest.chars().next() {
        let at = Position { line, column };
        let length = if first == '#' {
            break;
        } else if first.is_whitespace() {
            first.len_utf8()
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            statement.tokens.push(Token { kind: Kind::Symbol(symbol), at });
            symbol.len()
        } else if let length @ 1.. = word_length(rest) {
            statement.tokens.push(Token { kind: Kind::Word(&rest[..length]), at });
            length
        } else {
            if !statement.broken {
                diagnostics.push(unreadable(at, first));
            }
            statement.broken = true;
            first.len_utf8()
        };
        column += rest[..length].chars().count();
        rest = &rest[length..];
        if !first.is_whitespace() {
            statement.end = Position { line, column };
        }
    }
    (statement.broken || !statement.tokens.is_empty()).then_some(statement)
}

fn unreadable(at: Position, character: char) -> Diagnostic {
    let shown = match character {
        character if character.is_control() => character.escape_default().to_string(),
        character => character.to_string(),
    };
    let diagnostic = Diagnostic::error(at, format!("`{shown}` means nothing here"));
    match character {
        '&' => diagnostic.hint("write `&&`"),
        '|' => diagnostic.hint("write `||`"),
        '[' | ']' => diagnostic.hint("sets are written in braces: {a, b}"),
        '"' | '\'' => diagnostic.hint("names are written without quotes"),
        _ => diagnostic,
    }
}

/// Length in bytes of the word at the start of `text`, 0 if there is none.
///
/// Words hold names (`rewrite-address`), numbers, addresses (`2001:db8::1`) and prefixes. A
/// hyphen before `>` and a dot before a dot are symbols, not part of a word.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let in_word = |index: usize| match bytes[index] {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b':' => true,
        b'-' | b'.' | b'/' => {
            index > 0 && bytes.get(index + 1).is_some_and(|next| next.is_ascii_alphanumeric())
        }
        _ => false,
    };
    (0..bytes.len()).find(|&index| !in_word(index)).unwrap_or(bytes.len())
}

/// Whether `name` can be written as one word.
pub(crate) fn is_word(name: &str) -> bool {
    !name.is_empty() && word_length(name) == name.len()
}
