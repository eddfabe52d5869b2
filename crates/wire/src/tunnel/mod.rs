//! What carries packets inside packets: GTP-U, NSH, VXLAN-GPE, ESP, and IP header compression.

pub mod esp;
pub mod gtpu;
pub mod iphc;
pub mod nsh;
pub mod vxlan_gpe;
