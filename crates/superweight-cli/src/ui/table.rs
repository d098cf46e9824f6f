//! Tables of text: the first column is aligned to the left, the others to the right.

use std::fmt::Write;

/// Renders a header and rows as lines, indented by two spaces and without trailing spaces.
pub fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..header.len()).map(width).collect();
    let header = header.iter().map(|cell| cell.to_string()).collect();
    let mut text = String::new();
    for row in std::iter::once(&header).chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = widths[column] - cell.chars().count();
            let (before, after) = if column == 0 { (0, gap) } else { (gap, 0) };
            let _ = write!(line, "  {}{cell}{}", " ".repeat(before), " ".repeat(after));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up_by_characters_not_bytes() {
        let rows =
            [vec!["3×3".to_owned(), "1".to_owned()], vec!["a".to_owned(), "1,000".to_owned()]];
        assert_eq!(
            super::render(&["", "parameters"], &rows),
            "       parameters\n  3×3           1\n  a         1,000\n"
        );
    }
}
