//! `weft doctor`: what this machine lacks for a node, and what would make it faster.

mod findings;
mod host;
mod network;

use serde::Serialize;

use self::findings::{Finding, Verdict};
use self::host::Host;
use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Report {
    findings: Vec<Finding>,
}

/// Prints one line for each finding, and below it what to do, if there is something to do.
///
/// # Errors
/// When something is lacking without which no node runs.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let host = Host::this();
    let mut findings = findings::all(&host);
    findings.extend(network::all(&host));
    let lacking = findings.iter().filter(|one| one.verdict == Verdict::Lacking).count();
    match arguments.json {
        true => {
            let report = Report { findings };
            output::line(&serde_json::to_string_pretty(&report).map_err(Failure::broken)?)?;
        }
        false => output::print(&text(&findings))?,
    }
    match lacking {
        0 => Ok(()),
        _ => Err(Failure::broken(format!("this machine lacks {lacking} of what a node needs"))),
    }
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { subject, verdict, found, advice } in findings {
        let verdict = match verdict {
            Verdict::Good => "good",
            Verdict::Advice => "advice",
            Verdict::Lacking => "LACKING",
        };
        text.push_str(&format!("{verdict:<8} {subject:<12} {found}"));
        if let Some(advice) = advice {
            text.push_str(&format!("; {advice}"));
        }
        text.push('\n');
    }
    text
}
