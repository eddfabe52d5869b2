//! `weft compare`, on results that a test writes.

use crate::common::TestFolder;
use weft_bench::machine::Machine;
use weft_bench::results::{Point, Results, Series};

/// Results of one experiment with one point of ten repetitions around `rate`.
fn results(experiment: &str, rate: f64) -> Results {
    let mut results = Results::new(experiment, Machine::default());
    let mut series = Series::new("weft", "users", "Mpps");
    let raw = (0..10).map(|number| rate * (1.0 + 0.002 * f64::from(number - 5))).collect();
    series.points.push(Point::of(1000, raw).expect("they are finite"));
    results.series.push(series);
    results.derive("rate", rate);
    results
}

fn place(runs: &[(&str, f64)]) -> TestFolder {
    let place = TestFolder::new();
    for (run, rate) in runs {
        for experiment in ["chain-mix", "users"] {
            let directory = place.path(run).join(experiment);
            results(experiment, *rate).write(&directory).expect("the folder is ours");
        }
    }
    place
}

#[test]
fn two_runs_alike_have_no_difference() {
    let place = place(&[("a", 5.0), ("b", 5.001)]);
    let text = place.run(&["compare", "a", "b"]).succeeded();
    assert!(text.ends_with("no difference\n"), "{text}");
    assert!(text.contains("chain-mix") && text.contains("weft, users = 1000"), "{text}");
    place.run(&["compare", "a/users/results.json", "b/users"]).succeeded();
}

#[test]
fn a_regression_is_exit_code_1() {
    let place = place(&[("a", 5.0), ("b", 4.5)]);
    let ended = place.run(&["compare", "a", "b"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.out.contains("regression") && ended.out.contains("-10.0 %"), "{}", ended.out);
    assert_eq!(ended.err.trim(), "weft: 2 regressions");
    let text = place.run(&["compare", "b", "a"]).succeeded();
    assert!(text.contains("regressions: 0, improved: 2"), "{text}");
    place.run(&["compare", "a", "b", "--relevant", "20"]).succeeded();
}

#[test]
fn what_is_not_ours_is_told_in_one_line() {
    let place = place(&[("a", 5.0)]);
    place.write("capture.pcap", [0xd4, 0xc3, 0xb2, 0xa1]);
    place.write("other.json", "{\"schema\": \"someone/else\"}");
    place.run(&["compare", "a", "capture.pcap"]).refused(&["weft: capture.pcap is not a results"]);
    place.run(&["compare", "other.json", "a"]).refused(&["someone/else", "weft/results/v1"]);
    place.run(&["compare", "a", "nowhere"]).refused(&["weft: cannot read nowhere"]);
    place.run(&["compare", "a", "."]).refused(&["there is no results.json in it"]);
    place.run(&["compare", "a/users", "a/chain-mix"]).refused(&["nothing in common"]);
    place.run(&["compare", "a", "a", "--relevant", "x"]).refused(&["from 0 to 100"]);
}
