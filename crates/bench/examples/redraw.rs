//! Draws the report of results that were measured earlier:
//! `cargo run -p weft-bench --example redraw -- DIRECTORY`.

use std::path::PathBuf;
use std::process::ExitCode;

use weft_bench::report;
use weft_bench::results::Results;
use weft_rig::Failure;

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: redraw DIRECTORY (with results.json one level below)");
        return ExitCode::from(2);
    };
    let draw = || -> Result<PathBuf, Failure> {
        Ok(report::write(&directory, &Results::read_all(&directory)?)?)
    };
    match draw() {
        Ok(page) => {
            println!("{}", page.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("redraw: {error}");
            ExitCode::FAILURE
        }
    }
}
