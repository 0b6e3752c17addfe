//! Waits for the end of a program, which its descriptor tells (pidfd_open(2)).

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::AsFd;
use std::process::Child;
use std::time::Duration;

/// Whether `program` has ended, or does so in time; it is still to be waited for.
pub fn within(program: &mut Child, time: Duration) -> bool {
    // Reaped already: its number may be another's.
    if program.try_wait().is_ok_and(|status| status.is_some()) {
        return true;
    }
    let descriptor = pidfd_open(Pid::from_child(program), PidfdFlags::empty()).unwrap();
    let mut looked = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    poll(&mut looked, PollTimeout::try_from(time).unwrap()).unwrap() > 0
}
