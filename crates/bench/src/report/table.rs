//! Results as CSV, for other plotting tools.

use std::fmt::Write as _;

use crate::results::Results;

/// All points of an experiment, a row each: series, x, unit, mean, the interval,
/// how many repetitions, these apart by spaces, percentiles as `name=value`, the load that
/// was really sent by repetition, and `no` where it was not reached.
///
/// # Errors
/// Where the rows cannot be put together.
pub fn csv(results: &Results) -> Result<Vec<u8>, csv::Error> {
    let mut rows = csv::Writer::from_writer(Vec::new());
    rows.write_record([
        "series",
        "x_name",
        "x",
        "unit",
        "mean",
        "ci95_low",
        "ci95_high",
        "n",
        "raw",
        "percentiles",
        "sent",
        "reached",
    ])?;
    for series in &results.series {
        for point in &series.points {
            let bound = |side: usize| point.ci95.map_or(String::new(), |ci| ci[side].to_string());
            let mut percentiles = String::new();
            for (name, value) in &point.percentiles {
                let gap = if percentiles.is_empty() { "" } else { " " };
                // Writing to a string does not fail.
                let _ = write!(percentiles, "{gap}{name}={value}");
            }
            let apart = |numbers: &[f64]| -> String {
                numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
            };
            let reached = if point.short { "no" } else { "" };
            rows.write_record([
                &series.name,
                &series.x,
                &point.x.to_string(),
                &series.unit,
                &point.mean.to_string(),
                &bound(0),
                &bound(1),
                &point.n.to_string(),
                &apart(&point.raw),
                &percentiles,
                &apart(&point.sent),
                reached,
            ])?;
        }
    }
    rows.into_inner().map_err(|error| error.into_error().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::results::{Point, Series};

    #[test]
    fn every_point_is_a_row_and_names_may_hold_commas() {
        let mut results = Results::new("users", Machine::default());
        let mut series = Series::new("weft, call", "users", "Mpps");
        series.points.push(Point::of(10, vec![1.0, 3.0]).unwrap());
        let point = Point::of("many", vec![2.0]).unwrap();
        series.points.push(point.with_percentiles([("p50", 1.5), ("max", 9.0)]));
        results.series.push(series);
        let text = String::from_utf8(csv(&results).unwrap()).unwrap();
        let rows: Vec<_> = text.lines().collect();
        assert_eq!(rows.len(), 3);
        assert!(rows[1].starts_with("\"weft, call\",users,10,Mpps,2,-10.7"), "{}", rows[1]);
        assert_eq!(rows[2], "\"weft, call\",users,many,Mpps,2,,,1,2,max=9 p50=1.5,,");
    }
}
