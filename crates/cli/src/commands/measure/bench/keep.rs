//! The directory that results are kept in.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use weft_bench::results::{FILE_NAME, Results, UNFINISHED_NAME, WriteError, write_whole};
use weft_bench::{calibration, report};

use crate::failure::Failure;

/// `DIR/EXPERIMENT/results.json` for each experiment, and `DIR/report.html`.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    /// Whether complete results stay until others are complete.
    goes_on: bool,
}

impl Directory {
    /// That directory; where a run goes on, complete results stay until others are complete.
    pub fn new(path: &Path, goes_on: bool) -> Directory {
        Directory { path: path.to_owned(), goes_on }
    }

    /// Complete results of an earlier run, and results that were under way when one ended.
    ///
    /// # Errors
    /// When what is there is not ours.
    pub fn former(&self, experiment: &str) -> Result<[Option<Results>; 2], Failure> {
        let own = self.path.join(experiment);
        let read = |name: &str| {
            let file = own.join(name);
            let found = file.exists().then(|| Results::read(&file)).transpose();
            found.map_err(Failure::input)
        };
        let (results, unfinished) = (read(FILE_NAME)?, read(UNFINISHED_NAME)?);
        let (complete, begun): (Option<_>, Option<_>) = match results {
            Some(results) if results.complete => (Some(results), None),
            results => (None, results),
        };
        Ok([complete, unfinished.or(begun)])
    }

    /// Writes what there is of one experiment so far, or all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, results: &Results) -> Result<(), WriteError> {
        let own = self.path.join(&results.experiment);
        let unfinished = own.join(UNFINISHED_NAME);
        let is_there = || Results::read(&own.join(FILE_NAME)).is_ok_and(|there| there.complete);
        if !results.complete && self.goes_on && is_there() {
            return results.write_as(unfinished).map(|_| ());
        }
        results.write(&own)?;
        // What was under way is complete, or was begun anew.
        let _ = fs::remove_file(unfinished);
        Ok(())
    }

    /// Keeps what there is of one experiment at its end.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, results: &Results) -> Result<(), Failure> {
        self.write(results).map_err(Failure::broken)?;
        let own = self.path.join(&results.experiment);
        // What was measured for the model is what the model reads.
        if results.experiment == "calibrate"
            && let Some(frequency) = results.derived.get("frequency")
            && let Some(found) = calibration::calibration(results, *frequency)
        {
            let text = found.to_string();
            write_whole(&own.join("calibration.yaml"), text.as_bytes()).map_err(Failure::broken)?;
        }
        Ok(())
    }

    /// Writes the report on all results there are; returns its page.
    ///
    /// # Errors
    /// When something cannot be written.
    pub fn report(&self) -> Result<PathBuf, Failure> {
        let link = self.path.join(FILE_NAME);
        if link.is_symlink() {
            fs::remove_file(&link).map_err(|error| unwritten(&link, &error))?;
        }
        let all = Results::read_all(&self.path).map_err(Failure::broken)?;
        let page = report::write(&self.path, &all).map_err(Failure::broken)?;
        // Of one experiment alone, `DIR/results.json` leads to its results.
        if let [only] = &all[..] {
            let target = Path::new(&only.experiment).join(FILE_NAME);
            symlink(target, &link).map_err(|error| unwritten(&link, &error))?;
        }
        Ok(page)
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::broken(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use weft_bench::machine::Machine;

    use super::*;

    fn results(complete: bool, says: &str) -> Results {
        let results = Results::new("users", Machine::default());
        Results { complete, says: says.to_owned(), ..results }
    }

    #[test]
    fn complete_results_stay_until_others_are_complete() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path(), true);
        assert_eq!(directory.former("users").unwrap(), [None, None]);
        let (old, begun, new) =
            (results(true, "old"), results(false, "begun"), results(true, "new"));
        directory.write(&old).unwrap();
        directory.write(&begun).unwrap();
        assert_eq!(directory.former("users").unwrap(), [Some(old), Some(begun)]);
        directory.write(&new).unwrap();
        assert_eq!(directory.former("users").unwrap(), [Some(new), None]);
    }

    #[test]
    fn without_going_on_results_are_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::new(folder.path(), false);
        let begun = results(false, "begun");
        directory.write(&results(true, "old")).unwrap();
        directory.write(&begun).unwrap();
        assert_eq!(directory.former("users").unwrap(), [None, Some(begun)]);
    }
}
