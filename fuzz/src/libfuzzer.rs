//! One target under libFuzzer: that which `WEFT_FUZZ_TARGET` names.
#![no_main]

use std::sync::OnceLock;

use weft_fuzz::{TARGETS, Target};

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("WEFT_FUZZ_TARGET").unwrap_or_default();
        TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
            eprintln!("WEFT_FUZZ_TARGET names no target: '{name}'");
            std::process::exit(2)
        })
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (target().run)(bytes));
