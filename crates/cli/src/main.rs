//! `weft`: runs nodes, checks their configurations, shows what they do.
//!
//! Each command is one module of [`commands`]. Exit codes: 0, all went well; 2, what was asked
//! for cannot be done (usage, a configuration, a device that is missing); 1, it was begun and
//! failed.

#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod environment;
mod failure;
mod log;
mod node_file;
mod notify;
mod number;
mod output;
mod signals;
mod table;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use arguments::{Arguments, Command, command_line};
use commands::client::{capture, ctl, show, site, top, trace, upgrade};
use commands::measure::{bench, compare, demo, generate, model, replay, simulate, smf};
use commands::serve::{control, function, run, vf};
use commands::{check, doctor, document, schema, version};
use failure::Failure;

fn main() -> ExitCode {
    let Arguments { command, log_format } = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    log::start(command.log_level(), log_format);
    // A panic was logged in one line already, by the hook of the log.
    match panic::catch_unwind(AssertUnwindSafe(|| dispatch(command))) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => failure.report(),
        Err(_) => ExitCode::FAILURE,
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(arguments) => run::run(*arguments),
        Command::Control(arguments) => control::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Model(arguments) => model::run(arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
        Command::Smf(arguments) => smf::run(arguments),
        Command::Function(arguments) => function::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Trace(arguments) => trace::run(arguments),
        Command::Capture(arguments) => capture::run(arguments),
        Command::Ctl(arguments) => ctl::run(arguments),
        Command::Apply(arguments) => site::apply(arguments),
        Command::Get(arguments) => site::get(arguments),
        Command::Diff(arguments) => site::diff(arguments),
        Command::Delete(arguments) => site::delete(arguments),
        Command::Upgrade(arguments) => upgrade::run(arguments),
        Command::Wait(arguments) => site::wait(arguments),
        Command::Vf(arguments) => vf::run(arguments),
        Command::Schema(arguments) => schema::run(arguments),
        Command::Completions(arguments) => document::completions(&arguments, command_line()),
        Command::Manual(arguments) => document::manual(&arguments, command_line()),
        Command::Version => version::run(),
    }
}
