//! Figures as SVG text: a frame with axes, and lines, points, bars and cells in it. They are meant
//! for papers and slides: black ink on a transparent background, with the palette of the page.

use std::fmt::{Display, Write};

/// Size of a figure in pixels.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 380.0;
/// Room for the name of the y axis, left of its tick labels.
const AXIS_NAME: f64 = 26.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 52.0;

/// Paul Tol's "muted" palette: nine hues that are distinct for every kind of color blindness.
pub(super) const HUES: [&str; 9] = [
    "#4c3fb0", "#cc6677", "#44aa99", "#ddcc77", "#88ccee", "#882255", "#117733", "#999933",
    "#aa4499",
];

/// Color of the n-th item.
pub(super) fn hue(n: usize) -> &'static str {
    HUES[n % HUES.len()]
}

/// Text with XML's special characters escaped.
pub(super) fn escaped(text: impl Display) -> String {
    let mut out = String::new();
    for sign in text.to_string().chars() {
        match sign {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            // XML does not allow these characters.
            sign if sign.is_control() || matches!(sign, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}')
            }
            sign => out.push(sign),
        }
    }
    out
}

/// A picture without axes.
pub(super) struct Canvas {
    body: String,
    size: [f64; 2],
}

impl Canvas {
    pub fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), size: [width, height] }
    }

    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str, more: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="{fill}" {more}/>"#
        );
    }

    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], more: &str) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{x1:.2}" y1="{y1:.2}" x2="{x2:.2}" y2="{y2:.2}" {more}/>"#
        );
    }

    pub fn circle(&mut self, [x, y]: [f64; 2], radius: f64, more: &str) {
        let _ = writeln!(self.body, r#"<circle cx="{x:.2}" cy="{y:.2}" r="{radius}" {more}/>"#);
    }

    pub fn path(&mut self, points: &[[f64; 2]], more: &str) {
        let mut d = String::new();
        for (i, [x, y]) in points.iter().enumerate() {
            let _ = write!(d, "{}{x:.2} {y:.2}", if i == 0 { 'M' } else { 'L' });
        }
        let _ = writeln!(self.body, r#"<path d="{d}" fill="none" {more}/>"#);
    }

    /// Adds text; `anchor` is `start`, `middle` or `end`.
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: &str, text: impl Display, more: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.2}" y="{y:.2}" text-anchor="{anchor}" {more}>{text}</text>"#
        );
    }

    pub fn finish(self) -> String {
        let [width, height] = self.size;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n{}</svg>\n",
            self.body
        )
    }
}

/// A picture with axes.
pub(super) struct Chart {
    pub canvas: Canvas,
    x: [f64; 2],
    y: [f64; 2],
    left: f64,
    legend: usize,
}

