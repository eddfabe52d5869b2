//! The report of results of every kind, also of odd ones.

use std::fs;
use std::path::Path;

use weft_bench::machine::Machine;
use weft_bench::report;
use weft_bench::results::{
    Abscissa, Axis, BarLabel, Figure, FigureKind, PaperValue, Point, Results, Series, Shape,
};

fn series(name: &str, points: impl IntoIterator<Item = (Abscissa, f64)>) -> Series {
    let mut series = Series::new(name, "x", "Mpps");
    let point = |(x, mean): (Abscissa, f64)| Point::of(x, vec![mean * 0.9, mean, mean * 1.1]);
    series.points = points.into_iter().map(|at| point(at).expect("it is finite")).collect();
    series
}

fn figure(name: &str, kind: FigureKind, log: bool, series: &[&str]) -> Figure {
    let axis = |label: &str| Axis { log, ..Axis::linear(label, "Mpps") };
    Figure {
        name: name.to_owned(),
        title: format!("Title of {name}"),
        caption: "A caption".to_owned(),
        kind,
        x: axis("offered load"),
        y: axis("goodput"),
        series: series.iter().map(|&name| name.to_owned()).collect(),
        baselines: vec!["dpdk-testpmd macswap".to_owned()],
        paper: vec!["weft".to_owned()],
        marks: Vec::new(),
        bar_labels: Vec::new(),
    }
}

/// A point with percentiles, and one without.
fn boxes() -> Series {
    let mut series = series("boxes", [(64.0.into(), 3.0), (128.0.into(), 5.0)]);
    let percentiles = [("p5", 0.5), ("p25", 2.0), ("p75", 40.0), ("p95", 900.0)];
    series.points[0] = series.points[0].clone().with_percentiles(percentiles);
    series
}

/// Lines and bars, linear and logarithmic, with zeros, large numbers, long names
/// and nothing at all.
fn results() -> Results {
    let mut results = Results::new("sample", Machine::without_packets());
    let line = |factor: f64| (0..20).map(move |x| (f64::from(x * x).into(), f64::from(x) * factor));
    results.series = vec![
        series("weft", line(1.0)),
        series("dpdk-testpmd macswap", line(1e7)),
        series("<script>alert(1)</script>", line(1e-7)),
        series("bars", ["kernel forwarding", "AF_XDP"].map(|name| (name.into(), 3.0))),
        boxes(),
        series("empty", []),
    ];
    let lines = ["weft", "dpdk-testpmd macswap", "<script>alert(1)</script>"];
    results.figures = vec![
        figure("lines", FigureKind::Lines, false, &lines),
        figure("lines-log", FigureKind::Lines, true, &lines),
        figure("bars", FigureKind::Bars, false, &["bars", "weft"]),
        figure("grouped", FigureKind::Grouped, true, &["bars"]),
        Figure {
            bar_labels: vec![BarLabel {
                series: "bars".to_owned(),
                x: "AF_XDP".into(),
                text: "97 %".to_owned(),
            }],
            ..figure("bar-labels", FigureKind::Bars, true, &["bars"])
        },
        figure("boxes", FigureKind::Boxes, true, &["boxes", "weft"]),
        figure("nothing", FigureKind::Lines, true, &["empty", "not there"]),
        figure("no-bars", FigureKind::Bars, false, &["empty"]),
    ];
    results.paper = [Some(4.0.into()), None, Some("AF_XDP".into())]
        .map(|x| PaperValue { name: "weft".to_owned(), x, value: 7.0, source: String::new() })
        .to_vec();
    results.says = "At 1 < 2 & 3 it rises.".to_owned();
    results.derive("rate", 0.25);
    results
}

