//! weir as a service: what systemd is told, which privileges are kept, and what becomes of the ports afterwards.

pub mod capabilities;
pub mod handover;
mod heartbeat;
mod netlink;
mod notify;

pub use heartbeat::Heartbeat;
pub use notify::Notify;

/// Exit status for a configuration that is wrong (`EX_CONFIG` of sysexits(3)): the unit does not start weir again
/// and again with it.
pub const BAD_CONFIGURATION: u8 = 78;
