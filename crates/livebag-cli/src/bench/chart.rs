//! Charts as SVG: one row by storage and set of parameters.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::{Shift, cartesian::Cartesian2d};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::benchmark::StorageId;
use super::summary::Figure;
use crate::outcome::CliError;

const WIDTH: u32 = 1100;
const ROW_HEIGHT: u32 = 34;
/// Title, axis and its description.
const FRAME_HEIGHT: u32 = 110;
/// Of a label's letter, about.
const LETTER_WIDTH: u32 = 7;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One row of a chart of bars.
pub struct Bar {
    /// Decides the colour.
    pub storage: StorageId,
    /// The text in front.
    pub label: String,
    /// Its length, and the range over the repeats.
    pub figure: Figure,
    /// The text behind.
    pub value: String,
}

/// One row of a chart of percentiles.
pub struct Range {
    /// Decides the colour.
    pub storage: StorageId,
    /// The text in front.
    pub label: String,
    /// Medians over the repeats of the 50th and the 99th percentile; above 0.
    pub p50: f64,
    /// See [`Range::p50`].
    pub p99: f64,
    /// The text behind.
    pub value: String,
}

/// Additions to an axis of bars.
#[derive(Default)]
pub struct Scale {
    /// The value that is wanted, or that none exceeds: a line across, and the axis' last number.
    pub end: Option<f64>,
    /// The name of that line; empty for no line.
    pub mark: String,
}

/// Colours that colour-blind people can distinguish (Okabe and Ito).
fn colour(storage: StorageId) -> RGBColor {
    match storage {
        StorageId::Livebag => RGBColor(0x00, 0x72, 0xb2),
        StorageId::Mcap => RGBColor(0xe6, 0x9f, 0x00),
        StorageId::Sqlite3 => RGBColor(0x9a, 0x9a, 0x9a),
    }
}

/// Bars from 0; a thin line shows the range where runs were repeated.
pub fn bars(title: &str, axis: &str, scale: &Scale, rows: &[Bar]) -> Result<String, CliError> {
    let largest = rows.iter().map(|row| row.figure.max).chain(scale.end).fold(0.0, f64::max);
    // Room for the values behind the bars.
    let end = if largest > 0.0 { largest * 1.25 } else { 1.0 };
    let axis = match scale.end {
        Some(end) if !scale.mark.is_empty() => {
            &format!("{axis}; dashed line: {} {}", tick(end.round()), scale.mark)
        }
        _ => axis,
    };
    let labels: Vec<_> = rows.iter().map(|row| row.label.as_str()).collect();
    // No number where no bar can reach.
    let number = |value: &f64| if *value > largest * 1.01 { String::new() } else { tick(*value) };
    draw(rows.len(), |root| {
        let mut chart = frame(root, title, axis, &labels, 0.0..end, &number)?;
        if let Some(at) = scale.end.filter(|_| !scale.mark.is_empty()) {
            let top = rows.len() as f64;
            let line = DashedPathElement::new([(at, 0.0), (at, top)], 6, 4, INK.stroke_width(1));
            chart.draw_series([line])?;
        }
        for (index, row) in rows.iter().enumerate() {
            let y = middle(rows.len(), index);
            let bar = [(0.0, y - 0.3), (row.figure.median, y + 0.3)];
            let ends = [(row.figure.min, y), (row.figure.max, y)];
            let mut text_from = row.figure.max.max(row.figure.median);
            // Not across the line.
            if let Some(at) = scale.end.filter(|at| (0.85..1.0).contains(&(text_from / at))) {
                text_from = at;
            }
            let text_at = (text_from + end * 0.01, y);
            chart.draw_series([Rectangle::new(bar, colour(row.storage).filled())])?;
            if row.figure.max > row.figure.min {
                chart.draw_series([PathElement::new(ends, INK.stroke_width(2))])?;
            }
            chart.draw_series([Text::new(row.value.clone(), text_at, value_style())])?;
        }
        Ok(())
    })
}

