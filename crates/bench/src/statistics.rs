//! What repetitions say: means with intervals, percentiles, differences, lines.
//!
//! Intervals are Student's, so a mean of few repetitions gets the wide interval it
//! deserves. Two sets of repetitions are compared by Welch's test, which does not
//! suppose that both vary alike.

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

/// The difference of two means, by Welch's test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The second mean less the first.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom, by Welch and Satterthwaite.
    pub freedom: f64,
    /// How likely a difference at least so large is when the means are equal.
    pub p: f64,
}

impl Difference {
    /// `after` less `before`; none where either has fewer than two values.
    pub fn between(before: &[f64], after: &[f64]) -> Option<Difference> {
        let difference = mean(after)? - mean(before)?;
        let (count_a, count_b) = (before.len() as f64, after.len() as f64);
        let (a, b) = (variance(before)? / count_a, variance(after)? / count_b);
        let error = (a + b).sqrt();
        if error == 0.0 {
            // Nothing varies: any difference is certain.
            let (freedom, p) = (count_a + count_b - 2.0, f64::from(difference == 0.0));
            return Some(Difference { mean: difference, error, freedom, p });
        }
        let freedom = (a + b).powi(2) / (a.powi(2) / (count_a - 1.0) + b.powi(2) / (count_b - 1.0));
        let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
        let p = 2.0 * t.cdf(-(difference / error).abs());
        Some(Difference { mean: difference, error, freedom, p })
    }

    /// The interval that holds the difference with `confidence`.
    pub fn interval(&self, confidence: f64) -> [f64; 2] {
        let half = match quantile(confidence, self.freedom) {
            Some(t) if self.error > 0.0 => t * self.error,
            _ => 0.0,
        };
        [self.mean - half, self.mean + half]
    }
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
        assert_eq!(Difference::between(&[1.0], &[1.0, 2.0]), None);
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
    fn welch_agrees_with_a_worked_example() {
        // Reference values by SciPy's ttest_ind(equal_var=False).
        let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1];
        let difference = Difference::between(&a, &b).unwrap();
        assert!(near(difference.mean, 2.2333), "{difference:?}");
        assert!(near(difference.p, 0.0504), "{difference:?}");
        assert!(near(difference.freedom, 18.938), "{difference:?}");
        let [low, high] = difference.interval(CONFIDENCE);
        assert!(low < 2.2333 && 2.2333 < high);
    }

    #[test]
    fn equal_constants_do_not_differ_and_unequal_ones_do() {
        assert_eq!(Difference::between(&[2.0, 2.0], &[2.0, 2.0]).unwrap().p, 1.0);
        assert_eq!(Difference::between(&[2.0, 2.0], &[3.0, 3.0]).unwrap().p, 0.0);
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
