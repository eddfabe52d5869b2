//! Finds DPDK by pkg-config and compiles the shim for its inline functions. The bindings, of the
//! names on the allow-list only, are in the tree for DPDK 22.11, so that a build needs neither
//! bindgen nor clang: `scripts/dpdk-bindings` makes them. For another series of DPDK, or one
//! that was configured otherwise, the program `bindgen` makes them here.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Functions that the safe layer calls. DPDK exports a thousand more.
const FUNCTIONS: &[&str] = &[
    "rte_eal_init",
    "rte_eal_hotplug_add",
    "rte_eal_hotplug_remove",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_info_get",
    "rte_eth_dev_configure",
    "rte_dev_event_callback_register",
    "rte_dev_event_callback_unregister",
    "rte_eth_dev_adjust_nb_rx_tx_desc",
    "rte_eth_dev_callback_register",
    "rte_eth_dev_callback_unregister",
    "rte_eth_rx_queue_setup",
    "rte_eth_tx_queue_setup",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_dev_close",
    "rte_eth_dev_set_mtu",
    "rte_eth_macaddr_get",
    "rte_eth_promiscuous_enable",
    "rte_eth_promiscuous_disable",
    "rte_eth_link_get_nowait",
    "rte_eth_stats_get",
    "rte_eth_xstats_get",
    "rte_eth_xstats_get_names",
    "rte_eth_dev_rss_reta_update",
    "rte_eth_dev_rx_intr_ctl_q_get_fd",
    "rte_eth_dev_rx_intr_disable",
    "rte_eth_dev_rx_intr_enable",
    "rte_eth_dev_rx_offload_name",
    "rte_eth_dev_socket_id",
    "rte_eth_dev_tx_offload_name",
    "rte_eth_from_rings",
    "rte_flow_create",
    "rte_flow_destroy",
    "rte_flow_flush",
    "rte_flow_validate",
    "rte_cryptodev_get_dev_id",
    "rte_cryptodev_sym_get_private_session_size",
    "rte_cryptodev_sym_session_free",
    "rte_cryptodev_sym_session_pool_create",
    "rte_get_tsc_hz",
    "rte_log_set_global_level",
    "rte_malloc_get_socket_stats",
    "rte_pktmbuf_pool_create",
    "rte_pktmbuf_free_bulk",
    "rte_mempool_free",
    "rte_mempool_mem_iter",
    "rte_mempool_avail_count",
    "rte_ring_create",
    "rte_ring_free",
    "rte_socket_count",
    "rte_socket_id",
    "rte_socket_id_by_idx",
    "rte_version",
    "weft_.*",
];

const TYPES: &[&str] = &[
    "rte_dev_event_type",
    "rte_eth_event_type",
    "rte_eth_rx_mq_mode",
    "rte_flow_action_queue",
    "rte_flow_action_type",
    "rte_flow_item_gtp",
    "rte_flow_item_ipv4",
    "rte_flow_item_ipv6",
    "rte_flow_item_type",
    "rte_mbuf",
    "rte_mempool",
    "rte_ring",
];

/// Types whose fields the safe layer does not read.
const OPAQUE: &[&str] = &[
    "rte_device",
    "rte_eth_dcb_.*",
    "rte_eth_rxseg.*",
    "rte_eth_vmdq_.*",
    "rte_mbuf_ext_shared_info",
    "rte_mempool",
    "rte_mempool_cache",
    "rte_mempool_objhdr",
    "rte_memzone",
    "rte_ring",
    "rte_ring_.*",
    "__rte_ring.*",
];

const VARIABLES: &[&str] = &["RTE_PKTMBUF_HEADROOM", "RING_F_SP_ENQ", "RING_F_SC_DEQ", "WEFT_.*"];

/// The series of DPDK that the bindings in the tree are of: its stable releases keep one binary
/// interface.
const SERIES: &str = "22.11";

/// Compiles where structures and constants are as these bindings have them: DPDK may have been
/// configured otherwise.
const LAYOUT: &str = "bindings/dpdk-22.11.c";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={LAYOUT}");
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-changed=src/shim.h");
    println!("cargo:rerun-if-env-changed=WEFT_BINDINGS");
    println!("cargo:rustc-check-cfg=cfg(generated)");
    let dpdk = pkg_config::Config::new()
        .range_version("22.11".."24")
        .probe("libdpdk")
        .unwrap_or_else(|error| panic!("DPDK 22.11 not found (apt install libdpdk-dev): {error}"));
    // Memory rings become ports through a driver of their own, which
    // pkg-config leaves out as it does all drivers.
    println!("cargo:rustc-link-lib=rte_net_ring");

    let mut flags: Vec<String> =
        dpdk.include_paths.iter().map(|path| format!("-I{}", path.display())).collect();
    flags.extend(["-include", "rte_config.h", "-march=corei7"].map(str::to_owned));
    let mut shim = cc::Build::new();
    shim.opt_level(3).warnings(false);
    flags.iter().for_each(|flag| {
        shim.flag(flag);
    });
    let mut layout = shim.clone();
    layout.file(LAYOUT).cargo_metadata(false);
    shim.file("src/shim.c").compile("weft_dpdk_shim");

    let is_of_series = dpdk.version.strip_prefix(SERIES).is_some_and(|rest| {
        // Not 22.110.
        rest.is_empty() || rest.starts_with('.')
    });
    let is_wanted = env::var_os("WEFT_BINDINGS").is_some_and(|wish| wish == "generate");
    if is_wanted || !is_of_series || layout.try_compile("weft_dpdk_layout").is_err() {
        println!("cargo:rustc-cfg=generated");
        generate(&dpdk.version, &flags);
    }
}

/// Writes bindings into OUT_DIR, for a DPDK of another series or another layout.
fn generate(version: &str, flags: &[String]) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut bindgen = Command::new("bindgen");
    bindgen.arg("src/shim.h").arg("--output").arg(out.join("bindings.rs"));
    bindgen.args(["--no-doc-comments", "--no-prepend-enum-name", "--with-derive-default"]);
    bindgen.arg("--use-core");
    let lists = [
        ("--allowlist-function", FUNCTIONS),
        ("--allowlist-type", TYPES),
        ("--allowlist-var", VARIABLES),
        ("--opaque-type", OPAQUE),
    ];
    for (option, names) in lists {
        names.iter().for_each(|name| {
            bindgen.args([option, name]);
        });
    }
    let done = bindgen.arg("--").args(flags).status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "DPDK {version} needs bindings of its own: apt install clang, and \
         cargo install --locked --version 0.72.1 bindgen-cli"
    );
}
