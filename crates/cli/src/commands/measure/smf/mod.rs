//! `weft smf`: a control plane that loads a user plane by PFCP.

mod summary;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use weft_smf::{Kind, Phase, Profile, write_tunnels};

use crate::failure::Failure;
use crate::output;
use crate::signals::Termination;

/// How often the progress line changes.
const TICK: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub struct Arguments {
    /// The profile
    #[arg(value_name = "PROFILE.yaml")]
    profile: PathBuf,
    /// How long sessions change, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    duration: Option<Duration>,
    /// Requests a second while they change
    #[arg(long, value_name = "REQUESTS", value_parser = rate)]
    rate: Option<f64>,
    /// Write what was measured to a file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tunnels of all sessions to a file as soon as all are there, as CSV
    #[arg(long, value_name = "FILE")]
    tunnels: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=31_536_000.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "seconds are a number from 0.001".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e7).contains(rate));
    rate.ok_or_else(|| "a rate is a number from 0.001 to 10000000".to_owned())
}

/// Associates, establishes, changes and deletes sessions, and says what became of requests.
///
/// # Errors
/// When the profile has mistakes, the socket cannot be had, the user plane refuses the
/// association or restarts, or a file cannot be written.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut profile = Profile::load(&arguments.profile)?;
    if let Some(load) = &mut profile.load {
        load.duration = arguments.duration.unwrap_or(load.duration);
        load.rate = arguments.rate.unwrap_or(load.rate);
    } else if arguments.duration.is_some() || arguments.rate.is_some() {
        return Err(Failure::input("the profile has no `load` that a duration or rate is for"));
    }
    let signals = Termination::catch()?;
    let bar = progress();
    let (mut shown, mut written) = (Duration::ZERO, Ok(()));
    let mut tunnels = arguments.tunnels.as_deref();
    let stop = || signals.wait_for(Duration::ZERO).is_some();
    let ran = weft_smf::run(&profile, stop, |control_plane, now| {
        if now >= shown + TICK {
            shown = now;
            bar.set_message(line(control_plane));
        }
        if matches!(control_plane.phase(), Phase::Loading | Phase::Deleting)
            && let Some(path) = tunnels.take()
        {
            written = write(&profile, control_plane.sessions(), path);
        }
    });
    bar.finish_and_clear();
    let control_plane = ran.map_err(|error| {
        Failure::input(format!(
            "PFCP between {} and {}: {error}",
            profile.local, profile.user_plane
        ))
    })?;
    written?;
    let statistics = control_plane.statistics();
    if let Some(path) = &arguments.json {
        let value = summary::json(&profile, statistics);
        let text = serde_json::to_string_pretty(&value).map_err(Failure::broken)?;
        fs::write(path, text + "\n").map_err(|error| unwritten(path, &error))?;
    }
    output::print(&summary::text(&profile, statistics))?;
    control_plane.failure().map_or(Ok(()), |reason| Err(Failure::broken(reason)))
}

fn write(profile: &Profile, sessions: &weft_smf::Sessions, path: &Path) -> Result<(), Failure> {
    let wrong = |error| unwritten(path, &error);
    let mut file = BufWriter::new(File::create(path).map_err(wrong)?);
    write_tunnels(profile, sessions, &mut file).and_then(|()| file.flush()).map_err(wrong)
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::broken(format!("{}: {error}", path.display()))
}

fn progress() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

/// Where a run is, in a line.
fn line(control_plane: &weft_smf::ControlPlane) -> String {
    let phase = match control_plane.phase() {
        Phase::Associating => "associating",
        Phase::Establishing => "establishing",
        Phase::Loading => "loading",
        Phase::Deleting => "deleting",
        Phase::Releasing | Phase::Ended => "releasing",
    };
    let statistics = control_plane.statistics();
    let present = control_plane.sessions().present();
    let answered = statistics.sum(|requests| requests.answered);
    let lost = statistics.sum(|requests| requests.lost);
    let established = statistics.of(Kind::Establish).answered;
    format!(
        "{phase}: {present} sessions, {established} established, {answered} answers, {lost} lost"
    )
}
