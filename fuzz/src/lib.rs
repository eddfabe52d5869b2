//! Fuzz targets: one for each thing that reads bytes which others have sent or written.
//!
//! A target is a function of an input. It panics when something is wrong: the code under
//! test panicked, or what it did breaks a rule that the target checks. `scripts/fuzz` runs
//! targets under libFuzzer, `tests/corpus.rs` over their corpora and over random changes of
//! those. `docs/fuzzing.md` says what each is for and how to add one.

#![forbid(unsafe_code)]

pub mod functions;
pub mod messages;
mod mutate;
pub mod nodes;
mod support;
pub mod text;
pub mod wire;

pub use mutate::Mutator;

/// Octets of the longest input: a jumbo frame.
pub const MAX_INPUT: usize = 9000;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Runs one input; panics on a fault.
    pub run: fn(&[u8]),
}

/// Makes the list of targets, and calls a macro with their names.
macro_rules! targets {
    ($($group:ident: $($name:ident),+;)+) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[
            $($(Target { name: stringify!($name), run: $group::$name::run },)+)+
        ];
        /// Calls a macro for each target, with its name.
        #[macro_export]
        macro_rules! for_each_target {
            ($call:ident) => { $($($call!($name);)+)+ };
        }
    };
}

targets! {
    wire: arp, ethernet, gtpu, icmpv4, icmpv6, iphc, ipv4, ipv6, nsh, pppoe, tcp, udp, vlan,
        vxlan_gpe;
    functions: context_import, esp, iphc_compressor, iphc_decompressor, lwaftr, nat, route;
    messages: bgp, function_moves, function_moves_http, handover, journal, pfcp, process_frame,
        process_protocol, transport;
    nodes: fused, gateway, service_path;
    text: capture, configuration, rules, yaml;
}
