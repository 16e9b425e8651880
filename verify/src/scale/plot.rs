//! Plots as SVG: axes with units, a legend, light or dark as the reader's screen is.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = 58.0;

/// The colours of series. Most colour-blind readers can distinguish them, and they are readable on white and on black.
const LIGHT: [&str; 5] = ["#0b62a8", "#b3460b", "#2a7a3b", "#7a3a9c", "#555555"];
const DARK: [&str; 5] = ["#6db5f2", "#f0a066", "#7fd08f", "#cf9fe8", "#bbbbbb"];

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: &'static str,
    /// Logarithmic; else from zero.
    pub log: bool,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend says.
    pub label: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// A plot, which becomes `NAME.svg`.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The name of its file.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// From values to places on the paper.
struct Scale {
    log: bool,
    range: (f64, f64),
    paper: (f64, f64),
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let place = |v: f64| if self.log { v.max(f64::MIN_POSITIVE).log10() } else { v };
        let (from, to) = (place(self.range.0), place(self.range.1));
        let share = if to > from { (place(value) - from) / (to - from) } else { 0.5 };
        self.paper.0 + share * (self.paper.1 - self.paper.0)
    }
}

/// 1, 2 or 5 times a power of ten, at most `value`.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|n| n * power).find(|step| *step <= value * 1.000_001).unwrap_or(power)
}

/// The next of 1, 2, 5, 10, 20, 50 and so on.
fn next(step: f64) -> f64 {
    let power = 10f64.powf((step * 1.000_001).log10().floor());
    if step / power > 1.5 && step / power < 2.5 { power * 5.0 } else { step * 2.0 }
}

/// Where the axis has its lines, from its beginning to its end.
fn ticks(values: &[f64], log: bool) -> Vec<f64> {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    if !log {
        let most = if most > 0.0 { most } else { 1.0 };
        let step = next(round_down(most / 6.0));
        let count = (most / step).ceil() as usize;
        return (0..=count).map(|i| i as f64 * step).collect();
    }
    let least = least.max(1e-6);
    let wide = most / least > 200.0;
    let mut ticks = vec![if wide { 10f64.powf((least * 1.000_001).log10().floor()) } else { round_down(least) }];
    while let Some(last) = ticks.last().copied().filter(|last| *last < most * 0.999_999) {
        ticks.push(if wide { last * 10.0 } else { next(last) });
    }
    ticks
}

