//! The command line as a whole, and what is said when it is wrong.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use tracing::Level;

use crate::commands::client::{capture, ctl, show, site, top, trace, upgrade};
use crate::commands::measure::{bench, compare, demo, generate, model, replay, simulate, smf};
use crate::commands::serve::{control, function, run, vf};
use crate::commands::{check, doctor, document, schema};
use crate::log;

/// An execution environment for the mobile user plane: ports, small functions,
/// and the chains that each user's packets take.
#[derive(Parser)]
#[command(name = "weft", version, after_help = AFTER)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
    /// How what is logged is written to standard error
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        env = "WEFT_LOG_FORMAT",
        default_value = "text"
    )]
    pub log_format: log::Format,
}

const AFTER: &str = "Exit codes: 0, success; 1, something failed on the way; \
2, what was asked for cannot be done.\n\
WEFT_LOG=error|warn|info|debug|trace chooses what is logged to standard error.";

/// The command line as a whole, for what is written about it.
pub fn command_line() -> clap::Command {
    Arguments::command()
}

#[derive(Subcommand)]
pub enum Command {
    /// Show a node at work, and account for every packet
    Demo(demo::Arguments),
    /// Run a node until SIGINT or SIGTERM
    Run(Box<run::Arguments>),
    /// Run a controller, which hands users over between nodes, until SIGINT or SIGTERM
    Control(control::Arguments),
    /// Check configurations and print the paths they are compiled to
    Check(check::Arguments),
    /// Say what this machine lacks for a node, and what would make one faster; exit code 1 when
    /// none would run
    Doctor(doctor::Arguments),
    /// Send captures through the data path of a node
    Replay(replay::Arguments),
    /// Measure: experiments with results and a report
    Bench(bench::Arguments),
    /// Compare two runs of the bench; exit code 1 on a regression
    Compare(compare::Arguments),
    /// Predict what a chain can carry, and what limits it
    Model(model::Arguments),
    /// Run protocols under faults, in virtual time; exit code 1 when a promise is broken
    Simulate(simulate::Arguments),
    /// Send traffic at ports and account for what arrives
    Generate(generate::Arguments),
    /// Load a user plane by PFCP, as a control plane, and account for what it answers
    Smf(smf::Arguments),
    /// Host one function of a node in a process of its own
    Function(function::Arguments),
    /// Show what a running node does
    Show(show::Arguments),
    /// Watch a running node in the terminal
    Top(top::Arguments),
    /// Follow packets through a running node, step by step
    Trace(trace::Arguments),
    /// Capture packets at any place of a running node
    Capture(capture::Arguments),
    /// Change a running node, or hand users over
    Ctl(ctl::Arguments),
    /// Let documents say what a site is to be: checked whole, then rolled out node by node
    Apply(site::ApplyArguments),
    /// Show the nodes of a site, its documents, or how far they are rolled out
    Get(site::GetArguments),
    /// Show what `weft apply` would change; exit code 1 if anything
    Diff(site::DiffArguments),
    /// Remove a document of a site, or a node that had registered
    Delete(site::DeleteArguments),
    /// Take the nodes of a site to the program that is installed at them, one after another
    Upgrade(upgrade::Arguments),
    /// Wait until documents are rolled out, nodes are upgraded, or a node is connected
    Wait(site::WaitArguments),
    /// Virtual functions of NICs (SR-IOV) for a node: plan, make, show and remove them
    Vf(vf::Arguments),
    /// Print JSON schemas of configurations
    Schema(schema::Arguments),
    /// Print what a shell needs to complete commands
    Completions(document::Completions),
    /// Write the manual pages
    Manual(document::Manual),
    /// Print the version of this program
    Version,
}

impl Command {
    /// What is logged unless `WEFT_LOG` says otherwise. Demo, generator and bench
    /// have reports of their own, and a node tells of the functions that it has started.
    pub fn log_level(&self) -> Level {
        match self {
            Command::Demo(_) | Command::Generate(_) | Command::Smf(_) | Command::Bench(_) => {
                Level::WARN
            }
            Command::Function(function) if function.once => Level::WARN,
            Command::Vf(vf) if vf.ends_with_parent() => Level::WARN,
            _ => Level::INFO,
        }
    }
}

/// Reads the command line. What cannot be read, or is only a question for
/// help, is answered here.
pub fn parse() -> Result<Arguments, ExitCode> {
    Arguments::try_parse().map_err(|error| {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A closed standard output is no failure.
                let _ = error.print();
                ExitCode::SUCCESS
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                ExitCode::from(2)
            }
            _ => {
                log::say(&format!("weft: {}", one_line(&error.to_string())));
                ExitCode::from(2)
            }
        }
    })
}

/// What the standard library says of a value that it cannot read, and what to write.
const CLEARER: [(&str, &str); 6] = [
    ("invalid socket address", "write ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:8080"),
    ("invalid IP address", "write an IPv4 or IPv6 address"),
    ("invalid digit found in string", "it is not a whole number"),
    ("cannot parse integer from empty string", "it is not a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("invalid float literal", "it is not a number"),
];

/// What clap says, in one line: the mistake, and the tip if there is one.
fn one_line(text: &str) -> String {
    let paragraphs = text
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut line = String::new();
    for paragraph in paragraphs {
        if let Some(mistake) = paragraph.strip_prefix("error: ") {
            line.push_str(&clearer(mistake));
        } else if let Some(tip) = paragraph.strip_prefix("tip: ") {
            line.push_str(&format!(" ({tip})"));
        }
    }
    line
}

/// The mistake with what to write in place of what the standard library says.
fn clearer(mistake: &str) -> String {
    let Some((value, said)) = mistake.rsplit_once("': ") else { return mistake.to_owned() };
    let known =
        CLEARER.iter().find(|(words, _)| said.strip_suffix(" syntax").unwrap_or(said) == *words);
    known.map_or_else(|| mistake.to_owned(), |(_, write)| format!("{value}': {write}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_read_is_told_with_what_to_write() {
        let told = |arguments: &[&str]| {
            let arguments = ["weft"].iter().chain(arguments);
            one_line(&Arguments::try_parse_from(arguments).map(|_| ()).unwrap_err().to_string())
        };
        assert_eq!(
            told(&["run", "node.yaml", "--http", "8080"]),
            "invalid value '8080' for '--http <ADDRESS>': write ADDRESS:PORT, such as \
             127.0.0.1:8080 or [::1]:8080"
        );
        assert_eq!(
            told(&["simulate", "handover", "--seeds", "abc"]),
            "invalid value 'abc' for '--seeds <COUNT>': it is not a whole number"
        );
        assert_eq!(
            told(&["simulate", "handover", "--seeds", "99999999999999999999999"]),
            "invalid value '99999999999999999999999' for '--seeds <COUNT>': the number is too large"
        );
    }
}
