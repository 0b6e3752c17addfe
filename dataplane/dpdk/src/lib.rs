//! Safe owners for the DPDK objects weir uses