/// `20 000`, `0.05`.
pub fn number(value: f64) -> String {
    if value.abs() < 10.0 {
        let text = format!("{value:.2}");
        let text = if value.abs() < 0.1 && value != 0.0 { format!("{value:.3}") } else { text };
        return text.trim_end_matches('0').trim_end_matches('.').to_string();
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn style() -> String {
    let colours = |colours: [&str; 5]| -> String {
        let rule = |(i, c)| format!(".s{i}{{stroke:{c};fill:{c}}}");
        colours.into_iter().enumerate().map(rule).collect()
    };
    format!(
        "text{{font:13px system-ui,sans-serif;fill:#222}}.title{{font-size:16px;font-weight:600}}.back{{fill:#fff}}\
         .grid{{stroke:#ddd}}.axis{{stroke:#555}}{}path{{fill:none!important;stroke-width:2}}\
         @media(prefers-color-scheme:dark){{text{{fill:#ddd}}.back{{fill:#14171a}}.grid{{stroke:#333}}\
         .axis{{stroke:#999}}{}}}",
        colours(LIGHT),
        colours(DARK)
    )
}

impl Plot {
    /// The picture.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|s| s.points.iter().copied());
        let (xs, ys): (Vec<f64>, Vec<f64>) = points().unzip();
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{title}\">\n\
             <style>{}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"28\">{title}</text>\n",
            style(),
            title = escape(self.title),
        );
        if !xs.is_empty() {
            self.axes(&mut out, &xs, &ys);
        }
        out.push_str("</svg>\n");
        out
    }

    fn axes(&self, out: &mut String, xs: &[f64], ys: &[f64]) {
        // There are few values, so each has a line, except where the labels would touch.
        let mut at_x = xs.to_vec();
        at_x.sort_by(f64::total_cmp);
        at_x.dedup();
        let at_y = ticks(ys, self.y.log);
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let ends = |ticks: &[f64]| (ticks.first().copied().unwrap_or(0.0), ticks.last().copied().unwrap_or(1.0));
        let x = Scale { log: self.x.log, range: ends(&at_x), paper: (LEFT + 14.0, right - 14.0) };
        let y = Scale { log: self.y.log, range: ends(&at_y), paper: (bottom, TOP) };
        for value in &at_y {
            let (place, text) = (y.at(*value), number(*value));
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{place:.1}\" y2=\"{place:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 8.0,
                place + 4.5
            );
        }
        let mut last = f64::MIN;
        for value in &at_x {
            let (place, text) = (x.at(*value), number(*value));
            if place - last < 8.0 * text.len() as f64 {
                continue;
            }
            last = place;
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
                 <text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                bottom + 19.0
            );
        }
        let middle = (TOP + bottom) / 2.0;
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\" style=\"stroke-width:1\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(20 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 14.0,
            escape(self.x.label),
            escape(self.y.label)
        );
        let mut legend = LEFT;
        for (i, series) in self.series.iter().enumerate() {
            let class = i % LIGHT.len();
            let place = |(px, py): &(f64, f64)| (x.at(*px), y.at(*py));
            let line: Vec<String> =
                series.points.iter().map(place).map(|(px, py)| format!("{px:.1} {py:.1}")).collect();
            let _ = writeln!(out, "<path class=\"s{class}\" d=\"M{}\"/>", line.join("L"));
            for (px, py) in series.points.iter().map(place) {
                let _ = writeln!(out, "{}", mark(i, px, py));
            }
            let _ = writeln!(
                out,
                "{}<text x=\"{:.1}\" y=\"56\">{}</text>",
                mark(i, legend + 5.0, 51.5),
                legend + 16.0,
                escape(&series.label)
            );
            legend += 34.0 + 7.2 * series.label.chars().count() as f64;
        }
    }
}

/// Series differ in shape as well as in colour.
fn mark(i: usize, x: f64, y: f64) -> String {
    let class = i % LIGHT.len();
    match i % 3 {
        0 => format!("<circle class=\"s{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        1 => format!("<rect class=\"s{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\"/>", x - 3.5, y - 3.5),
        _ => format!(
            "<polygon class=\"s{class}\" points=\"{x:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\"/>",
            y - 5.0,
            x - 4.5,
            y + 4.0,
            x + 4.5,
            y + 4.0
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_hold_the_values() {
        for (values, log) in [
            (vec![1.0, 64.0], true),
            (vec![0.03, 41_000.0], true),
            (vec![0.0, 87.0], false),
            (vec![12_345.0, 3.0], false),
            (vec![5.0, 5.0], true),
            (vec![0.0], false),
        ] {
            let ticks = ticks(&values, log);
            assert!(ticks.is_sorted() && (1..=14).contains(&ticks.len()), "{values:?}: {ticks:?}");
            let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
            assert!(values.iter().all(|v| first <= v * 1.001 && *v <= last * 1.001), "{values:?}: {ticks:?}");
        }
        assert_eq!(ticks(&[1.0, 64.0], true), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn numbers_are_readable() {
        let shown = [0.0, 0.05, 0.1, 1.5, 9.0, 64.0, 1000.0, 100_000.0].map(number);
        assert_eq!(shown, ["0", "0.05", "0.1", "1.5", "9", "64", "1 000", "100 000"]);
    }

    #[test]
    fn a_plot_has_its_labels_its_legend_and_every_point() {
        let series = |label: &str| Series { label: label.into(), points: vec![(1.0, 10.0), (2.0, 20.0), (4.0, 15.0)] };
        let plot = Plot {
            name: "x",
            title: "a < b",
            x: Axis { label: "threads", log: true },
            y: Axis { label: "locks/s", log: false },
            series: vec![series("one"), series("two")],
        };
        let svg = plot.svg();
        for text in ["a &lt; b", ">threads<", ">locks/s<", ">one<", ">two<", "prefers-color-scheme:dark"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        // Three points and one in the legend; the background is a rectangle as well.
        assert_eq!((svg.matches("<circle").count(), svg.matches("<rect").count()), (4, 5));
        assert_eq!(svg.matches("NaN").count() + svg.matches("inf").count(), 0);
    }
}
