//! `weft bench`: performs experiments and leaves results and a report.
//!
//! What is measured is written after every round, so that an interrupted or even
//! killed run leaves what it had, and `--resume` goes on from there.

pub mod keep;
mod session;
mod watch;

use std::path::PathBuf;

use clap::value_parser;
use weft_bench::experiment::{Effort, Experiment};
use weft_bench::experiments::{self, EXPERIMENTS};
use weft_bench::machine::Machine;
use weft_rig::Rig;

use crate::failure::Failure;
use crate::{log, output};
use keep::Directory;
use session::Session;
use watch::Progress;

/// The experiment that `--peers` alone asks for.
const PEERS: &str = "peers";
/// In place of experiments: all of them, their list, the report on what there is.
const ALL: &str = "all";
const LIST: &str = "list";
const REPORT: &str = "report";
/// Megabytes of packet memory: for a node, and the generator beside it.
const MEGABYTES: u32 = 512;

#[derive(clap::Args)]
#[command(
    after_help = "`weft bench list` lists the experiments; `weft bench report --out DIR` writes \
    the report on results that are there."
)]
pub struct Arguments {
    /// Experiments, `all` of them, `list`, or `report`
    #[arg(required_unless_present = "peers", value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// About a minute for each experiment (the default)
    #[arg(long, conflicts_with_all = ["full", "papers"])]
    quick: bool,
    /// As many repetitions as it takes for narrow intervals
    #[arg(long, conflicts_with = "papers")]
    full: bool,
    /// The durations of the papers: many hours
    #[arg(long)]
    papers: bool,
    /// Directory for results and report
    #[arg(long, value_name = "DIR", default_value = "weft-results")]
    out: PathBuf,
    /// Go on with what an interrupted run left in the directory; experiments stay as they are that
    /// are complete there, by the same effort or a greater one
    #[arg(long)]
    resume: bool,
    /// Keep results in a folder of the directory that is named after the kind of this machine
    #[arg(long)]
    by_machine: bool,
    /// Other parameters, for a single experiment; `weft schema experiment` says
    /// what may be set
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Where other programs are installed that experiments measure beside ours (DIR or DIR/bin),
    /// before the places that the shell looks at; without an experiment `peers` is performed
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Slow the node down by so many percent, to see whether `weft compare` tells
    #[arg(long, value_name = "PERCENT", hide = true, default_value_t = 0,
          value_parser = value_parser!(u32).range(..=1000))]
    slow_down: u32,
}

/// Performs the experiments.
///
/// # Errors
/// An unknown experiment, what the machine lacks, a directory that cannot be
/// written.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    if arguments.experiments == [LIST] {
        return output::print(&list());
    }
    if arguments.experiments == [REPORT] {
        let page = Directory::new(&arguments.out, true).report()?;
        return output::line(&format!("report: {}", page.display()));
    }
    let folder = arguments.peers.as_ref();
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::input(format!("--peers: {} is no directory", folder.display())));
    }
    let chosen = arguments.chosen()?;
    if arguments.file.is_some() && chosen.len() > 1 {
        return Err(Failure::input("--file is for a single experiment"));
    }
    // From here on a signal ends it in order: what is laid in the kernel is taken away.
    let progress = Progress::open()?;
    let mut rig = Rig::start(MEGABYTES).map_err(Failure::input)?;
    rig.slow_down = arguments.slow_down;
    rig.peers.clone_from(&arguments.peers);
    let machine = Machine::observe(rig.eal);
    let directory = Directory::new(&arguments.folder(&machine), arguments.resume);
    let kind = machine.kind;
    let session = Session { arguments: &arguments, rig: &rig, progress, directory, kind };
    session.perform(&chosen)
}

impl Arguments {
    /// The experiments, each once.
    fn chosen(&self) -> Result<Vec<&'static Experiment>, Failure> {
        if self.experiments.iter().any(|name| name == ALL) {
            return Ok(EXPERIMENTS.iter().collect());
        }
        let names = self.experiments.iter().map(String::as_str);
        // Of nothing but a folder of peers, these are what is asked for.
        let default = self.experiments.is_empty().then_some(PEERS);
        let mut chosen: Vec<&Experiment> = Vec::new();
        for name in names.chain(default) {
            let experiment = experiments::experiment(name).map_err(Failure::input)?;
            if !chosen.iter().any(|other| other.name == experiment.name) {
                chosen.push(experiment);
            }
        }
        Ok(chosen)
    }

    /// Where results are kept.
    fn folder(&self, machine: &Machine) -> PathBuf {
        if !self.by_machine {
            return self.out.clone();
        }
        // It is better to know that before hours are spent.
        if machine.build != "release" || machine.commit.ends_with("-dirty") {
            let Machine { build, commit, .. } = machine;
            log::say(&format!(
                "weft: a {build} build of {commit}: its results are not ones to commit"
            ));
        }
        self.out.join(&machine.kind)
    }

    fn effort(&self) -> Effort {
        match (self.full, self.papers) {
            (_, true) => Effort::Papers,
            (true, _) => Effort::Full,
            _ => Effort::Quick,
        }
    }

    /// The command that repeats an experiment.
    fn command(&self, experiment: &Experiment) -> String {
        let mut command = format!("weft bench {} --{}", experiment.name, self.effort().name());
        if let Some(file) = &self.file {
            command += &format!(" --file {}", file.display());
        }
        if let Some(folder) = &self.peers {
            command += &format!(" --peers {}", folder.display());
        }
        if self.slow_down > 0 {
            command += &format!(" --slow-down {}", self.slow_down);
        }
        command
    }
}

fn list() -> String {
    let width = EXPERIMENTS.iter().map(|one| one.name.len()).max().unwrap_or(0);
    EXPERIMENTS.iter().fold(String::new(), |list, Experiment { name, varies, paper, .. }| {
        format!("{list}{name:width$}  {varies} ({paper})\n")
    })
}
