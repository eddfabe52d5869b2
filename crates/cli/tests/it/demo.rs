//! `weft demo` as a newcomer runs it: every check passes, on any machine and
//! under any load.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, process};

use serde_json::Value;

/// One demo at a time: there are few cores.
static ONE: Mutex<()> = Mutex::new(());

/// Runs `weft demo` with these words behind it and `launcher` in front.
fn demo(launcher: &[&str], words: &[&str]) -> Output {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = launcher.to_vec();
    command.extend([env!("CARGO_BIN_EXE_weft"), "demo"]);
    command.extend(words);
    Command::new(command[0]).args(&command[1..]).output().expect("the program starts")
}

/// Runs `weft demo`, for a second unless `words` say otherwise, expects that all its checks pass, and returns
/// what it wrote as JSON.
fn passing(name: &str, launcher: &[&str], words: &[&str]) -> Value {
    let (file, page) = (scratch(name), scratch(&format!("{name}-page")));
    let paths = [&file, &page].map(|path| path.to_str().expect("a path in UTF-8"));
    let files = ["--json", paths[0], "--html", paths[1]];
    let second = if words.contains(&"--seconds") { &[][..] } else { &["--seconds", "1"] };
    let output = demo(launcher, &[&files, second, words].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let verdicts = text.lines().filter(|line| line.starts_with("ok ")).count();
    let report: Value = serde_json::from_slice(&fs::read(&file).expect("a report")).expect("JSON");
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.starts_with("<!DOCTYPE html>") && html.matches("<svg").count() >= 4);
    assert!(text.trim_end().ends_with(&format!("report: {}", paths[1])), "{text}");
    fs::remove_file(&file).and_then(|()| fs::remove_file(&page)).expect("the reports are ours");
    let checks = report["checks"].as_array().expect("checks");
    assert_eq!((verdicts, report["passed"].as_bool()), (checks.len(), Some(true)), "{text}");
    assert!(checks.len() >= 12 && checks.iter().all(|check| check["passed"] == true), "{text}");
    report
}

fn scratch(name: &str) -> PathBuf {
    env::temp_dir().join(format!("weft-demo-{}-{name}.json", process::id()))
}

/// The sum of a field over a list.
fn sum(list: &Value, field: &str) -> u64 {
    list.as_array().into_iter().flatten().filter_map(|item| item[field].as_u64()).sum()
}

/// What packets cost in each stage and function, at the demo's load and at full bursts.
fn costs(report: &Value) -> impl Iterator<Item = &Value> {
    let costs = [&report["cost"], &report["capacity"]["cost"]].into_iter();
    let parts = costs.flat_map(|cost| [&cost["stages"], &cost["functions"]]);
    parts.flat_map(|parts| parts.as_array().expect("parts"))
}

#[test]
fn its_report_adds_up() {
    let is_whole = |report: &Value| {
        sum(&report["drops"], "packets") > 0
            && costs(report).all(|part| part["cycles_per_packet"].as_f64() > Some(0.0))
    };
    // Beside other programs it takes longer until users have sent more than their rate, and until
    // each stage has had the core for a burst that is in the sample.
    let mut reports = ["1", "3", "9"].map(|seconds| ["--seconds", seconds]).into_iter();
    let report = reports.find_map(|words| Some(passing("whole", &[], &words)).filter(is_whole));
    let report = report.expect("some users send more than their rate, and all has its cost");
    let (streams, drops) = (&report["streams"], &report["drops"]);
    let sent = sum(streams, "sent");
    assert!(sent > 1000);
    assert_eq!(sent, sum(streams, "delivered") + sum(drops, "packets"));
    assert_eq!(report["throughput"]["sent"], sent);
    let handover = &report["handover"];
    assert_eq!((&handover["lost"], &handover["reordered"]), (&0.into(), &0.into()));
    assert!(handover["sent"].as_u64() > Some(0) && handover["phases"][6]["name"] == "complete");
    assert_eq!((sum(streams, "users"), &report["setup"]["users"]), (2000, &1000.into()));
    let sessions = &report["sessions"];
    let of = |field: &str| sessions[field].as_array().expect("up and down");
    assert_eq!((sessions["sessions"].as_u64(), sessions["left"].as_u64()), (Some(1000), Some(0)));
    assert!(of("delivered").iter().all(|packets| packets.as_u64() > Some(0)), "{sessions}");
    assert_eq!(sessions["failed"], 0);
    assert!(sessions["end_markers"].as_u64() > Some(0), "{sessions}");
    let reasons: Vec<_> =
        drops.as_array().into_iter().flatten().map(|one| &one["reason"]).collect();
    assert!(reasons.contains(&&"marker_red".into()), "{reasons:?}");
    let capacity = &report["capacity"];
    assert!(capacity["sent"].as_u64() > Some(1000) && capacity["sent"] == capacity["delivered"]);
    assert!(capacity["packets_per_second"].as_f64() > Some(1000.0), "{capacity}");
    let packets_per_burst = capacity["cost"]["packets_per_burst"].as_f64();
    assert!((31.0..=32.0).contains(&packets_per_burst.expect("a number")), "{capacity}");
    assert!(costs(&report).count() > 10, "{capacity}");
}

#[test]
fn one_core_is_enough() {
    let status = fs::read_to_string("/proc/self/status").expect("a process has a status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let core = list.and_then(|list| list.trim().split(['-', ',']).next()).expect("a core");
    let report = passing("one-core", &["taskset", "-c", core], &["--users", "50"]);
    assert_eq!(report["setup"]["threads"], false);
}

#[test]
fn an_overload_is_accounted_for_as_well() {
    let report = passing("overload", &[], &["--rate", "100000000", "--users", "100"]);
    let missed = report["drops"].as_array().expect("drops").iter();
    let missed = missed.filter(|drop| drop["reason"] == "rx_missed").count() as u64;
    let unsent = report["throughput"]["unsent"].as_u64().expect("a number");
    assert!(missed + unsent > 0, "{report}");
    let of = |field: &str| report["throughput"][field].as_u64().expect("a number");
    assert_eq!(unsent, of("late") + of("refused"));
}

#[test]
fn what_cannot_be_done_is_one_line_and_exit_code_2() {
    for words in [&["--users", "0"][..], &["--seconds", "x"], &["--rate"]] {
        let output = demo(&[], words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
    }
}