/// A line from the 50th to the 99th percentile on a logarithmic axis: a disc and a bar's end.
pub fn ranges(title: &str, axis: &str, rows: &[Range]) -> Result<String, CliError> {
    let smallest = rows.iter().map(|row| row.p50).fold(f64::INFINITY, f64::min);
    let largest = rows.iter().map(|row| row.p99).fold(0.0, f64::max);
    let start = 10f64.powf(smallest.log10().floor());
    // Room for the values behind the lines.
    let end = largest * 100.0;
    let labels: Vec<_> = rows.iter().map(|row| row.label.as_str()).collect();
    let time = |us: &f64| if *us > largest * 10.0 { String::new() } else { time_tick(*us) };
    draw(rows.len(), |root| {
        let x = (start..end).log_scale();
        let mut chart = frame(root, title, axis, &labels, x, &time)?;
        for (index, row) in rows.iter().enumerate() {
            let y = middle(rows.len(), index);
            let colour = colour(row.storage);
            let text_at = (row.p99 * (end / start).powf(0.015), y);
            let line = PathElement::new([(row.p50, y), (row.p99, y)], colour.stroke_width(8));
            chart.draw_series([line])?;
            chart.draw_series([Circle::new((row.p50, y), 7, colour.filled())])?;
            let end = [(row.p99, y - 0.3), (row.p99, y + 0.3)];
            chart.draw_series([PathElement::new(end, colour.stroke_width(4))])?;
            chart.draw_series([Text::new(row.value.clone(), text_at, value_style())])?;
        }
        Ok(())
    })
}

/// The first row is the uppermost.
fn middle(rows: usize, index: usize) -> f64 {
    (rows - index) as f64 - 0.5
}

fn value_style() -> TextStyle<'static> {
    (FONT, 14).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center))
}

type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw(
    rows: usize,
    paint: impl FnOnce(&Area) -> Result<(), Failure<'static>>,
) -> Result<String, CliError> {
    let mut svg = String::new();
    let height = FRAME_HEIGHT + ROW_HEIGHT * rows as u32;
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let painted = paint(&root).and_then(|()| root.present());
        painted.map_err(|error| CliError::failed(format!("drawing a chart failed: {error}")))?;
    }
    Ok(svg)
}

/// Title, horizontal axis with its unit, and the rows' labels.
fn frame<'r, 'a, X>(
    root: &'r Area<'a>,
    title: &str,
    axis: &str,
    labels: &[&str],
    x: X,
    number: &dyn Fn(&f64) -> String,
) -> Result<
    ChartContext<'r, SVGBackend<'a>, Cartesian2d<X::CoordDescType, RangedCoordf64>>,
    Failure<'static>,
>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let label_width = longest as u32 * LETTER_WIDTH + 16;
    let mut chart = ChartBuilder::on(root)
        .caption(title, (FONT, 18).into_font().color(&INK))
        .margin(10)
        .x_label_area_size(44)
        .y_label_area_size(label_width)
        .build_cartesian_2d(x, 0.0..labels.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_labels(8)
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_desc(axis)
        .axis_desc_style((FONT, 14).into_font().color(&INK))
        .label_style((FONT, 13).into_font().color(&INK))
        .x_label_formatter(&number)
        .draw()?;
    let style = (FONT, 13).into_font().color(&INK).pos(Pos::new(HPos::Right, VPos::Center));
    let (left, _) = chart.plotting_area().get_pixel_range();
    for (index, label) in labels.iter().enumerate() {
        let row = f64::from(ROW_HEIGHT) * (index as f64 + 0.5);
        let (_, vertical) = chart.plotting_area().get_pixel_range();
        let height = f64::from(vertical.end - vertical.start) / labels.len() as f64;
        let y = f64::from(vertical.start) + height * row / f64::from(ROW_HEIGHT);
        root.draw_text(label, &style, (left.start - 8, y as i32))?;
    }
    Ok(chart)
}

/// Microseconds as a whole power of ten: `1 µs`, `10 ms`, `100 s`.
fn time_tick(us: f64) -> String {
    let (value, unit) = match us {
        us if us >= 0.999e6 => (us / 1e6, "s"),
        us if us >= 0.999e3 => (us / 1e3, "ms"),
        us if us >= 0.999 => (us, "µs"),
        us => (us * 1e3, "ns"),
    };
    format!("{value:.0} {unit}")
}

/// `0.05`, `2.5`, `1200`, `1e6`: no more digits than the axis needs.
fn tick(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v.abs() >= 1e6 => format!("{v:e}"),
        v if v.abs() < 0.001 => format!("{v:e}"),
        v => format!("{}", (v * 1e4).round() / 1e4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!([0.0, 0.05, 2.5, 1200.0, 1e6].map(tick), ["0", "0.05", "2.5", "1200", "1e6"]);
        let times = [0.01, 1.0, 100.0, 1e4, 1e7].map(time_tick);
        assert_eq!(times, ["10 ns", "1 µs", "100 µs", "10 ms", "10 s"]);
    }
}
