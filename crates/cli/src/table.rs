//! Tables for people: columns as wide as what stands in them, numbers to the
//! right.

/// A table with a head.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Columns from here on hold numbers.
    numbers_from: usize,
}

impl Table {
    /// A table with these columns, of which those from `numbers_from` on hold
    /// numbers.
    pub fn new(head: &[&str], numbers_from: usize) -> Table {
        let head = head.iter().map(|&title| title.to_owned()).collect();
        Table { rows: vec![head], numbers_from }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there is nothing but the head.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The table as text; each line ends with a line feed.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                line.push_str(&match column >= self.numbers_from {
                    true => format!("{cell:>width$}  "),
                    false => format!("{cell:width$}  "),
                });
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn numbers_stand_to_the_right_and_lines_end_with_their_last_cell() {
        let mut table = Table::new(&["port", "packets", "note"], 1);
        table.row(["access", "12"].map(str::to_owned));
        table.row(["a", "3456789012", "x"].map(str::to_owned));
        assert_eq!(
            table.text(),
            "port       packets  note\naccess          12\na       3456789012     x\n"
        );
    }
}
