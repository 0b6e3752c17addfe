//! Results as a plain text table: the first column to the left, numbers to the right.

use std::fmt;

/// A table that prints aligned.
#[derive(Clone, Debug, Default)]
pub struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with a title line and the names of its columns.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self { title: title.into(), rows: vec![columns.iter().map(|&column| column.into()).collect()] }
    }

    /// A row more.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {}", self.title)?;
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = width(column).unwrap_or(0);
                line += &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
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
    fn columns_line_up() {
        let mut table = Table::new("who and how much", &["who", "Mbit/s"]);
        table.row(["a long name".into(), "1.5".into()]);
        table.row(["b".into(), "100.25".into()]);
        let text = "# who and how much\nwho          Mbit/s\na long name     1.5\nb            100.25\n";
        assert_eq!(table.to_string(), text);
    }
}
