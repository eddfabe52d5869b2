//! Axes: from values to places, with ticks at round numbers.

use crate::results::Axis;

/// How the values of one axis are laid out. Places are the values themselves, or
/// their decimal logarithms.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    log: bool,
    /// The place where the axis begins.
    pub low: f64,
    /// The place where it ends.
    pub high: f64,
    /// Places with a line and a number.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// A scale that holds all `values`, with about `count` ticks. A linear one
    /// begins at zero if `from_zero`.
    pub fn over(axis: &Axis, values: &[f64], from_zero: bool, count: usize) -> Scale {
        let values = values.iter().copied().filter(|&value| stands_on(axis, value));
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        match (low <= high, axis.log) {
            (false, _) => Scale::linear(0.0, 1.0, count),
            (true, true) => Scale::logarithmic(low, high, count),
            (true, false) if from_zero => Scale::linear(low.min(0.0), high.max(0.0), count),
            (true, false) => Scale::linear(low, high, count),
        }
    }

    /// A scale for named places 0, 1, 2…, without ticks.
    pub fn of_names(count: usize) -> Scale {
        Scale { log: false, low: -0.5, high: count.max(1) as f64 - 0.5, ticks: Vec::new() }
    }

    fn linear(low: f64, high: f64, count: usize) -> Scale {
        let span = if high > low { high - low } else { high.abs().max(1.0) };
        // Less than this is lost in numbers without all their digits.
        let step = round_step((span / count.max(1) as f64).max(1e-300));
        let first = (low / step).floor() as i64;
        let mut last = (high / step).ceil() as i64;
        if last == first {
            last += 1;
        }
        let ticks: Vec<_> = (first..=last).map(|tick| tick as f64 * step).collect();
        Scale { log: false, low: first as f64 * step, high: last as f64 * step, ticks }
    }

    fn logarithmic(low: f64, high: f64, count: usize) -> Scale {
        let first = low.log10().floor() as i32;
        let last = (high.log10().ceil() as i32).max(first + 1);
        let decades = (last - first) as usize;
        // Within few decades, 2 and 5 stand between the powers of ten.
        let marks: &[f64] = if decades * 2 < count { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = decades.div_ceil(count.max(1)).max(1);
        let all: Vec<f64> = (first..=last)
            .step_by(every)
            .flat_map(|power| marks.iter().map(move |mark| mark.log10() + f64::from(power)))
            .collect();
        // What lies beyond the marks next to the values is not drawn.
        let below = all.iter().copied().filter(|&tick| tick <= low.log10() + 1e-9);
        let above = all.iter().copied().filter(|&tick| tick >= high.log10() - 1e-9);
        let begin = below.fold(f64::from(first), f64::max);
        let end = above.fold(f64::from(last), f64::min);
        let end = if end > begin { end } else { begin + 1.0 };
        let ticks = all.into_iter().filter(|tick| (begin..=end).contains(tick)).collect();
        Scale { log: true, low: begin, high: end, ticks }
    }

    /// The place of a value; values beyond an end are drawn at it.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.log {
            true if value <= 0.0 => self.low,
            true => value.log10(),
            false => value,
        };
        place.clamp(self.low, self.high)
    }

    /// What is written at a tick.
    pub fn label(&self, tick: f64) -> String {
        short(if self.log { 10_f64.powf(tick) } else { tick })
    }
}

/// Whether a value has a place on an axis at all.
pub fn stands_on(axis: &Axis, value: f64) -> bool {
    value.is_finite() && (!axis.log || value > 0.0)
}

/// A number for an axis: at most four digits, and k, M, G for thousands.
pub fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 0.9999e9 => (value / 1e9, "G"),
        size if size >= 0.9999e6 => (value / 1e6, "M"),
        size if size >= 9_999.0 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{suffix}", digits(scaled, 3))
}

/// A number with so many significant digits at least, thousands apart by thin
/// spaces, and no zeros at its end that say nothing.
pub fn digits(value: f64, significant: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    if value.abs() < 1e-6 {
        return format!("{value:.1e}");
    }
    let decimals = (significant - 1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let fixed = format!("{value:.decimals$}");
    let (whole, part) = fixed.split_once('.').unwrap_or((&fixed, ""));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |rest| ("−", rest));
    let mut text = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && whole.len() > 4 && (whole.len() - index).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    match part.trim_end_matches('0') {
        "" => text,
        part => format!("{text}.{part}"),
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0];
    let found = steps.into_iter().find(|step| step * power >= least * (1.0 - 1e-9));
    found.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let scale = Scale::over(axis, values, false, 6);
        scale.ticks.iter().map(|&tick| scale.label(tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers_around_the_values() {
        let linear = Axis::linear("share", "%");
        assert_eq!(labels(&linear, &[0.0, 100.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&linear, &[3.0]), ["3", "3.5"]);
        assert_eq!(labels(&linear, &[]), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(&linear, &[-1.0, 1.0]), ["−1", "−0.5", "0", "0.5", "1"]);
        let log = Axis::log("users", "");
        assert_eq!(labels(&log, &[1.0, 1e6]), ["1", "10", "100", "1000", "10k", "100k", "1M"]);
        assert_eq!(labels(&log, &[64.0, 512.0]), ["50", "100", "200", "500", "1000"]);
        assert_eq!(labels(&log, &[0.0, -3.0, f64::NAN]), labels(&linear, &[]));
    }

    #[test]
    fn every_value_has_a_place_within_its_axis() {
        for log in [false, true] {
            let axis = Axis { log, ..Axis::default() };
            for values in [&[1e-9, 3e9][..], &[5.0], &[1e300, 1.0], &[0.2, 0.3], &[5e-324]] {
                let scale = Scale::over(&axis, values, true, 6);
                assert!(scale.low < scale.high && scale.ticks.len() >= 2, "{values:?} {scale:?}");
                for &value in values {
                    assert!((scale.low..=scale.high).contains(&scale.place(value)));
                }
            }
        }
    }

    #[test]
    fn numbers_are_written_for_people() {
        let texts = [0.0, 3e-9, 0.1234, 12.0, 1234.5].map(|value| digits(value, 3));
        assert_eq!(texts, ["0", "3.0e-9", "0.123", "12", "1234"]);
        assert_eq!(digits(-1_234_567.0, 3), "−1\u{2009}234\u{2009}567");
    }
}
