//! Raw FFI to libdpdk: no logic, exact allowlist, layout asserted
