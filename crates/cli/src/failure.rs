//! Why a command does not succeed, and what becomes of it: a line on standard
//! error and an exit code.

use std::process::ExitCode;

use weft_management_api::ControlError;
use weft_management_api::api::Mistake;
use weft_management_api::client::ClientError;
use weft_mobility_controller::StartError;
use weft_node::BuildError;
use weft_node_config::Mistakes;

use crate::log;

/// Why a command does not succeed.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for cannot be done: exit code 2.
    Input(String),
    /// Mistakes in a file, one a line as `FILE:LINE:COLUMN: …`: exit code 2.
    Mistakes(String),
    /// It was begun and failed: exit code 1.
    Broken(String),
    /// The reader of the output has closed it, which is no failure of ours.
    Unread,
}

impl Failure {
    /// Something wrong with what was asked for.
    pub fn input(reason: impl ToString) -> Failure {
        Failure::Input(reason.to_string())
    }

    /// Something that failed on the way.
    pub fn broken(reason: impl ToString) -> Failure {
        Failure::Broken(reason.to_string())
    }

    /// Why.
    pub fn reason(self) -> String {
        match self {
            Failure::Input(reason) | Failure::Mistakes(reason) | Failure::Broken(reason) => reason,
            Failure::Unread => "the output is closed".to_owned(),
        }
    }

    /// Says why, and returns the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Input(reason) => {
                log::failure(&format!("weft: {}", joined(&reason)));
                ExitCode::from(2)
            }
            Failure::Mistakes(lines) => {
                log::failure(lines.trim_end());
                ExitCode::from(2)
            }
            Failure::Broken(reason) => {
                log::failure(&format!("weft: {}", joined(&reason)));
                ExitCode::FAILURE
            }
            Failure::Unread => ExitCode::SUCCESS,
        }
    }
}

fn joined(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Failure {
        Failure::Mistakes(mistakes.to_string())
    }
}

impl From<weft_dpdk::Error> for Failure {
    fn from(error: weft_dpdk::Error) -> Failure {
        Failure::input(error)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Failure {
        Failure::input(error)
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Failure {
        Failure::input(error)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        Failure::input(error)
    }
}

/// Mistakes that a server told, one a line.
pub fn lines(mistakes: &[Mistake]) -> String {
    let line = |mistake: &Mistake| {
        let Mistake { file, line, column, message, hint } = mistake;
        let hint = hint.as_ref().map_or(String::new(), |hint| format!(" ({hint})"));
        format!("{file}:{line}:{column}: {message}{hint}")
    };
    mistakes.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Refused(problem) if !problem.mistakes.is_empty() => {
                Failure::Mistakes(lines(&problem.mistakes))
            }
            ClientError::Gone(..) | ClientError::Answer(_) => Failure::broken(error),
            _ => Failure::input(error),
        }
    }
}
