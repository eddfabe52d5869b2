//! What a worker does about functions that run elsewhere.

mod recall;
mod relocate;
mod take_back;
