//! What people read: CSV, a drawing of every figure, and one page.
//!
//! Everything is made from [`Results`] alone. The page is a single file: its
//! drawings and its style are in it, and it follows light and dark, screen, phone
//! and paper.

mod area;
mod bars;
mod figure;
mod frame;
mod glance;
mod lines;
mod page;
mod palette;
mod scale;
mod table;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::results::{Results, WriteError, write_whole};

pub use area::DrawError;

/// The name of the page.
pub const PAGE_NAME: &str = "report.html";

/// A report that could not be made.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A figure could not be drawn.
    #[error("cannot draw figure `{figure}` of {experiment}: {error}")]
    Draw {
        /// The experiment.
        experiment: String,
        /// The figure.
        figure: String,
        /// Why.
        error: DrawError,
    },
    /// The table could not be put together.
    #[error("cannot put the table of {experiment} together: {error}")]
    Table {
        /// The experiment.
        experiment: String,
        /// Why.
        error: csv::Error,
    },
}

/// Writes for each experiment `directory/EXPERIMENT/` with `results.json`,
/// `results.csv` and an SVG for each figure, and `directory/report.html` over all.
/// Returns the path of the page.
///
/// # Errors
/// The first file that cannot be written or figure that cannot be drawn.
pub fn write(directory: &Path, all: &[Results]) -> Result<PathBuf, ReportError> {
    for results in all {
        let own = directory.join(&results.experiment);
        results.write(&own)?;
        let csv = table::csv(results).map_err(|error| ReportError::Table {
            experiment: results.experiment.clone(),
            error,
        })?;
        write_whole(&own.join("results.csv"), &csv)?;
        for drawn in &results.figures {
            let svg = figure::file(results, drawn).map_err(in_figure(results, &drawn.name))?;
            write_whole(&own.join(format!("{}.svg", drawn.name)), svg.as_bytes())?;
        }
    }
    let path = directory.join(PAGE_NAME);
    write_whole(&path, page(all)?.as_bytes())?;
    Ok(path)
}

/// The page over all of these results.
///
/// # Errors
/// The first figure that cannot be drawn.
pub fn page(all: &[Results]) -> Result<String, ReportError> {
    page::page(all).map(|page| page.into_string())
}

fn in_figure<'a>(
    results: &'a Results,
    figure: &'a str,
) -> impl FnOnce(DrawError) -> ReportError + 'a {
    move |error| ReportError::Draw {
        experiment: results.experiment.clone(),
        figure: figure.to_owned(),
        error,
    }
}
