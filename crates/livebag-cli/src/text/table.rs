//! Rows under a head, as wide as the terminal.

use livebag_format::visible;

use crate::color::{self, To, Tone};

/// The first column is not shortened below this, so that rows can be distinguished …
const FIRST_CHARS_MIN: usize = 28;
/// … and other names not below this.
const NAME_CHARS_MIN: usize = 12;
/// Between two columns.
const GAP: usize = 2;

/// Content of a cell.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    look: Option<Tone>,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, look: None }
    }
}

impl Cell {
    /// One that looks like something.
    pub fn new(text: impl Into<String>, look: Option<Tone>) -> Self {
        Self { text: text.into(), look }
    }
}

/// A column of `table`.
struct Column<'a> {
    name: &'a str,
    is_right: bool,
    /// Minimum width when shortened; `None` for figures, times and states.
    chars_min: Option<usize>,
    /// Which one goes first where the terminal is too narrow for all.
    rank: Option<u32>,
    width: usize,
}

impl<'a> Column<'a> {
    fn new(at: usize, head: &'a str) -> Self {
        let (name, rank) = match head.split_once('?') {
            Some((name, rank)) => (name, rank.parse().ok()),
            None => (head, None),
        };
        let bare = name.trim_start_matches(['>', '=']);
        let chars_min = if at == 0 { FIRST_CHARS_MIN } else { NAME_CHARS_MIN };
        let chars_min = (bare == name).then_some(chars_min);
        Self { name: bare, is_right: name.starts_with('>'), chars_min, rank, width: 0 }
    }

    fn width_min(&self) -> usize {
        self.chars_min.map_or(self.width, |least| self.width.min(least))
    }
}

/// The rows, columns as wide as they must be. A head that begins with `>` is aligned to the right. On a narrow
/// terminal, columns whose head ends with `?` and a number are left out, the lowest number first. Names are shortened
/// in the middle, in all columns except those whose head begins with `>` or `=`.
pub fn table<C: Into<Cell> + Clone>(head: &[&str], rows: &[Vec<C>]) -> String {
    table_in(head, rows, color::width(To::Out))
}

pub fn table_in<C: Into<Cell> + Clone>(
    head: &[&str],
    rows: &[Vec<C>],
    width_max: Option<usize>,
) -> String {
    // Cells hold names of foreign make.
    let shown = |cell: &C| {
        let cell: Cell = cell.clone().into();
        Cell { text: visible(&cell.text).into_owned(), look: cell.look }
    };
    let rows: Vec<Vec<Cell>> = rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    let mut columns: Vec<_> =
        head.iter().enumerate().map(|(at, head)| Column::new(at, head)).collect();
    for (at, column) in columns.iter_mut().enumerate() {
        let cells = rows.iter().map(|row| row[at].text.chars().count());
        column.width = cells.chain([column.name.chars().count()]).max().unwrap_or(0);
    }
    let kept = match width_max {
        Some(width_max) => fit(&mut columns, width_max),
        None => (0..columns.len()).collect(),
    };
    let mut out = String::new();
    let heads = columns.iter().map(|column| Cell::new(column.name, Some(Tone::Heading))).collect();
    for row in std::iter::once(&heads).chain(&rows) {
        out.push_str(&line(row, &columns, &kept));
    }
    let missing: Vec<_> = (0..columns.len()).filter(|at| !kept.contains(at)).collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|at| columns[*at].name).collect();
        out.push_str(&format!("not shown here: {}\n", names.join(", ")));
    }
    out
}

/// Makes the columns fit; those that are left.
fn fit(columns: &mut [Column<'_>], width_max: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let gaps = |kept: &[usize]| GAP * kept.len().saturating_sub(1);
    loop {
        let least: usize = kept.iter().map(|at| columns[*at].width_min()).sum();
        let ranked = kept.iter().filter_map(|at| columns[*at].rank.map(|rank| (rank, *at)));
        match ranked.min() {
            Some((_, at)) if least + gaps(&kept) > width_max => kept.retain(|kept| *kept != at),
            _ => break,
        }
    }
    let total: usize = kept.iter().map(|at| columns[*at].width).sum();
    let mut over = (total + gaps(&kept)).saturating_sub(width_max);
    while over > 0 {
        let long = kept.iter().filter(|at| columns[**at].width > columns[**at].width_min());
        let Some(at) = long.max_by_key(|at| columns[**at].width).copied() else { break };
        columns[at].width -= 1;
        over -= 1;
    }
    kept
}

fn line(row: &[Cell], columns: &[Column<'_>], kept: &[usize]) -> String {
    let mut line = String::new();
    for (number, &at) in kept.iter().enumerate() {
        let (cell, column) = (&row[at], &columns[at]);
        let text = shortened(&cell.text, column.width);
        let padding = " ".repeat(column.width - text.chars().count());
        let text = match cell.look {
            Some(look) => color::paint(To::Out, look, &text),
            None => text,
        };
        let gap = if number == 0 { 0 } else { GAP };
        line.extend(std::iter::repeat_n(' ', gap));
        match column.is_right {
            true => line.push_str(&(padding + &text)),
            false => line.push_str(&(text + &padding)),
        }
    }
    line.trim_end().to_owned() + "\n"
}

/// `/camera…/image_raw`: at most `chars`, with both ends, which tell names apart.
pub fn shortened(text: &str, chars: usize) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    let tail = chars / 2;
    let head = chars.saturating_sub(tail + 1);
    let first: String = text.chars().take(head).collect();
    let last: String = text.chars().skip(count - tail).collect();
    format!("{first}…{last}")
}
