//! Routing: the choice of a next hop, and a router's advertisements to its hosts.

mod fib;
mod table;
#[cfg(test)]
mod tests;
pub mod text;

functions! {
    route::Route,
    router_advertisement::RouterAdvertisement,
}
