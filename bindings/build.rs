//! Finds libdpdk by pkg-config, compiles the shim and generates the bindings.
//!
//! DPDK 22.11 (Debian 12) or later. Whatever is missing is said in one message with its remedy;
//! calls newer than 22.11 are decided by `RTE_VERSION` inside `shim.c`, so nothing here depends on
//! the version found.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    if let Err(message) = build() {
        // `cargo::error` fails the build after this script has ended: no backtrace, one line.
        println!("cargo::error={message}");
    }
}

fn build() -> Result<(), String> {
    for input in ["build.rs", "wrapper.h", "shim.h", "shim.c"] {
        println!("cargo::rerun-if-changed={input}");
    }
    for variable in ["PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "LIBCLANG_PATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let mut cflags = find_dpdk()?;
    if with_gso() {
        println!("cargo::rustc-link-lib=dylib=rte_gso");
        cflags.push("-DWITH_GSO".into());
    }
    if with_vhost() {
        println!("cargo::rustc-link-lib=dylib=rte_net_vhost");
        println!("cargo::rustc-link-lib=dylib=rte_vhost");
        cflags.push("-DWITH_VHOST".into());
    }
    compile_shim(&cflags)?;
    generate(&cflags)
}

/// Links the libraries that are called and returns the compiler flags that DPDK's headers need.
fn find_dpdk() -> Result<Vec<String>, String> {
    let version = pkg_config("--modversion")?;
    pkg_config(&format!("--atleast-version={OLDEST}"))
        .map_err(|_| format!("libdpdk {version} is too old, {OLDEST} or later is needed. {REMEDY}"))?;
    println!("cargo::rustc-link-search=native={}", pkg_config("--variable=libdir")?);
    let present = pkg_config("--libs")?;
    let since = LATER_LIBRARIES.iter().filter(|name| present.contains(&format!("-l{name}")));
    for name in LIBRARIES.iter().chain(since) {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
    Ok(pkg_config("--cflags")?.split_whitespace().map(str::to_owned).collect())
}

/// What pkg-config answers about libdpdk. Called directly, since the flags `-include` and `-march`
/// are needed as they are.
fn pkg_config(question: &str) -> Result<String, String> {
    let tool = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = Command::new(&tool)
        .args([question, "libdpdk"])
        .output()
        .map_err(|error| format!("cannot run {tool}: {error}. {REMEDY}"))?;
    if !output.status.success() {
        return Err(format!("libdpdk was not found by {tool}, {OLDEST} or later is needed. {REMEDY}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn compile_shim(cflags: &[String]) -> Result<(), String> {
    let mut cc = cc::Build::new();
    cc.file("shim.c").warnings(true).extra_warnings(true).flag("-std=gnu11").cargo_warnings(false);
    // One function per burst, called from Rust: the shim is on the packet path in every profile.
    cc.opt_level(3);
    for flag in cflags {
        cc.flag(flag);
    }
    cc.try_compile("dpdk_shim").map_err(|error| {
        one_line(&format!("cannot compile bindings/shim.c: {error}. Remedy: apt-get install gcc libdpdk-dev"))
    })
}

fn generate(cflags: &[String]) -> Result<(), String> {
    let mut builder = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(cflags)
        .use_core()
        .merge_extern_blocks(true)
        .generate_comments(false)
        .prepend_enum_name(false)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .derive_default(true)
        .formatter(bindgen::Formatter::None)
        .allowlist_recursively(true)
        .blocklist_type("rte_mbuf(__bindgen.*)?");
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    for name in TYPES {
        builder = builder.allowlist_type(name);
    }
    for name in OPAQUE {
        builder = builder.opaque_type(name);
    }
    for name in CONSTANTS {
        builder = builder.allowlist_var(name);
    }
    let bindings = without_panic(|| builder.generate())
        .map_err(|_| MISSING_CLANG.to_owned())?
        .map_err(|error| one_line(&format!("bindgen cannot read DPDK's headers: {error}. {REMEDY}")))?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?);
    bindings
        .write_to_file(out.join("bindings.rs"))
        .map_err(|error| format!("cannot write the generated bindings: {error}"))
}

/// The rings of a guest behind a vhost port.
fn with_vhost() -> bool {
    std::env::var_os("CARGO_FEATURE_VHOST").is_some()
}

/// DPDK's own segmentation, which ours is measured against.
fn with_gso() -> bool {
    std::env::var_os("CARGO_FEATURE_GSO").is_some()
}

/// A message to cargo ends with its line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// libclang is loaded at run time, and bindgen panics when there is none.
fn without_panic<T>(work: impl FnOnce() -> T) -> Result<T, ()> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    std::panic::set_hook(hook);
    result.map_err(|_| ())
}

const OLDEST: &str = "22.11";

const REMEDY: &str = "Remedy: apt-get install pkg-config libdpdk-dev (Debian 12 has 22.11), or set PKG_CONFIG_PATH to the directory of libdpdk.pc";

const MISSING_CLANG: &str = "libclang was not found, it is needed to read DPDK's headers. Remedy: apt-get install libclang-dev, or set LIBCLANG_PATH to the directory of libclang.so";

/// Only what is called; poll-mode drivers are plugins that the EAL loads at run time.
const LIBRARIES: &[&str] = &["rte_net_ring", "rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

/// What later releases moved out of those: the log out of rte_eal in 24.03.
const LATER_LIBRARIES: &[&str] = &["rte_log"];

const FUNCTIONS: &[&str] = &[
    "shim_.*",
    "rte_version",
    "rte_eal_init",
    "rte_eal_cleanup",
    "rte_eal_hotplug_add",
    "rte_eal_hotplug_remove",
    "rte_eal_has_hugepages",
    "rte_openlog_stream",
    "rte_get_tsc_hz",
    "rte_get_main_lcore",
    "rte_get_next_lcore",
    "rte_lcore_to_socket_id",
    "rte_lcore_to_cpu_id",
    "rte_eal_remote_launch",
    "rte_eal_wait_lcore",
    "rte_eal_get_lcore_state",
    "rte_pktmbuf_pool_create",
    "rte_mempool_free",
    "rte_mempool_avail_count",
    "rte_mempool_in_use_count",
    "rte_mempool_calc_obj_size",
    "rte_ring_create",
    "rte_ring_free",
    "rte_eth_from_rings",
    "rte_eth_find_next",
    "rte_eth_dev_get_port_by_name",
    "rte_eth_dev_get_name_by_port",
    "rte_eth_dev_fw_version_get",
    "rte_eth_dev_info_get",
    "rte_eth_dev_socket_id",
    "rte_eth_dev_is_removed",
    "rte_eth_dev_configure",
    "rte_eth_dev_adjust_nb_rx_tx_desc",
    "rte_eth_rx_queue_setup",
    "rte_eth_tx_queue_setup",
    "rte_eth_dev_start",
    "rte_eth_dev_stop",
    "rte_eth_dev_close",
    "rte_eth_dev_set_link_up",
    "rte_eth_dev_set_link_down",
    "rte_eth_promiscuous_disable",
    "rte_eth_promiscuous_enable",
    "rte_eth_allmulticast_enable",
    "rte_eth_stats_get",
    "rte_eth_macaddr_get",
    "rte_eth_dev_get_mtu",
    "rte_eth_dev_set_mtu",
    "rte_eth_dev_callback_register",
    "rte_eth_dev_callback_unregister",
    "rte_eth_tx_done_cleanup",
    "rte_eth_dev_rx_offload_name",
    "rte_eth_dev_tx_offload_name",
    "rte_dev_name",
    "rte_eth_vhost_get_vid_from_port_id",
    "rte_vhost_get_mem_table",
    "rte_vhost_get_negotiated_features",
    "rte_vhost_get_vhost_vring",
    "rte_gso_segment",
];

const TYPES: &[&str] = &[
    "rte_eth_conf",
    "rte_eth_dev_info",
    "rte_eth_rxconf",
    "rte_eth_txconf",
    "rte_eth_stats",
    "rte_ether_addr",
    "rte_gso_ctx",
];

/// Structs that are only handed back to DPDK.
const OPAQUE: &[&str] = &[
    "rte_mempool",
    "rte_ring",
    "rte_device",
    "rte_eth_dev",
    "rte_bus",
    "vring_(desc|avail|used)",
    "vring_packed_desc(_event)?",
];

const CONSTANTS: &[&str] = &["SHIM_.*", "MBUF_(SIZE|OFFSET_.*|BITS_.*)", "stdout"];
