//! `weft schema`: what configurations may look like.

use std::fmt::Write;

use clap::Subcommand;
use serde_json::{Value, json};
use weft_functions::KINDS;

use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: Option<SchemaName>,
}

#[derive(Subcommand)]
enum SchemaName {
    /// JSON schema of a node's configuration (the default)
    Node,
    /// JSON schema of a controller's configuration
    Controller,
    /// JSON schema of a profile of traffic
    Profile,
    /// JSON schema of a profile of a control plane
    Smf,
    /// JSON schema of an experiment's parameters
    Experiment,
    /// JSON schema of a model of what chains can carry
    Model,
    /// JSON schema of measured costs, which a model reads
    Calibration,
    /// JSON schemas of a function's configuration and settings
    Function {
        /// Name of the function, as `weft schema functions` lists it
        name: String,
    },
    /// List the functions
    Functions,
}

/// Prints what was asked for.
///
/// # Errors
/// When there is no function of that name.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.what.unwrap_or(SchemaName::Node) {
        SchemaName::Node => json(&weft_node_config::schema(KINDS)),
        SchemaName::Controller => json(&weft_mobility_controller::config::Configuration::schema()),
        SchemaName::Profile => json(&weft_traffic::Profile::schema()),
        SchemaName::Smf => json(&weft_smf::Profile::schema()),
        SchemaName::Experiment => json(&weft_bench::experiments::schema()),
        SchemaName::Model => json(&weft_model::Model::schema()),
        SchemaName::Calibration => json(&weft_model::Calibration::schema()),
        SchemaName::Function { name } => json(&function(&name)?),
        SchemaName::Functions => output::print(&functions()),
    }
}

fn json(value: &Value) -> Result<(), Failure> {
    output::line(&format!("{value:#}"))
}

fn function(name: &str) -> Result<Value, Failure> {
    let kind = weft_functions::kind(name).ok_or_else(|| {
        let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        Failure::input(format!("no function {name} (known are {})", known.join(", ")))
    })?;
    Ok(json!({
        "function": kind.name,
        "summary": kind.summary,
        "config": kind.config_schema(),
        "settings": kind.settings_schema(),
    }))
}

fn functions() -> String {
    let width = KINDS.iter().map(|kind| kind.name.len()).max().unwrap_or(0);
    KINDS.iter().fold(String::new(), |mut list, kind| {
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{:width$}  {}", kind.name, kind.summary);
        list
    })
}
