//! What is said of processes that are to go, so that the program that is installed runs.

use super::{number, text_of};
use crate::hello::HelloError;

/// What a process of a node is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upgrade {
    /// The number of the request; 0 for a question.
    pub request: u64,
    /// The process that is to go. Any other one only says which one it is.
    pub process: u64,
    /// How it is to go.
    pub method: UpgradeMethod,
}

/// How a process goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpgradeMethod {
    /// It starts its program anew, which takes the node over.
    #[default]
    TakeOver,
    /// It ends, and its service manager starts another one.
    End,
}

/// What a process of a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The number of the request; 0 for a question.
    pub request: u64,
    /// What it is known by: no other process of the node has that, nor had.
    pub process: u64,
    /// What becomes of the request.
    pub attempt: Attempt,
    /// Version of its program; 255 octets at most.
    pub version: String,
    /// Why it refuses.
    pub reason: String,
}

/// What becomes of a request that a process goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attempt {
    /// Nothing: it was a question, or meant another process.
    #[default]
    On,
    /// It has begun.
    Begun,
    /// It is refused, or has failed: the node goes on in this process.
    Refused,
}

impl Upgrade {
    pub(super) fn emit(&self) -> Vec<u8> {
        let method = match self.method {
            UpgradeMethod::TakeOver => 1,
            UpgradeMethod::End => 2,
        };
        let numbers = [self.request, self.process];
        let mut said = numbers.map(|number| number.to_be_bytes()).concat();
        said.push(method);
        said
    }

    pub(super) fn parse(said: &[u8]) -> Result<Upgrade, HelloError> {
        let (request, said) = number(said)?;
        let (process, said) = number(said)?;
        let method = match said {
            [1] => UpgradeMethod::TakeOver,
            [2] => UpgradeMethod::End,
            _ => return Err(HelloError::Value),
        };
        Ok(Upgrade { request, process, method })
    }
}

impl Process {
    pub(super) fn emit(&self) -> Vec<u8> {
        let attempt = match self.attempt {
            Attempt::On => 0,
            Attempt::Begun => 1,
            Attempt::Refused => 2,
        };
        let mut ends = (0..=self.version.len().min(255)).rev();
        let end = ends.find(|end| self.version.is_char_boundary(*end)).unwrap_or(0);
        let version = &self.version.as_bytes()[..end];
        let numbers = [self.request, self.process];
        let mut said = numbers.map(|number| number.to_be_bytes()).concat();
        said.extend([attempt, version.len() as u8]);
        said.extend(version);
        said.extend(self.reason.as_bytes());
        said
    }

    pub(super) fn parse(said: &[u8]) -> Result<Process, HelloError> {
        let (request, said) = number(said)?;
        let (process, said) = number(said)?;
        let ([attempt, length], said) = said.split_first_chunk().ok_or(HelloError::Value)?;
        let attempt = match attempt {
            0 => Attempt::On,
            1 => Attempt::Begun,
            2 => Attempt::Refused,
            _ => return Err(HelloError::Value),
        };
        let texts = said.split_at_checked(usize::from(*length)).ok_or(HelloError::Value)?;
        let (version, reason) = (text_of(texts.0)?, text_of(texts.1)?);
        Ok(Process { request, process, attempt, version, reason })
    }
}