impl Chart {
    pub fn new(title: &str, x_name: &str, y_name: &str, x: [f64; 2], y: [f64; 2]) -> Self {
        // Digits of the font are about 6.7 pixels wide: no tick label reaches the name of the axis.
        let longest = ticks(y).into_iter().map(|tick| short(tick).chars().count()).max();
        let left = AXIS_NAME + 6.7 * longest.unwrap_or(0) as f64 + 8.0;
        let mut chart = Self { canvas: Canvas::new(WIDTH, HEIGHT), x, y, left, legend: 0 };
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        chart.canvas.text([left, 18.0], "start", title, r#"font-weight="bold""#);
        let middle = [(left + right) / 2.0, HEIGHT - 12.0];
        chart.canvas.text(middle, "middle", x_name, "");
        let y_middle = (TOP + bottom) / 2.0;
        let turned = format!(r#"transform="rotate(-90 16 {y_middle:.1})""#);
        chart.canvas.text([16.0, y_middle], "middle", y_name, &turned);
        for tick in ticks(y) {
            let at = chart.place([x[0], tick])[1];
            chart.canvas.line([left, at, right, at], r##"stroke="#ddd""##);
            chart.canvas.text([left - 7.0, at + 4.0], "end", short(tick), "");
        }
        for tick in ticks(x) {
            let at = chart.place([tick, y[0]])[0];
            chart.canvas.line([at, bottom, at, bottom + 4.0], r#"stroke="black""#);
            chart.canvas.text([at, bottom + 18.0], "middle", short(tick), "");
        }
        chart.canvas.line([left, bottom, right, bottom], r#"stroke="black""#);
        chart
    }

    /// Position of a point in pixels.
    pub fn place(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let share = |value: f64, [low, high]: [f64; 2]| {
            (value - low) / if high > low { high - low } else { 1.0 }
        };
        [
            self.left + share(x, self.x) * (WIDTH - self.left - RIGHT),
            HEIGHT - BOTTOM - share(y, self.y) * (HEIGHT - TOP - BOTTOM),
        ]
    }

    /// Adds a line with its name in the legend.
    pub fn series(&mut self, name: &str, points: &[(f64, f64)], color: &str, width: f64) {
        self.line(points, color, width);
        self.name(name, color);
    }

    /// Adds a line without a name.
    pub fn line(&mut self, points: &[(f64, f64)], color: &str, width: f64) {
        let placed: Vec<_> = points.iter().map(|&(x, y)| self.place([x, y])).collect();
        self.canvas.path(
            &placed,
            &format!(r#"stroke="{color}" stroke-width="{width}" stroke-linejoin="round""#),
        );
        if placed.len() < 30 {
            placed
                .iter()
                .for_each(|at| self.canvas.circle(*at, 2.5, &format!(r#"fill="{color}""#)));
        }
    }

    /// Adds a name to the legend.
    pub fn name(&mut self, name: &str, color: &str) {
        let y = TOP + 8.0 + 17.0 * self.legend as f64;
        self.legend += 1;
        let x = WIDTH - RIGHT + 12.0;
        self.canvas.rect([x, y - 8.0, 10.0, 10.0], color, "");
        self.canvas.text([x + 15.0, y + 1.0], "start", name, r#"font-size="11""#);
    }

    pub fn finish(self) -> String {
        self.canvas.finish()
    }
}

/// About five round values in a range.
fn ticks([low, high]: [f64; 2]) -> Vec<f64> {
    if !(low.is_finite() && high.is_finite() && high > low) {
        return vec![];
    }
    let raw = (high - low) / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= raw * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    (first..)
        .map(|n| n as f64 * step)
        .take_while(|tick| *tick <= high + step * 1e-9)
        .take(20)
        .collect()
}

/// A tick label: at most four decimals, without trailing zeros.
fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.replace('-', "−") }
}

/// The range of some values, with a margin.
pub(super) fn range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (low, high) = (low.min(value), high.max(value));
    }
    if !(low.is_finite() && high.is_finite()) {
        return [0.0, 1.0];
    }
    let air = if high > low { 0.05 * (high - low) } else { 0.5 * high.abs().max(1.0) };
    [low - air, high + air]
}

/// Color of a similarity ψ: orange for conflict, blue for agreement.
pub(super) fn diverging(psi: f64) -> String {
    let end = if psi < 0.0 { [213.0, 94.0, 0.0] } else { [0.0, 98.0, 178.0] };
    let share = psi.abs().min(1.0).powf(0.75);
    let [r, g, b] = end.map(|c: f64| (255.0 + (c - 255.0) * share).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks([0.0, 1.0]), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks([68.0, 83.0]), [70.0, 75.0, 80.0]);
        assert!(ticks([f64::NAN, 1.0]).is_empty() && ticks([1.0, 1.0]).is_empty());
        assert_eq!([0.6000000000000001, -0.0, -2.5].map(short), ["0.6", "0", "−2.5"]);
    }

    #[test]
    fn colours_have_their_ends() {
        assert_eq!(
            [diverging(1.0), diverging(-1.0), diverging(0.0)],
            ["#0062b2", "#d55e00", "#ffffff"]
        );
        assert_eq!(escaped("<a b=\"&\">\u{1}"), "&lt;a b=&quot;&amp;&quot;&gt;\u{fffd}");
    }
}