#[test]
fn nothing_is_cut_in_any_drawing() {
    let directory = tempfile::tempdir().unwrap();
    report::write(directory.path(), &[results()]).unwrap();
    for figure in results().figures {
        let svg = fs::read_to_string(directory.path().join(format!("sample/{}.svg", figure.name)));
        everything_lies_within(&svg.unwrap());
    }
    let page = fs::read_to_string(directory.path().join(report::PAGE_NAME)).unwrap();
    let mut drawings = 0;
    for part in page.split("<svg").skip(1) {
        let end = part.find("</svg>").expect("it ends");
        everything_lies_within(&format!("<svg{}</svg>", &part[..end]));
        drawings += 1;
    }
    assert_eq!(drawings, 2 * results().figures.len(), "one for screens, one for phones");
}

/// Text is measured as wide as a wide font has it.
fn everything_lies_within(svg: &str) {
    let document = roxmltree::Document::parse(svg).expect("it is well-formed");
    let root = document.root_element();
    let number = |node: roxmltree::Node, name: &str| -> f64 {
        node.attribute(name).and_then(|text| text.parse().ok()).expect(name)
    };
    let (width, height) = (number(root, "width"), number(root, "height"));
    for text in root.descendants().filter(|node| node.has_tag_name("text")) {
        let words = text.text().unwrap_or_default().trim();
        let long = words.chars().count() as f64 * number(text, "font-size") / 1.24 * 0.6;
        let (x, y) = (number(text, "x"), number(text, "y"));
        if text.attribute("transform").is_some_and(|turn| turn.contains("rotate")) {
            assert!(
                y - long >= 0.0 && y <= height && (0.0..=width).contains(&x),
                "`{words}` at {y}"
            );
            continue;
        }
        let left = match text.attribute("text-anchor") {
            Some("middle") => x - long / 2.0,
            Some("end") => x - long,
            _ => x,
        };
        let inside = left >= -2.0 && left + long <= width + 2.0 && (0.0..=height).contains(&y);
        assert!(inside, "`{words}` from {left} to {} of {width}, {y} of {height}", left + long);
    }
    for circle in root.descendants().filter(|node| node.has_tag_name("circle")) {
        let (x, y) = (number(circle, "cx"), number(circle, "cy"));
        assert!((0.0..=width).contains(&x) && (0.0..=height).contains(&y));
    }
}

#[test]
fn the_page_stands_alone_and_escapes_what_it_shows() {
    let page = report::page(&[results()]).unwrap();
    assert!(!page.contains("<script"), "names are text");
    assert!(page.contains("At 1 &lt; 2 &amp; 3 it rises."));
    for outside in ["src=", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "it needs nothing else: {outside}");
    }
    assert!(page.contains("href=\"#sample\"") && page.contains("id=\"sample\""));
    assert!(page.contains("Points that a logarithmic axis has no place for: 3."));
}

#[test]
fn a_report_that_cannot_be_written_is_told_in_one_line() {
    let error = report::write(Path::new("/dev/null/out"), &[results()]).unwrap_err().to_string();
    assert!(error.starts_with("cannot write /dev/null/out/sample/results.json: "), "{error}");
    assert!(!error.contains('\n'));
}

#[test]
fn an_interrupted_run_is_said_to_be_one() {
    let mut partial = results();
    partial.complete = false;
    assert!(report::page(&[partial]).unwrap().contains("Interrupted"));
    assert!(!report::page(&[results()]).unwrap().contains("Interrupted"));
}

#[test]
fn the_first_page_has_what_papers_state_and_what_is_missing() {
    let mut quick = Results { experiment: "users".to_owned(), ..results() };
    quick.parameters.insert("effort".to_owned(), "quick".into());
    let paper = "The rate falls.".to_owned();
    quick.shape = Some(Shape { paper, ours: Some("it fell".to_owned()), holds: Some(true) });
    let page = report::page(&[quick]).unwrap();
    let first = page.split("<nav").next().unwrap();
    for expected in
        ["The rate falls.", "it fell.", "The shape holds.", "(quick)", "href=\"#users\""]
    {
        assert!(first.contains(expected), "{expected}");
    }
    let missing = first.split("Not in this report: ").nth(1).expect("others are missing");
    assert!(missing.contains("handover") && !missing.contains("users"), "{missing}");
    // Without a shape of a paper there is nothing to miss.
    assert!(!report::page(&[results()]).unwrap().contains("Not in this report"));
}
