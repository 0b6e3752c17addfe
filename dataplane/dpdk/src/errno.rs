//! Error numbers of DPDK calls, shown by name.

use std::fmt;

/// A positive errno value as DPDK returned it, either as `-errno` or in `rte_errno`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

impl Errno {
    /// The call is not offered by this driver.
    pub const ENOTSUP: Self = Self(libc::ENOTSUP);
    /// Not enough memory.
    pub const ENOMEM: Self = Self(libc::ENOMEM);
    /// Invalid argument.
    pub const EINVAL: Self = Self(libc::EINVAL);
    /// The name is taken.
    pub const EEXIST: Self = Self(libc::EEXIST);

    /// From a return value, whichever its sign.
    pub const fn new(value: i32) -> Self {
        Self(value.saturating_abs())
    }

    /// What the last failed call of this thread left in `rte_errno`.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local variable of the EAL, which exists before rte_eal_init too.
        Self::new(unsafe { dpdk_sys::shim_errno() })
    }

    /// `Ok` of a return value that is not negative.
    pub(crate) fn check(ret: i32) -> Result<i32, Self> {
        if ret < 0 { Err(Self::new(ret)) } else { Ok(ret) }
    }

    /// The positive value.
    pub const fn value(self) -> i32 {
        self.0
    }

    /// The symbol, or `None` for a number that has no name here.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(value, _)| *value == self.0).map(|(_, name)| *name)
    }

    /// Whether the driver said that it does not offer the call at all.
    pub const fn is_unsupported(self) -> bool {
        self.0 == libc::ENOTSUP || self.0 == libc::ENOSYS
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (-{})", self.name().unwrap_or("errno"), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! names {
    ($($name:ident),* $(,)?) => { &[$((libc::$name, stringify!($name))),*] };
}

/// Those that libdpdk and the kernel calls inside its drivers return. ENOTSUP is EOPNOTSUPP on Linux.
const NAMES: &[(i32, &str)] = names![
    EPERM,
    ENOENT,
    EINTR,
    EIO,
    ENXIO,
    E2BIG,
    ENOEXEC,
    EBADF,
    ECHILD,
    EAGAIN,
    ENOMEM,
    EACCES,
    EFAULT,
    EBUSY,
    EEXIST,
    EXDEV,
    ENODEV,
    ENOTDIR,
    EISDIR,
    EINVAL,
    ENFILE,
    EMFILE,
    ENOTTY,
    EFBIG,
    ENOSPC,
    EROFS,
    EMLINK,
    EPIPE,
    EDOM,
    ERANGE,
    EDEADLK,
    ENAMETOOLONG,
    ENOSYS,
    ELOOP,
    ENODATA,
    ETIME,
    EPROTO,
    EBADMSG,
    EOVERFLOW,
    EILSEQ,
    ENOTSOCK,
    EMSGSIZE,
    EPROTONOSUPPORT,
    ENOTSUP,
    EAFNOSUPPORT,
    EADDRINUSE,
    EADDRNOTAVAIL,
    ENETDOWN,
    ENOBUFS,
    EISCONN,
    ENOTCONN,
    ETIMEDOUT,
    ECONNREFUSED,
    EHOSTDOWN,
    EALREADY,
    EINPROGRESS,
    ECANCELED,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_name_and_the_returned_value() {
        assert_eq!(Errno::new(-22).to_string(), "EINVAL (-22)");
        assert_eq!(Errno::new(95).to_string(), "ENOTSUP (-95)");
        assert_eq!(Errno::new(-4242).to_string(), "errno (-4242)");
        assert_eq!(Errno::new(i32::MIN).value(), i32::MAX);
    }
}
