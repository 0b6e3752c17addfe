//! What bindgen makes of `wrapper.h`.
#![allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unnecessary_transmutes,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated"
)]

use crate::mbuf::rte_mbuf;

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
