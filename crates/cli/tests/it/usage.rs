//! What needs no node: usage, check, schema.

use crate::common::{TestFolder, node};

#[test]
fn a_wrong_command_line_is_told_in_one_line() {
    let place = TestFolder::new();
    place.run(&["rum"]).refused(&["weft: ", "rum", "run"]);
    place.run(&["run"]).refused(&["weft: ", "NODE.yaml"]);
    place.run(&["run", "x.yaml", "--cores", "2-"]).refused(&["weft: ", "2-"]);
    place.run(&["replay", "x.yaml", "--in", "access"]).refused(&["weft: ", "PORT=FILE"]);
    place.run(&["show", "users", "ue-1", "--count", "3"]).refused(&["weft: "]);
}

#[test]
fn help_lists_the_commands() {
    let help = TestFolder::new().run(&["--help"]).succeeded();
    for command in
        ["run", "check", "replay", "show", "trace", "capture", "ctl", "compare", "schema"]
    {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{help}");
    }
}

#[test]
fn check_prints_the_paths() {
    let place = TestFolder::new();
    place.write("node.yaml", node("a", "net_null0", "net_null1"));
    let paths = place.run(&["check", "node.yaml"]).succeeded();
    assert!(paths.contains("-> count -> guard -> core"), "{paths}");
    assert!(paths.contains("-> count -> guard -> access"), "{paths}");
}

#[test]
fn check_names_line_and_column_of_a_mistake() {
    let place = TestFolder::new();
    let right = node("a", "net_null0", "net_null1");
    for (word, wrong, hint) in [
        ("counter", "conter", "counter"),
        ("direction: uplink", "direction: up", "uplink"),
        ("from access -> full", "from acess -> full", "access"),
    ] {
        let text = right.replacen(word, wrong, 1);
        let line = 1 + text.lines().position(|line| line.contains(wrong)).expect("it is there");
        place.write("node.yaml", &text);
        let ended = place.run(&["check", "node.yaml"]);
        assert_eq!(ended.out, "");
        ended.refused(&[&format!("node.yaml:{line}:"), hint]);
    }
}

/// A file may be checked on another machine than its node's, so these are no mistakes.
#[test]
fn check_warns_of_cores_and_interfaces_that_are_not_there() {
    let place = TestFolder::new();
    let node = node("a", "net_af_packet0,iface=weft-none0", "net_tap0,iface=weft-none1");
    let text = node.replacen("ports:", "workers: {cores: [1023]}\nports:", 1);
    let line = |words: &str| 1 + text.lines().position(|line| line.contains(words)).unwrap();
    place.write("node.yaml", &text);
    let ended = place.run(&["check", "node.yaml"]);
    let (core, device) = (line("cores"), line("weft-none0"));
    assert!(ended.err.contains(&format!("node.yaml:{core}:")), "{}", ended.err);
    assert!(ended.err.contains("this machine has no core 1023"), "{}", ended.err);
    assert!(ended.err.contains(&format!("node.yaml:{device}:")), "{}", ended.err);
    assert!(ended.err.contains("this machine has no network interface weft-none0"));
    // The driver makes it.
    assert!(!ended.err.contains("weft-none1"), "{}", ended.err);
    ended.succeeded();
}

#[test]
fn version_is_told_by_a_command_and_by_a_flag() {
    let place = TestFolder::new();
    for word in ["version", "--version"] {
        let version = place.run(&[word]).succeeded();
        assert_eq!(version, concat!("weft ", env!("CARGO_PKG_VERSION"), "\n"));
    }
}

/// A controller of two nodes.
const CONTROLLER: &str = include_str!("../../../../examples/controller.yaml");

