//! `weft check`: is a configuration right, and where do a node's packets go?

mod devices;
mod machine;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weft_functions::KINDS;
use weft_management_api::api::Mistake;
use weft_mobility_controller::config::Configuration;
use weft_node_config as config;
use weft_smf::Profile;
use weft_yaml::locate::Source;
use weft_yaml::mistake::{Mistake as Mistaken, Mistakes, Position};

use super::serve;
use crate::failure::Failure;
use crate::number::counted;
use crate::{node_file, output};

#[derive(clap::Args)]
pub struct Arguments {
    /// Configurations of nodes and controllers, profiles of control planes; - for standard input
    #[arg(value_name = "FILE.yaml", required = true)]
    files: Vec<PathBuf>,
    /// Ask the devices of a node, on this machine, what they can do, and say what will be used
    #[arg(long)]
    devices: bool,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Report {
    /// In the order in which they were named.
    files: Vec<Checked>,
}

/// One configuration.
#[derive(Serialize)]
struct Checked {
    file: String,
    /// Whether it has no mistakes.
    right: bool,
    #[serde(flatten)]
    found: Option<Found>,
    mistakes: Vec<Mistake>,
    /// What is probably not meant.
    warnings: Vec<Mistake>,
}

/// What a configuration describes.
#[derive(Serialize)]
#[serde(tag = "kind")]
enum Found {
    Node {
        name: String,
        /// The compiled paths, as `weft show paths` prints them.
        paths: String,
    },
    Controller {
        name: String,
        nodes: usize,
        users: u64,
        #[serde(skip)]
        text: String,
    },
    /// A profile of `weft smf`.
    ControlPlane {
        name: String,
        sessions: u32,
        #[serde(skip)]
        text: String,
    },
}

/// Prints the compiled paths of nodes, and warnings to standard error; of
/// controllers, how many nodes and users they have; of profiles of control planes, what they do.
///
/// # Errors
/// The mistakes of all files, as FILE:LINE:COLUMN.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    if arguments.devices {
        return devices::run(&arguments.files, arguments.json);
    }
    let mut standard_input = arguments.files.iter().filter(|file| file.as_os_str() == "-");
    if standard_input.nth(1).is_some() {
        return Err(Failure::input("standard input can be read once"));
    }
    let (mut files, mut mistakes) = (Vec::new(), Vec::new());
    for path in &arguments.files {
        let name = name(path);
        let (found, warnings) = match read(path, &name) {
            Ok((found, warnings)) => (Some(found), warnings),
            Err(wrong) => {
                mistakes.push((files.len(), wrong));
                (None, Mistakes::default())
            }
        };
        node_file::warn(&warnings);
        let wrong = mistakes.last().filter(|(file, _)| *file == files.len());
        files.push(Checked {
            file: name,
            right: found.is_some(),
            found,
            mistakes: wrong.map_or_else(Vec::new, |(_, wrong)| listed(wrong)),
            warnings: listed(&warnings),
        });
    }
    match arguments.json {
        true => print_json(Report { files })?,
        false => print_text(&files)?,
    }
    match mistakes.is_empty() {
        true => Ok(()),
        false => {
            let lines = mistakes.iter().map(|(_, wrong)| wrong.to_string());
            Err(Failure::Mistakes(lines.collect::<Vec<_>>().join("\n")))
        }
    }
}

/// What mistakes call a file.
fn name(path: &Path) -> String {
    match path.as_os_str() == "-" {
        true => "<stdin>".to_owned(),
        false => path.display().to_string(),
    }
}

/// What a file describes, and what in it is probably not meant.
fn read(path: &Path, name: &str) -> Result<(Found, Mistakes), Mistakes> {
    let text = match path.as_os_str() == "-" {
        true => io::read_to_string(io::stdin().lock()).map_err(|error| {
            let message = format!("cannot read it: {error}");
            Mistakes::of(name, vec![Mistaken::at(Position::START, message)])
        })?,
        false => weft_yaml::load(path)?,
    };
    let source = Source::read(&text).ok();
    let kind = source.as_ref().and_then(|source| source.root.text("kind"));
    if kind == Some("ControlPlane") {
        let profile = Profile::read(&text, name)?;
        return Ok((Found::control_plane(&profile), Mistakes::default()));
    }
    if kind == Some("Controller") {
        let configuration = Configuration::read(&text, name)?;
        let found = Found::controller(&configuration);
        return Ok((found, configuration.warnings));
    }
    let blueprint = config::read(&text, name, KINDS)?;
    let paths = weft_node::paths(&blueprint);
    let absent = Source::read(&text).map(|source| machine::absent(&blueprint, &source));
    let mut warnings = blueprint.warnings;
    warnings.0.extend(Mistakes::of(name, absent.unwrap_or_default()).0);
    Ok((Found::Node { name: blueprint.name, paths }, warnings))
}

impl Found {
    fn controller(configuration: &Configuration) -> Found {
        let (name, counts) = (&configuration.name, serve::control::counts(configuration));
        Found::Controller {
            name: name.clone(),
            nodes: configuration.nodes.len(),
            users: configuration.users.iter().map(|users| users.count).sum(),
            text: format!("controller {name}: {counts}\n"),
        }
    }

    fn control_plane(profile: &Profile) -> Found {
        let Profile { name, local, user_plane, sessions, rules, load, .. } = profile;
        let count = |number: usize, what| counted(number as u64, what);
        let rules = [
            count(rules.pdrs.len(), "PDR"),
            count(rules.fars.len(), "FAR"),
            count(rules.qers.len(), "QER"),
            count(rules.urrs.len(), "URR"),
        ];
        let load = load.map_or("no load".to_owned(), |load| {
            format!("{} requests a second for {} s", load.rate, load.duration.as_secs_f64())
        });
        let text = format!(
            "control plane {name}: {local} drives {user_plane}, {} of {}, {load}\n",
            counted(sessions.count.into(), "session"),
            rules.join(", ")
        );
        Found::ControlPlane { name: name.clone(), sessions: sessions.count, text }
    }

    fn text(&self) -> &str {
        match self {
            Found::Node { paths, .. } if paths.is_empty() => "no users, so no paths\n",
            Found::Node { paths: text, .. }
            | Found::Controller { text, .. }
            | Found::ControlPlane { text, .. } => text,
        }
    }
}

fn listed(mistakes: &Mistakes) -> Vec<Mistake> {
    let listed = mistakes.0.iter().cloned().map(|mistake| Mistake {
        file: mistake.file,
        line: mistake.line,
        column: mistake.column,
        message: mistake.message,
        hint: mistake.hint,
    });
    listed.collect()
}

fn print_json(report: Report) -> Result<(), Failure> {
    output::line(&serde_json::to_string_pretty(&report).map_err(Failure::broken)?)
}

/// What a single file describes; of several, each with its name in front.
fn print_text(files: &[Checked]) -> Result<(), Failure> {
    if let [file] = files {
        return output::print(file.found.as_ref().map_or("", Found::text));
    }
    for (number, file) in files.iter().enumerate() {
        let text = file.found.as_ref().map_or("mistakes: see standard error\n", Found::text);
        let space = if number == 0 { "" } else { "\n" };
        output::print(&format!("{space}{}:\n{text}", file.file))?;
    }
    Ok(())
}
