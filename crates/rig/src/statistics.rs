//! What repetitions say: means with intervals, percentiles, lines.
//!
//! Intervals are Student's, so a mean of few repetitions gets the wide interval it
//! deserves.

pub mod shift;

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The confidence of every interval in a results file.
pub const CONFIDENCE: f64 = 0.95;

/// The arithmetic mean; none of no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample variance, with n − 1 below; none of fewer than two values.
pub fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some(squares / (values.len() - 1) as f64)
}

/// The interval that holds the mean with `confidence` (0.95, say), by Student's
/// t; none of fewer than two values, which say nothing of how they vary.
pub fn interval(values: &[f64], confidence: f64) -> Option<[f64; 2]> {
    let (mean, variance) = (mean(values)?, variance(values)?);
    let half =
        quantile(confidence, (values.len() - 1) as f64)? * (variance / values.len() as f64).sqrt();
    Some([mean - half, mean + half])
}

/// The middle value; none of no values.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 50.0)
}

/// The value below which `percent` of the values lie, between neighbours in
/// proportion (type 7 of Hyndman and Fan); none of no values or outside 0 to 100.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    if values.is_empty() || !(0.0..=100.0).contains(&percent) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = percent / 100.0 * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

/// The interval that holds a number derived from repetitions with 95 %, by what it is
/// without each of them in turn (the jackknife of Quenouille and Tukey); none of fewer
/// than two repetitions.
pub fn jackknife(value: f64, without: &[f64]) -> Option<[f64; 2]> {
    let count = without.len() as f64;
    // The variance of what is left varies by 1 / (n − 1)² of the whole.
    let error = (variance(without)? * (count - 1.0).powi(2) / count).sqrt();
    let half = quantile(CONFIDENCE, count - 1.0)? * error;
    Some([value - half, value + half])
}

/// Draws of so many rounds with replacement, the same ones each time.
pub fn draws(rounds: usize, count: usize) -> Vec<Vec<usize>> {
    let mut random = fastrand::Rng::with_seed(rounds as u64);
    let mut draw = || (0..rounds).map(|_| random.usize(..rounds)).collect();
    (0..count).map(|_| draw()).collect()
}

/// The interval that holds a statistic with 95 %, by what it is of draws with replacement
/// (the percentile bootstrap of Efron); none of fewer than three different ones.
pub fn bootstrap(drawn: &[f64]) -> Option<[f64; 2]> {
    let mut different = drawn.to_vec();
    different.sort_by(f64::total_cmp);
    different.dedup();
    if different.len() < 3 {
        return None;
    }
    let half = (1.0 - CONFIDENCE) / 2.0 * 100.0;
    Some([percentile(drawn, half)?, percentile(drawn, 100.0 - half)?])
}

/// The p-values, raised so that the chance of even one false alarm among them all
/// stays that of one (Holm's step-down method), in the order given.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        least = least.max((p[index] * (p.len() - rank) as f64).min(1.0));
        adjusted[index] = least;
    }
    adjusted
}

/// A straight line by least squares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Its value at x = 0.
    pub intercept: f64,
    /// What it rises by for each unit of x.
    pub slope: f64,
    /// The share of the variance in y that it explains, 0 to 1.
    pub r2: f64,
}

impl Line {
    /// The line closest to `points` (x, y); none where all x are equal.
    pub fn through(points: &[(f64, f64)]) -> Option<Line> {
        let (xs, ys): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        let (x, y) = (mean(&xs)?, mean(&ys)?);
        let sum = |of: fn(f64, f64) -> f64| points.iter().map(|p| of(p.0 - x, p.1 - y)).sum();
        let (xx, xy, yy): (f64, f64, f64) =
            (sum(|dx, _| dx * dx), sum(|dx, dy| dx * dy), sum(|_, dy| dy * dy));
        if xx == 0.0 {
            return None;
        }
        let slope = xy / xx;
        // A level line through level points explains all there is.
        let r2 = if yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) };
        Some(Line { intercept: y - slope * x, slope, r2 })
    }
}

/// How many standard errors either side hold `confidence` of Student's t.
fn quantile(confidence: f64, freedom: f64) -> Option<f64> {
    if !(0.0..1.0).contains(&confidence) {
        return None;
    }
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.5 + confidence / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-3 * b.abs().max(1e-3)
    }

    #[test]
    fn an_interval_is_as_wide_as_the_table_of_t_says() {
        // t(0.975) is 12.706 with one degree of freedom, 2.262 with nine.
        let two = interval(&[1.0, 3.0], CONFIDENCE).unwrap();
        assert!(near(two[1] - 2.0, 12.706), "{two:?}");
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let [low, high] = interval(&ten, CONFIDENCE).unwrap();
        let half = 2.262 * (55.0 / 6.0 / 10.0_f64).sqrt();
        assert!(near(low, 5.5 - half) && near(high, 5.5 + half), "{low} {high}");
    }

    #[test]
    fn too_few_values_have_no_interval() {
        assert_eq!(mean(&[]), None);
        assert_eq!(interval(&[1.0], CONFIDENCE), None);
        assert_eq!(Line::through(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn percentiles_lie_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&values), Some(2.5));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&values, 100.0), Some(4.0));
        assert_eq!(percentile(&values, 101.0), None);
    }

    #[test]
    fn the_jackknife_of_a_mean_is_its_interval() {
        let values = [3.0, 5.0, 4.0, 8.0, 6.5];
        let without: Vec<f64> = (0..values.len())
            .map(|left| {
                let mut rest = values.to_vec();
                rest.remove(left);
                mean(&rest).unwrap()
            })
            .collect();
        let expected = interval(&values, CONFIDENCE).unwrap();
        let got = jackknife(mean(&values).unwrap(), &without).unwrap();
        assert!(near(got[0], expected[0]) && near(got[1], expected[1]), "{got:?} {expected:?}");
        assert_eq!(jackknife(1.0, &[1.0]), None);
    }

    #[test]
    fn the_bootstrap_of_a_median_lies_about_it() {
        let values: Vec<f64> = (0..30).map(|n| f64::from(n * n)).collect();
        let of = |draw: &Vec<usize>| {
            median(&draw.iter().map(|&at| values[at]).collect::<Vec<_>>()).unwrap()
        };
        let drawn: Vec<f64> = draws(values.len(), 400).iter().map(of).collect();
        let [low, high] = bootstrap(&drawn).unwrap();
        // Order statistics 10 and 21 of 30 hold the median with 95 %.
        assert!((49.0..=121.0).contains(&low), "{low}");
        assert!((324.0..=529.0).contains(&high), "{high}");
        assert_eq!(bootstrap(&[1.0, 1.0, 2.0]), None);
    }

    #[test]
    fn holm_raises_and_keeps_the_order() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (got, want) in adjusted.iter().zip(expected) {
            assert!(near(*got, want), "{adjusted:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn a_line_is_found_again() {
        let line = Line::through(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
        assert_eq!((line.intercept, line.slope, line.r2), (1.0, 2.0, 1.0));
        let bent = Line::through(&[(0.0, 1.0), (1.0, 3.0), (2.0, 1.0)]).unwrap();
        assert!(bent.r2 < 0.1);
    }
}
