//! Functions, each on its own.

pub mod context_import;
pub mod esp;
pub mod iphc_compressor;
pub mod iphc_decompressor;
pub mod lwaftr;
pub mod nat;
pub mod route;
