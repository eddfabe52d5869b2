//! The directory that results are kept in.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use weft_bench::results::{FILE_NAME, Results, write_whole};
use weft_bench::{calibration, report};

use crate::failure::Failure;

/// `DIR/EXPERIMENT/results.json` for each experiment, and `DIR/report.html`.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    pub fn new(path: &Path) -> Directory {
        Directory { path: path.to_owned() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Results of an earlier run that was not completed.
    ///
    /// # Errors
    /// When what is there is not ours.
    pub fn former(&self, experiment: &str) -> Result<Option<Results>, Failure> {
        let file = self.path.join(experiment).join(FILE_NAME);
        match file.exists() {
            true => Results::read(&file).map(Some).map_err(Failure::input),
            false => Ok(None),
        }
    }

    /// Keeps what there is of one experiment.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, results: &Results) -> Result<(), Failure> {
        let own = self.path.join(&results.experiment);
        results.write(&own).map_err(Failure::broken)?;
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
