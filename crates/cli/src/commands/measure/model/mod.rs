//! `weft model`: what a chain can carry on a machine, what limits it, and how a
//! demand is split over nodes.

mod plan;
mod print;
mod results;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum, value_parser};
use weft_model::file::{Load, Sweep};
use weft_model::hardware::Profile;
use weft_model::quantity::Bytes;
use weft_model::scenario::ScenarioError;
use weft_model::{Model, Scenario};

use crate::commands::measure::bench::keep::Directory;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "docs/model.md tells what a model is and how it is written."
)]
pub struct Arguments {
    #[command(subcommand)]
    what: Option<ModelCommand>,
    /// The model
    #[arg(required = true, value_name = "MODEL.yaml")]
    file: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Args)]
struct Options {
    /// Bytes of every frame with its checksum, whatever the file says
    #[arg(long, value_name = "BYTES")]
    size: Option<Bytes>,
    /// Functions in every chain, whatever the file says
    #[arg(long, value_name = "FUNCTIONS", value_parser = value_parser!(u32).range(1..=1000))]
    length: Option<u32>,
    /// Worker cores, whatever the file says
    #[arg(long, value_name = "CORES", value_parser = value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// Say how many cores carry this: `5 Mpps`, `20 Gbit/s`
    #[arg(long, value_name = "RATE")]
    load: Option<Load>,
    /// Go through all sizes or lengths of the file's `sweep`
    #[arg(long, value_name = "WHAT")]
    sweep: Option<Over>,
    /// Write results, plots and a report to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Subcommand)]
enum ModelCommand {
    /// Split the demand of a model's `plan` over nodes and cores
    Plan(plan::Arguments),
    /// List the machines that models can name
    Profiles,
}

/// What is swept.
#[derive(Clone, Copy, ValueEnum)]
enum Over {
    /// The size of all frames
    Size,
    /// The length of all chains
    Length,
}

/// Predicts.
///
/// # Errors
/// The mistakes of the file; a directory that cannot be written.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match (arguments.what, arguments.file) {
        (Some(ModelCommand::Plan(arguments)), _) => plan::run(&arguments),
        (Some(ModelCommand::Profiles), _) => output::print(&profiles()?),
        (None, Some(file)) => {
            let model = arguments.options.apply(Model::load(&file)?)?;
            predict(&model, &arguments.options, &file)
        }
        (None, None) => Err(Failure::input("a model is needed: weft model MODEL.yaml")),
    }
}

fn predict(model: &Model, options: &Options, file: &std::path::Path) -> Result<(), Failure> {
    let directory = options.out.as_deref().map(|path| Directory::new(path, false));
    let command = format!("weft model {}{}", file.display(), options.text());
    let found = match options.sweep {
        None => {
            output::print(&print::answers(model)?)?;
            output::print(&print::measured(model)?)?;
            results::answers(model, command)?
        }
        Some(over) => {
            let over = match over {
                Over::Size => Sweep::Size,
                Over::Length => Sweep::Length,
            };
            let curves = model.sweep(over)?;
            output::print(&print::sweep(over, &curves))?;
            results::sweep(model, over, &curves, command)
        }
    };
    if let Some(directory) = directory {
        directory.keep(&found)?;
        output::line(&format!("report: {}", directory.report()?.display()))?;
    }
    Ok(())
}

impl Options {
    /// The model with what the command line says otherwise.
    fn apply(&self, mut model: Model) -> Result<Model, Failure> {
        if let Some(Bytes(size)) = self.size {
            if !(64.0..=9216.0).contains(&size) {
                return Err(Failure::input(format!("--size {size} is not between 64 and 9216")));
            }
            model.scenario = model.scenario.with_size(size);
        }
        if let Some(length) = self.length {
            model.scenario = model.scenario.with_length(length as usize);
        }
        if let Some(workers) = self.workers {
            model.scenario.workers = workers as usize;
        }
        model.load = self.load.or(model.load);
        Ok(model)
    }

    /// The options as they stand on the command line.
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in [
            ("size", self.size.map(|size| size.0.to_string())),
            ("length", self.length.map(|length| length.to_string())),
            ("workers", self.workers.map(|workers| workers.to_string())),
            (
                "sweep",
                self.sweep.map(|over| match over {
                    Over::Size => "size".to_owned(),
                    Over::Length => "length".to_owned(),
                }),
            ),
        ] {
            if let Some(value) = value {
                text += &format!(" --{name} {value}");
            }
        }
        text
    }
}

fn profiles() -> Result<String, Failure> {
    let mut table = Table::new(&["profile", "machine", "described in"], usize::MAX);
    for profile in Profile::names().filter_map(Profile::named) {
        let Profile { metadata, .. } = profile?;
        table.row([metadata.name, metadata.summary, metadata.source]);
    }
    Ok(table.text())
}

/// What stands on a machine, in a few words.
fn machine(scenario: &Scenario) -> String {
    let hardware = &scenario.hardware;
    let mut words = Vec::new();
    words.extend(hardware.profile.clone());
    words.extend(hardware.cpu.frequency.map(|frequency| {
        let plural = if hardware.cores() == 1 { "core" } else { "cores" };
        format!("{} {plural} of {frequency}", hardware.cores())
    }));
    words.extend(hardware.nic.line_rate.map(|rate| format!("line {rate}")));
    words.extend(hardware.pcie.bandwidth.map(|rate| format!("bus {rate}")));
    words.join(", ")
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Failure {
        Failure::input(error)
    }
}
