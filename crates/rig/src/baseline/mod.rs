//! What Weft is compared with: programs that a user can install from Debian, run
//! beside it on the same machine in the same minutes.
//!
//! A baseline that is not installed, or needs rights that we do not have, is left
//! out, and the results say so.

pub mod classical;
pub mod crypto_perf;
pub mod kernel;
pub mod line;
pub mod open_vswitch;
pub mod peers;
pub mod testpmd;
