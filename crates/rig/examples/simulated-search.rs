//! Simulated systems under test, for a search of ours and for one from elsewhere.
//!
//! - `simulated-search find FIRST COUNT` searches `COUNT` systems, from seed `FIRST`
//!   on, for NDR and PDR, and prints a JSON object for each;
//! - `simulated-search serve SEED` reads lines `RATE SECONDS` and answers each with
//!   `SENT UNSENT LOST`.

use std::convert::Infallible;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use weft_rig::Failure;
use weft_rig::search::simulated::Simulated;
use weft_rig::search::{Goal, MultipleLossRatioSearch, SystemUnderTest};

/// Interruptions in a tenth of the trials; the limit wanders by a fifth of the
/// width that is searched for.
fn system(seed: u64) -> Simulated {
    Simulated::random(seed, 0.1, 0.001)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["find", first, count] => find(first, count),
        ["serve", seed] => serve(seed),
        _ => Err("usage: simulated-search find FIRST COUNT | serve SEED".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simulated-search: {error}");
            ExitCode::from(2)
        }
    }
}

fn find(first: &str, count: &str) -> Result<(), Failure> {
    let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
    let search = MultipleLossRatioSearch {
        least: 1e4,
        most: 2e7,
        goals: vec![Goal::ndr(), Goal::pdr()],
        limit: Duration::from_secs(3600),
    };
    for seed in first..first + count {
        let mut system = system(seed);
        let Ok::<_, Infallible>(outcome) = search.run(&mut system);
        let found: Vec<_> =
            outcome.found.iter().map(|found| found.conditional_throughput).collect();
        let spent = outcome.spent.as_secs_f64();
        let line = serde_json::json!({
            "seed": seed, "limit": system.limit, "found": found, "seconds": spent,
        });
        println!("{line}");
    }
    Ok(())
}

fn serve(seed: &str) -> Result<(), Failure> {
    let mut system = system(seed.parse()?);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (rate, seconds) = line.split_once(' ').ok_or("a line is RATE SECONDS")?;
        let duration = Duration::try_from_secs_f64(seconds.parse()?)?;
        let Ok::<_, Infallible>(trial) = system.offer(rate.parse()?, duration);
        println!("{} {} {}", trial.sent, trial.unsent, trial.lost);
        io::stdout().flush()?;
    }
    Ok(())
}