#[test]
fn check_reads_several_files_and_tells_the_mistakes_of_all() {
    let place = TestFolder::new();
    let right = node("a", "net_null0", "net_null1");
    place.write("right.yaml", &right);
    place.write("site.yaml", CONTROLLER);
    let out = place.run(&["check", "right.yaml", "site.yaml"]).succeeded();
    let heads: Vec<_> = out.lines().filter(|line| line.ends_with(".yaml:")).collect();
    assert_eq!(heads, ["right.yaml:", "site.yaml:"]);
    assert!(out.contains("-> count -> guard -> core") && out.contains("controller "), "{out}");

    place.write("one.yaml", right.replace("counter", "conter"));
    place.write("two.yaml", right.replace("uplink\n    mac", "up\n    mac"));
    let ended = place.run(&["check", "one.yaml", "right.yaml", "two.yaml"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.out.contains("right.yaml:\n") && ended.out.contains("guard -> core"));
    for file in ["one.yaml:", "two.yaml:"] {
        assert_eq!(ended.err.lines().filter(|line| line.starts_with(file)).count(), 1, "{ended:?}");
    }
}

#[test]
fn check_reads_standard_input() {
    let place = TestFolder::new();
    let right = node("a", "net_null0", "net_null1");
    place.write("right.yaml", &right);
    place.write("wrong.yaml", right.replace("counter", "conter"));
    let check = |file: &str| {
        let file = std::fs::File::open(place.path(file)).expect("it was written");
        place.weft(&["check", "-"]).stdin(file).output().expect("it runs")
    };
    let ended = check("right.yaml");
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.stdout, place.run(&["check", "right.yaml"]).succeeded().as_bytes());
    let ended = check("wrong.yaml");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!((ended.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.starts_with("<stdin>:") && said.contains("counter"), "{said}");
    place.run(&["check", "-", "-"]).refused(&["weft: standard input"]);
}

/// The reader of both outputs ends early, as `head` does.
#[test]
fn check_ends_well_when_no_one_reads() {
    let place = TestFolder::new();
    place.write("wrong.yaml", "kind: Node\n");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = place.weft(&["check", "wrong.yaml"]);
    command.stdout(writer.try_clone().expect("a copy")).stderr(writer);
    let mut child = command.spawn().expect("it runs");
    drop((command, reader));
    assert_eq!(child.wait().expect("it ends").code(), Some(2));
}

#[test]
fn check_tells_programs_as_json() {
    let place = TestFolder::new();
    let right = node("a", "net_null0", "net_null1");
    place.write("right.yaml", &right);
    place.write("wrong.yaml", right.replace("counter", "conter"));
    place.write("site.yaml", CONTROLLER);
    let ended = place.run(&["check", "--json", "right.yaml", "wrong.yaml", "site.yaml"]);
    assert_eq!(ended.code, Some(2));
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    let files = report["files"].as_array().expect("a list");
    let all = |field: &str| files.iter().map(|file| file[field].clone()).collect::<Vec<_>>();
    assert_eq!(all("file"), ["right.yaml", "wrong.yaml", "site.yaml"]);
    assert_eq!(all("right"), [true, false, true]);
    assert_eq!(all("kind"), ["Node".into(), serde_json::Value::Null, "Controller".into()]);
    assert_eq!(files[0]["name"], "a");
    assert_eq!(files[0]["paths"], place.run(&["check", "right.yaml"]).succeeded());
    assert_eq!(files[0]["mistakes"], serde_json::json!([]));
    let mistake = &files[1]["mistakes"][0];
    let line = 1 + right.lines().position(|line| line.contains("counter")).expect("a counter");
    assert_eq!((&mistake["file"], &mistake["line"]), (&"wrong.yaml".into(), &line.into()));
    assert!(mistake["hint"].as_str().is_some_and(|hint| hint.contains("counter")), "{mistake}");
    assert!(files[2]["nodes"].as_u64() > Some(0), "{report}");
}

#[test]
fn a_file_of_another_kind_is_told_with_the_command_that_reads_it() {
    let place = TestFolder::new();
    for (file, command) in [
        ("model-gateway.yaml", "weft model"),
        ("profile.yaml", "weft generate"),
        ("controller.yaml", "weft control"),
        ("smf.yaml", "weft smf"),
    ] {
        let path = format!("{}/../../examples/{file}", env!("CARGO_MANIFEST_DIR"));
        place.run(&["run", &path]).refused(&[&format!("`{command}` reads this file")]);
    }
}

#[test]
fn a_profile_of_a_control_plane_is_checked() {
    let place = TestFolder::new();
    let path = format!("{}/../../examples/smf.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = place.run(&["check", &path]).succeeded();
    let line = "control plane thousand-sessions: 127.0.0.2:8805 drives 127.0.0.1:8805, 1000 \
                sessions of 2 PDRs, 2 FARs, 1 QER, 1 URR, 2000 requests a second for 5 s\n";
    assert_eq!(text, line);
    let wrong = std::fs::read_to_string(&path).expect("the example").replace("far: 1,", "far: 9,");
    place.write("wrong.yaml", wrong);
    place.run(&["check", "wrong.yaml"]).refused(&["wrong.yaml:29:", "9"]);
}

#[test]
fn a_configuration_that_is_not_there_is_a_mistake_of_the_file() {
    TestFolder::new().run(&["check", "no.yaml"]).refused(&["no.yaml:1:1: "]);
    TestFolder::new().run(&["run", "no.yaml"]).refused(&["no.yaml:1:1: "]);
}

#[test]
fn schemas_are_json_and_name_the_functions() {
    let place = TestFolder::new();
    let schema: serde_json::Value =
        serde_json::from_str(&place.run(&["schema"]).succeeded()).expect("JSON");
    assert!(schema["properties"]["ports"].is_object());
    let list = place.run(&["schema", "functions"]).succeeded();
    let names: Vec<_> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"counter") && names.contains(&"marker"), "{names:?}");
    for name in names {
        let schema = place.run(&["schema", "function", name]).succeeded();
        let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
        assert_eq!(schema["function"], name);
        assert!(schema["config"]["$schema"].is_string(), "{schema}");
    }
    place.run(&["schema", "function", "nothing"]).refused(&["nothing", "counter"]);
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let place = TestFolder::new();
    place.run(&["manual", "man"]).succeeded();
    let page = |name: &str| place.read(&format!("man/{name}.1"));
    for name in ["weft", "weft-run", "weft-ctl", "weft-ctl-bearer-add", "weft-show-users"] {
        assert!(page(name).contains(&format!(".TH {name} 1")), "{}", page(name));
    }
    let run = page("weft-run");
    assert!(run.contains("WEFT_METRICS") && run.contains("Processor core of each worker"), "{run}");
    let unwritable = place.write("file", "");
    let path = unwritable.to_str().expect("UTF-8");
    place.run(&["manual", path]).refused(&["weft: ", path]);
}

