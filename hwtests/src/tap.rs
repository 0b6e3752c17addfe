//! A TAP interface held by this process: what is written to it the kernel receives, what the kernel sends is read.
//!
//! Follows `Documentation/networking/tuntap.rst` and `linux/if_tun.h`. The interface lives as long as its [`Tap`],
//! in whatever namespace it was moved to.
//!
//! The calls that make a TAP of an open `/dev/net/tun` are `ioctl`s, which Rust offers only as unsafe functions. They
//! act on the open file, not on the process: a child that inherits the file (perl, in every Debian) makes them.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// An interface and the file that its frames pass through.
#[derive(Debug)]
pub struct Tap {
    file: File,
    buffer: Vec<u8>,
}

impl Tap {
    /// Makes interface `name` in the namespace of this process. It takes no offload: what the kernel sends through it
    /// has been cut and summed.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self::configured(name, IFF_TAP | IFF_NO_PI, 0, 0)?.0)
    }

    /// The same with a `virtio_net_hdr` of [`VNET_HEADER_LEN`] bytes before each frame, both ways. Whether the kernel
    /// takes super-packets in UDP tunnels too (Linux 6.17 and later).
    pub fn with_vnet_header(name: &str) -> Result<(Self, bool)> {
        Self::configured(name, IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, VNET_HEADER_LEN, TUN_F_ALL)
    }

    /// The file, without blocking: a frame per read and per write.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Hands the kernel one frame.
    pub fn send(&mut self, frame: &[u8]) -> Result<()> {
        let written = self.file.write(frame).context("the kernel does not take the frame")?;
        ensure!(written == frame.len(), "the kernel took {written} of {} bytes", frame.len());
        Ok(())
    }

    /// The next frame that the kernel sends; an error if none comes within `timeout`.
    pub fn receive(&mut self, timeout: Duration) -> Result<&[u8]> {
        let timeout = Timespec::try_from(timeout)?;
        loop {
            match self.file.read(&mut self.buffer) {
                Ok(len) => return Ok(&self.buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("cannot read from a TAP"),
            }
            let ready = poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&timeout))?;
            ensure!(ready > 0, "no frame came out of a TAP within {timeout:?}");
        }
    }

    fn configured(name: &str, flags: u16, header_len: usize, offloads: u32) -> Result<(Self, bool)> {
        let file = File::options()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(DEVICE)
            .with_context(|| {
                format!("cannot open {DEVICE}: a TAP needs root and a kernel with CONFIG_TUN")
            })?;
        let output = Command::new("perl")
            .args(["-e", IOCTLS, name])
            .args([flags.to_string(), header_len.to_string(), offloads.to_string()])
            .stdin(Stdio::from(file.try_clone()?))
            .output()
            .context("cannot run perl (Debian package perl-base)")?;
        ensure!(
            output.status.success(),
            "cannot make TAP {name}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok((Self { file, buffer: vec![0; LONGEST] }, output.stdout == b"offloads taken"))
    }
}

/// Bytes of `struct virtio_net_hdr_v1_hash_tunnel`, the longest that `linux/virtio_net.h` has. Kernels that know only
/// its first ten skip the rest.
pub const VNET_HEADER_LEN: usize = 24;

const DEVICE: &str = "/dev/net/tun";
const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
/// Checksums, TSO for IPv4 and IPv6, UDP segmentation likewise, and all of it in UDP tunnels, with outer checksum too.
const TUN_F_ALL: u32 = 0x01 | 0x02 | 0x04 | 0x20 | 0x40 | 0x80 | 0x100;
/// `TUNSETIFF`, `TUNSETVNETHDRSZ` and `TUNSETOFFLOAD` on standard input.
const IOCTLS: &str = r#"
    my ($name, $flags, $header, $offloads) = @ARGV;
    ioctl(STDIN, 0x400454ca, pack("Z16 S x22", $name, $flags)) or die "TUNSETIFF: $!\n";
    !$header or ioctl(STDIN, 0x400454d8, pack("i", $header)) or die "TUNSETVNETHDRSZ: $!\n";
    print "offloads taken" if $offloads and ioctl(STDIN, 0x400454d0, int $offloads);
"#;
/// A frame of 65535 bytes of IP with Ethernet header, tags and `virtio_net_hdr`, and then some.
const LONGEST: usize = 66_000;
