//! `weft bench`: performs experiments and leaves results and a report.
//!
//! What is measured is written after every round, so that an interrupted or even
//! killed run leaves what it had, and `--resume` goes on from there.

pub mod keep;
mod watch;

use std::path::PathBuf;
use std::time::Instant;

use clap::value_parser;
use weft_bench::experiment::{Effort, Experiment, Order};
use weft_bench::experiments::{self, EXPERIMENTS};
use weft_bench::results::Results;
use weft_rig::Rig;

use crate::failure::Failure;
use crate::{log, output};
use keep::Directory;
use watch::Progress;

/// The experiment that `--peers` alone asks for.
const PEERS: &str = "peers";
/// Megabytes of packet memory: for a node, and the generator beside it.
const MEGABYTES: u32 = 512;

#[derive(clap::Args)]
#[command(after_help = "`weft bench list` lists the experiments.")]
pub struct Arguments {
    /// Experiments, or `list`
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
    /// Go on with what an interrupted run left in the directory
    #[arg(long)]
    resume: bool,
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
    if arguments.experiments == ["list"] {
        return output::print(&list());
    }
    let folder = arguments.peers.as_ref();
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::input(format!("--peers: {} is no directory", folder.display())));
    }
    let names = arguments.experiments.iter().map(String::as_str);
    // Of nothing but a folder of peers, these are what is asked for.
    let default = arguments.experiments.is_empty().then_some(PEERS);
    let chosen = names.chain(default).map(experiments::experiment);
    let chosen: Vec<&Experiment> = chosen.collect::<Result<_, _>>().map_err(Failure::input)?;
    if arguments.file.is_some() && chosen.len() > 1 {
        return Err(Failure::input("--file is for a single experiment"));
    }
    let directory = Directory::new(&arguments.out);
    let formers = chosen.iter().map(|experiment| match arguments.resume {
        true => directory.former(experiment.name),
        false => Ok(None),
    });
    let formers: Vec<Option<Results>> = formers.collect::<Result<_, _>>()?;
    // From here on a signal ends it in order: what is laid in the kernel is taken away.
    let progress = Progress::open(&directory)?;
    let mut rig = Rig::start(MEGABYTES).map_err(Failure::input)?;
    rig.slow_down = arguments.slow_down;
    rig.peers.clone_from(&arguments.peers);
    for (number, (experiment, former)) in chosen.iter().zip(formers).enumerate() {
        if progress.is_interrupted() && number == 0 {
            return Err(Failure::broken("interrupted before anything was measured"));
        }
        if progress.is_interrupted() {
            break;
        }
        let (order, begun) = (arguments.order(experiment, former), Instant::now());
        let (results, ended) = experiment
            .perform(order, &rig, &progress.watch(experiment.name))
            .map_err(Failure::input)?;
        directory.keep(&results)?;
        let (name, took) = (experiment.name, begun.elapsed().as_secs_f64());
        let says = if results.says.is_empty() { "ended" } else { &results.says };
        // Of what ended before it measured anything its error says all.
        if ended.is_none() || !results.says.is_empty() {
            output::line(&format!("{name}: {says} ({took:.0} s)"))?;
        }
        if let Some(error) = ended {
            directory.report()?;
            return Err(Failure::broken(format!("{}: {error}", experiment.name)));
        }
    }
    let page = directory.report()?;
    if progress.is_interrupted() {
        log::say("weft: interrupted; what was measured so far is kept (go on with --resume)");
    }
    output::line(&format!("report: {}", page.display()))
}

impl Arguments {
    fn effort(&self) -> Effort {
        match (self.full, self.papers) {
            (_, true) => Effort::Papers,
            (true, _) => Effort::Full,
            _ => Effort::Quick,
        }
    }

    fn order(&self, experiment: &Experiment, former: Option<Results>) -> Order<'_> {
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
        Order { effort: self.effort(), file: self.file.as_deref(), command, former }
    }
}

fn list() -> String {
    let width = EXPERIMENTS.iter().map(|one| one.name.len()).max().unwrap_or(0);
    EXPERIMENTS.iter().fold(String::new(), |list, Experiment { name, varies, paper, .. }| {
        format!("{list}{name:width$}  {varies} ({paper})\n")
    })
}
