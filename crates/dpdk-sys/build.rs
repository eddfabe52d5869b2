//! Finds DPDK by pkg-config, compiles the shim for its inline functions, and
//! generates bindings for the names on the allow-list only.

use std::path::PathBuf;

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
    "rte_eth_dev_rx_offload_name",
    "rte_eth_dev_socket_id",
    "rte_eth_dev_tx_offload_name",
    "rte_eth_from_rings",
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

const TYPES: &[&str] = &["rte_mbuf", "rte_mempool", "rte_ring", "rte_eth_.*", "rte_ether_addr"];

const VARIABLES: &[&str] = &["RTE_PKTMBUF_HEADROOM", "RING_F_SP_ENQ", "RING_F_SC_DEQ", "WEFT_.*"];

fn main() {
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-changed=src/shim.h");
    let dpdk = pkg_config::Config::new()
        .range_version("22.11".."24")
        .probe("libdpdk")
        .unwrap_or_else(|error| panic!("DPDK 22.11 not found (apt install libdpdk-dev): {error}"));
    // Memory rings become ports through a driver of their own, which
    // pkg-config leaves out as it does all drivers.
    println!("cargo:rustc-link-lib=rte_net_ring");

    let include: Vec<String> =
        dpdk.include_paths.iter().map(|path| format!("-I{}", path.display())).collect();
    let flags = ["-include", "rte_config.h", "-march=corei7"];

    let mut shim = cc::Build::new();
    shim.file("src/shim.c").opt_level(3).warnings(false);
    include.iter().map(String::as_str).chain(flags).for_each(|flag| {
        shim.flag(flag);
    });
    shim.compile("weft_dpdk_shim");

    let mut bindings = bindgen::Builder::default()
        .header("src/shim.h")
        .clang_args(include.iter().map(String::as_str).chain(flags))
        .generate_comments(false)
        .derive_default(true)
        .layout_tests(true)
        .prepend_enum_name(false)
        .use_core();
    for name in FUNCTIONS {
        bindings = bindings.allowlist_function(name);
    }
    for name in TYPES {
        bindings = bindings.allowlist_type(name);
    }
    for name in VARIABLES {
        bindings = bindings.allowlist_var(name);
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings
        .generate()
        .unwrap_or_else(|error| panic!("bindgen (apt install clang): {error}"))
        .write_to_file(out.join("bindings.rs"))
        .expect("OUT_DIR is writable");
}
