//! Two gateways that differ in one thing: the functions of the one are called, those of the
//! other are one loop of machine code. Whatever comes, both send the same frames and count
//! the same.

use std::cell::RefCell;

use crate::nodes::gateway::Gateway;

thread_local! {
    static PAIR: &'static RefCell<[Gateway; 2]> = Box::leak(Box::new(RefCell::new([
        Gateway::new("called", "call"),
        Gateway::new("linked", "fused"),
    ])));
}

/// What was dropped, by function and reason, and what functions have seen.
type Counted = (Vec<(Option<String>, String, u64)>, Vec<(String, u64, u64)>);

fn counted(gateway: &mut Gateway) -> Counted {
    let seen = gateway.snapshot();
    let drops =
        seen.drops.iter().map(|one| (one.function.clone(), one.reason.clone(), one.packets));
    let functions = seen.functions.iter().map(|one| (one.name.clone(), one.packets, one.bytes));
    (drops.collect(), functions.collect())
}

/// Runs one input.
pub fn run(input: &[u8]) {
    PAIR.with(|pair| {
        let mut pair = pair.borrow_mut();
        let [called, fused] = pair.each_mut().map(|gateway| {
            let mut frames = Vec::new();
            gateway.play(input, &mut |port, frame| frames.push((port, frame.to_vec())));
            (frames, counted(gateway))
        });
        assert_eq!(called, fused);
    });
}
