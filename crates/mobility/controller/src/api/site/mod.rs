//! What the site is to be, and which programs run it.

pub mod documents;
pub mod n4;
pub mod sessions;
pub mod shares;
pub mod upgrade;