#[test]
fn shells_can_complete_commands() {
    let place = TestFolder::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completions", shell]).succeeded();
        assert!(script.contains("handover") && script.contains("log-format"), "{script}");
        place.write("weft.completion", script);
        // Whether the shell can read it, where there is that shell.
        let mut reader = std::process::Command::new(shell);
        reader.args(["-n", "weft.completion"]).current_dir(place.path("."));
        if let Ok(read) = reader.output() {
            assert!(read.status.success(), "{read:?}");
        }
    }
    place.run(&["completions", "cmd"]).refused(&["weft: ", "cmd", "bash"]);
}

#[test]
fn the_log_is_json_where_that_is_asked_for() {
    let place = TestFolder::new();
    place.write("node.yaml", node("a", "net_null0", "net_null1").replace("counter", "conter"));
    for arguments in
        [["--log-format=json", "run", "node.yaml"], ["run", "--log-format=json", "no.yaml"]]
    {
        let ended = place.run(&arguments);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        for line in ended.err.lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(line["level"], "ERROR");
            assert!(line["message"].as_str().is_some_and(|text| text.contains(".yaml:")), "{line}");
        }
        assert!(!ended.err.is_empty());
    }
    place.run(&["--log-format", "xml", "version"]).refused(&["weft: ", "xml", "journald"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = TestFolder::new();
    let mut command = place.weft(&["schema"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = command.stdout(writer).output().expect("it runs");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stderr.is_empty(), "{ended:?}");
}
