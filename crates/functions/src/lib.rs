//! The functions, one file each, and the [registry](KINDS) of them.
//!
//! Every file has the same parts: a `Config` for an instance, `Settings` for a
//! bearer, user or group, a `Context` that is kept for each of them, and the
//! type that implements [`UserPlaneFunction`](weft_function::UserPlaneFunction).
//! What a function costs and how it is used stands in `docs/functions/`, one
//! page each; `docs/writing-a-function.md` walks through adding one.

#![forbid(unsafe_code)]

use weft_compose::Kind;

#[cfg(test)]
mod composition;
mod congestion;
mod esp;
mod file_version;
mod first_fragments;
pub mod icmp_error;
mod iphc;
pub mod prefix;
mod shared_ports;
#[cfg(test)]
mod testing;
pub mod text;
pub mod tunnel;

/// Declares the module of each function and lists its kind, so that a function
/// is one line. `: Lower` behind it says that it can be fused.
macro_rules! registry {
    ($($module:ident::$function:ident $(: $lower:ident)?),* $(,)?) => {
        $(pub mod $module;)*

        /// All functions, by name.
        pub const KINDS: &[Kind] = &[$(kind_of!($module::$function $(: $lower)?)),*];
    };
}

macro_rules! kind_of {
    ($module:ident::$function:ident) => {
        Kind::of::<$module::$function>()
    };
    ($module:ident::$function:ident : Lower) => {
        Kind::lowered::<$module::$function>()
    };
}

registry! {
    counter::Counter: Lower,
    esp_decrypt::EspDecrypt,
    esp_encrypt::EspEncrypt,
    filter::Filter: Lower,
    forward::Forward: Lower,
    gtpu_decapsulate::GtpuDecapsulate: Lower,
    gtpu_encapsulate::GtpuEncapsulate: Lower,
    gtpu_relay::GtpuRelay: Lower,
    ip_header_compressor::IpHeaderCompressor,
    ip_header_decompressor::IpHeaderDecompressor,
    lwaftr::Lwaftr,
    marker::Marker: Lower,
    nat::Nat,
    pass::Pass: Lower,
    rewrite_address::RewriteAddress: Lower,
    route::Route,
    router_advertisement::RouterAdvertisement,
    synthetic::Synthetic,
}

/// The function of that name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}
