//! A whole gateway: frames into the ports of a node, commands and time, in any order.
#![no_main]

#[path = "../../crates/node/tests/it/common/fuzzed.rs"]
mod fuzzed;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fuzzed::run(bytes));
