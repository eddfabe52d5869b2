//! Numbers as people read them.

/// A whole number, its thousands set apart: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun: `1 user`, `20 users`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {}", plural(number, noun))
}

/// The noun as it stands behind a number.
pub fn plural(number: u64, noun: &str) -> String {
    format!("{noun}{}", if number == 1 { "" } else { "s" })
}

/// A part of one: `99.8 %`.
pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// A bit rate with three digits or so: `848 kbit/s`.
pub fn rate(bits: u64) -> String {
    format!("{}bit/s", scaled(bits))
}

/// Packets per second with three digits or so: `1.00 Mpps`.
pub fn packet_rate(packets: u64) -> String {
    format!("{}pps", scaled(packets))
}

/// A number and the prefix of its unit.
fn scaled(number: u64) -> String {
    let value = number as f64;
    let (value, prefix) = match number {
        0..1_000 => return format!("{number} "),
        1_000..1_000_000 => (value / 1e3, 'k'),
        1_000_000..1_000_000_000 => (value / 1e6, 'M'),
        _ => (value / 1e9, 'G'),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {prefix}")
}

/// Nanoseconds as microseconds: `12.3`.
pub fn microseconds(nanoseconds: u64) -> String {
    format!("{:.1}", nanoseconds as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let texts = [0, 999, 1_000, 12_345, 1_234_567].map(count);
        assert_eq!(texts, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn one_is_singular_and_nothing_is_plural() {
        let texts = [0, 1, 2, 1000].map(|number| counted(number, "user"));
        assert_eq!(texts, ["0 users", "1 user", "2 users", "1000 users"]);
    }

    #[test]
    fn rates_have_the_unit_that_suits_them() {
        let texts = [0, 999, 1_000, 12_340, 848_000, 1_500_000, 10_000_000_000].map(rate);
        let right = ["0 ", "999 ", "1 k", "12.3 k", "848 k", "1.5 M", "10 G"];
        assert_eq!(texts, right.map(|text| format!("{text}bit/s")));
        assert_eq!(packet_rate(999_999), "1000 kpps");
    }

    #[test]
    fn parts_and_delays() {
        assert_eq!((percent(0.9876), percent(1.0)), ("98.8 %".into(), "100.0 %".into()));
        assert_eq!(microseconds(12_345), "12.3");
    }
}
