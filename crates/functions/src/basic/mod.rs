//! Small functions for every chain: counting, filtering, forwarding and rewriting.

functions! {
    counter::Counter: Lower,
    filter::Filter: Lower,
    forward::Forward: Lower,
    pass::Pass: Lower,
    rewrite_address::RewriteAddress: Lower,
    synthetic::Synthetic: Lower,
}
