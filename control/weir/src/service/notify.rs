//! The protocol of sd_notify(3): datagrams of `KEY=value` lines to the socket that the environment names.
//!
//! Whoever started weir by hand listens to nothing of it, and a manager that is gone is no reason to stop: what
//! cannot be sent is not.

use nix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, if there is one.
#[derive(Debug)]
pub struct Notify {
    manager: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

/// A change that is being taken up; dropping this says that it is over.
#[derive(Debug)]
pub struct Reloading<'a>(&'a Notify);

impl Notify {
    /// As `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` say.
    pub fn from_environment() -> Self {
        let manager = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let socket = UnixDatagram::unbound().ok()?;
            // A manager that does not read must not hold up the control loop.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address(&name)?))
        });
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_meant = number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|_| is_meant).map(Duration::from_micros);
        Self { manager, watchdog }
    }

    /// Within what time it wants to hear that weir works; `None`: it does not.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog.filter(|_| self.is_heard())
    }

    /// Whether anybody listens.
    pub fn is_heard(&self) -> bool {
        self.manager.is_some()
    }

    /// Packets flow.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// A line for `systemctl status`.
    pub fn status(&self, text: &str) {
        self.send(&format!("STATUS={text}"));
    }

    /// Every worker turns.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// A change is taken up until the value is dropped.
    pub fn reloading(&self) -> Reloading<'_> {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
        Reloading(self)
    }

    /// weir has begun to stop.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, text: &str) {
        if let Some((socket, manager)) = &self.manager {
            let _ = socket.send_to_addr(text.as_bytes(), manager);
        }
    }
}

impl Drop for Reloading<'_> {
    fn drop(&mut self) {
        self.0.ready();
    }
}

/// A path, or with `@` in front a name in the abstract namespace.
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixDatagram, Notify) {
        let name = format!("@weir-notify-{}-{:?}", std::process::id(), std::thread::current().id());
        let manager = address(OsStr::new(&name)).unwrap();
        let socket = UnixDatagram::bind_addr(&manager).unwrap();
        let notify = Notify { manager: Some((UnixDatagram::unbound().unwrap(), manager)), watchdog: None };
        (socket, notify)
    }

    fn heard(socket: &UnixDatagram) -> String {
        let mut text = [0; 256];
        let len = socket.recv(&mut text).unwrap();
        String::from_utf8(text[..len].to_vec()).unwrap()
    }

    #[test]
    fn each_state_is_told_in_the_words_of_the_protocol() {
        let (socket, notify) = pair();
        notify.ready();
        notify.status("two links");
        notify.alive();
        notify.stopping();
        let told = [(); 4].map(|()| heard(&socket));
        assert_eq!(told, ["READY=1", "STATUS=two links", "WATCHDOG=1", "STOPPING=1"]);
    }

    #[test]
    fn a_reload_begins_with_its_time_and_ends_ready() {
        let (socket, notify) = pair();
        drop(notify.reloading());
        let told = heard(&socket);
        let at = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(at.parse::<u64>().unwrap() > 0, "{told}");
        assert_eq!(heard(&socket), "READY=1");
    }

    #[test]
    fn an_address_is_a_path_or_abstract() {
        assert!(address(OsStr::new("/run/notify")).unwrap().as_pathname().is_some());
        assert_eq!(address(OsStr::new("@x")).unwrap().as_abstract_name(), Some(b"x".as_slice()));
        assert!(address(OsStr::new("")).is_none() && address(OsStr::new("vsock:2:1")).is_none());
    }
}
