//! What a site is to be: documents, their history, and how nodes come to run as they say.
//!
//! An operator applies [documents](document): templates of nodes, nodes, and how the site treats
//! them. They are read and checked whole, with all that were applied before; a [set](set::Set)
//! that has no mistakes becomes the next revision of the [history](history::History). A
//! [rollout](rollout::Rollout) then changes one node after another, looks at each for a while,
//! and says so if a node refuses or drops more than before. A [balance](balance::Balance) says
//! which users are to go to other nodes as their loads are. An [upgrade](upgrade::Upgrade) takes
//! one node after another to the program that is installed at it.
//!
//! There is no I/O here: a controller keeps records, tells nodes, and has the time.

#![forbid(unsafe_code)]

pub mod balance;
pub mod document;
pub mod history;
mod kind;
pub mod part;
pub mod rollout;
pub mod set;
mod template;
pub mod upgrade;
