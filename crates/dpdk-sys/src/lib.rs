//! Bindings to DPDK: generated for an allow-list of names (`build.rs`), plus a C shim
//! for the functions that DPDK keeps inline in its headers. No logic is here;
//! the safe layer is the crate `weft-dpdk`.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    unsafe_op_in_unsafe_fn,
    unnecessary_transmutes
)]

#[cfg(not(generated))]
include!("../bindings/dpdk-22.11.rs");

#[cfg(generated)]
include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
