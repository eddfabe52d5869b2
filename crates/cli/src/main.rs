//! `weft`: runs nodes, checks their configurations, shows what they do.
//!
//! Each command is one module with its arguments and a `run` that returns a
//! [`Failure`](failure::Failure) where it does not succeed. Exit codes: 0, all
//! went well; 2, what was asked for cannot be done (usage, a configuration, a
//! device that is missing); 1, it was begun and failed.

#![forbid(unsafe_code)]

mod arguments;
mod capture;
mod check;
mod ctl;
mod environment;
mod failure;
mod log;
mod node_file;
mod output;
mod replay;
mod run;
mod schema;
mod show;
mod signals;
mod table;
mod target;
mod trace;
mod watch;

use std::process::ExitCode;

use arguments::Command;
use failure::Failure;

fn main() -> ExitCode {
    let command = match arguments::parse() {
        Ok(command) => command,
        Err(code) => return code,
    };
    log::start();
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(arguments) => run::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Trace(arguments) => trace::run(arguments),
        Command::Capture(arguments) => capture::run(arguments),
        Command::Ctl(arguments) => ctl::run(arguments),
        Command::Schema(arguments) => schema::run(arguments),
    }
}
