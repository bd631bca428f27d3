//! Tables whose columns are as wide as what stands in them.

use std::fmt;

/// Between columns.
const GAP: usize = 2;

/// A table: a head, then rows of as many cells.
#[derive(Debug)]
pub(crate) struct Table {
    is_right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this head. Columns of numbers begin with `>` and are put to the right.
    pub(crate) fn new(head: &[&str]) -> Self {
        let names = head.iter().map(|name| name.trim_start_matches('>').to_owned()).collect();
        Self {
            is_right: head.iter().map(|name| name.starts_with('>')).collect(),
            rows: vec![names],
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<_> = (0..self.is_right.len()).map(|column| self.width(column)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), is_right) in row.iter().zip(&widths).zip(&self.is_right) {
                let pad = " ".repeat(width - cell.chars().count());
                let (before, after) = if *is_right { (&*pad, "") } else { ("", &*pad) };
                line.extend([before, cell, after, &" ".repeat(GAP)]);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_numbers_stand_to_the_right() {
        let mut table = Table::new(&["NAME", ">BYTES", "NOTE"]);
        table.row(["a".into(), "1".into(), String::new()]);
        table.row(["läng".into(), "1234567".into(), "x".into()]);
        assert_eq!(table.to_string(), "NAME    BYTES  NOTE\na           1\nläng  1234567  x\n");
    }
}
