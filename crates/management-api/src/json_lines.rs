//! JSON objects, one a line.

use std::fmt;

use serde::de::DeserializeOwned;

/// What is wrong with a line, and where in the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// Column in the line, in bytes, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { line, column, message } = self;
        write!(f, "line {line}, column {column}: {message}")
    }
}

/// Reads all lines of `text`; empty ones count, and say nothing.
///
/// # Errors
/// The first [`Mistake`].
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, Mistake> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let said = error.to_string();
            // Each line is a text of its own for the reader, and its first line.
            let message = said.split(" at line ").next().unwrap_or_default().to_owned();
            Mistake { line: at + 1, column: error.column(), message }
        })
    };
    lines.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_in_the_whole_text() {
        assert_eq!(read::<u8>("1\n\n 2\n"), Ok(vec![1, 2]));
        let wrong = read::<u8>("1\n\n2\n  x3\n").expect_err("a mistake");
        assert_eq!(wrong.to_string(), "line 4, column 3: expected value");
        let wrong = read::<u8>("1\n300\n").expect_err("a mistake");
        assert_eq!((wrong.line, wrong.message.contains("line")), (2, false), "{wrong}");
    }
}
