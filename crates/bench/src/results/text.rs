//! Results as text: a point a line, so that files with all repetitions stay small, and lines that
//! differ are points that differ.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// From this depth on whatever is in braces or brackets has one line: a point.
const ONE_LINE: usize = 4;
/// Arrays at this depth have one line: the intervals of derived numbers.
const ONE_LINE_ARRAY: usize = 2;

/// A value as JSON, with a line feed behind it.
pub fn text(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Lines::default()))?;
    text.push(b'\n');
    Ok(text)
}

/// Says where lines end.
#[derive(Default)]
struct Lines {
    /// Of each array or object that is open, whether it has one line.
    open: Vec<bool>,
    /// Whether the one that was closed last, or the innermost open one, has something in it.
    filled: bool,
}

impl Lines {
    fn open(&mut self, is_array: bool) {
        let depth = self.open.len();
        let one_line =
            self.is_one_line() || depth >= ONE_LINE || (is_array && depth == ONE_LINE_ARRAY);
        self.open.push(one_line);
        self.filled = false;
    }

    fn is_one_line(&self) -> bool {
        self.open.last().is_some_and(|one_line| *one_line)
    }

    fn item<W: Write + ?Sized>(&self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        match self.is_one_line() {
            true if first => Ok(()),
            true => writer.write_all(b" "),
            false => self.line(writer),
        }
    }

    fn line<W: Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        // A blank is enough to see what is within what.
        self.open.iter().try_for_each(|_| writer.write_all(b" "))
    }

    fn close<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        let one_line = self.open.pop().unwrap_or(true);
        if self.filled && !one_line {
            self.line(writer)?;
        }
        self.filled = true;
        Ok(())
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(true);
        writer.write_all(b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer)?;
        writer.write_all(b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(writer, first)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(false);
        writer.write_all(b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer)?;
        writer.write_all(b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(writer, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_point_has_a_line() {
        let point = json!({"mean": 1.5, "raw": [1.0, 2.0], "x": 64});
        let value = json!({
            "derived": {"rate": 2.5},
            "derived_ci95": {"rate": [2.0, 3.0]},
            "notes": [],
            "series": [{"name": "weft", "points": [point, point]}],
        });
        let written = String::from_utf8(text(&value).unwrap()).unwrap();
        let lines: Vec<&str> = written.lines().map(str::trim).collect();
        assert!(lines.contains(&r#""rate": [2.0, 3.0]"#), "{written}");
        assert!(lines.contains(&r#""notes": [],"#), "{written}");
        let point = r#"{"mean": 1.5, "raw": [1.0, 2.0], "x": 64}"#;
        assert!(lines.contains(&&*format!("{point},")) && lines.contains(&point), "{written}");
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
    }
}
