//! Fused functions: the micro-operations of neighbouring functions, as one loop
//! of machine code over the burst.
//!
//! 1. [`LinkedProgram::link`] puts the [programs](weft_function::lower::Program) of
//!    functions one behind the other, as a packet meets them.
//! 2. [`verify`] makes sure that nothing outside of packet and context can be
//!    touched, whatever the packet and whatever was noted of it.
//! 3. [`optimise`] shares what several functions look at, and repairs each
//!    checksum once. Its result is verified again.
//! 4. [`Code::compile`] makes machine code of it.
//! 5. [`Fused`] runs the code over a burst, and lets the instances handle each packet
//!    that is punted.
//!
//! [`fuse`] finds the neighbours in compiled rules, and keeps what was compiled before.
//! [`interpret`] is the reference: it does with one packet what the
//! micro-operations say, one by one, with every access checked.
//!
//! `unsafe` stands in one module, `code/enter.rs`: memory for machine code, and
//! the call of it.

#![deny(unsafe_code)]

mod bits;
mod code;
mod expression;
mod fused;
mod interpret;
mod link;
mod optimise;
mod regions;
mod verify;

pub use code::{Code, CompileError, DroppedBy, Listing, Punted, Verdicts};
pub use fused::{Fused, FusedOutcome, FusedPart};
pub use interpret::{Ended, Fault, interpret};
pub use link::{LinkedProgram, Shape, Step};
pub use optimise::optimise;
pub use regions::{Compiled, FusedPlan, NOT_ON_WAY, Region, RegionWay, fuse};
pub use verify::{Rejected, verify, verify_program};

/// Functions that can be fused into one, at most.
pub const MAX_FUNCTIONS: usize = 16;
