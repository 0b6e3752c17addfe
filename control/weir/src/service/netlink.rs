//! As much of rtnetlink(7) as a bridge needs: made, found, filled, removed.
//!
//! Each request is one message, answered by the kernel with an error number. Needs CAP_NET_ADMIN, but for
//! [`Netlink::link`].

use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use std::os::fd::{AsRawFd, OwnedFd};

/// A socket to the kernel's table of interfaces, of the network namespace that it was opened in.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

/// What is known of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    /// What somebody wrote to it (`ip link set dev X alias TEXT`).
    pub alias: String,
    /// The bridge or bond that it is part of.
    pub master: Option<u32>,
}

impl Netlink {
    /// Opens it.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)
            .context("netlink")?;
        Ok(Self(socket))
    }

    /// The interface `name`, if there is one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn find(&self, name: &str) -> Result<Option<Link>> {
        match if_nametoindex(name) {
            Ok(index) => self.link(index).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The interface with this index.
    ///
    /// # Errors
    /// The kernel's.
    pub fn link(&self, index: u32) -> Result<Link> {
        let answer = self.ask(&Message::new(GETLINK, REQUEST, index))?;
        parse(&answer).with_context(|| format!("interface {index}: the kernel's answer is short"))
    }

    /// Makes a bridge that is as transparent as the kernel's can be: no spanning tree, no multicast snooping,
    /// and of the reserved addresses (IEEE 802.1Q, table 8-1) all pass that the kernel lets.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_bridge(&self, name: &str, alias: &str) -> Result<Link> {
        let mut message = Message::new(NEWLINK, REQUEST | ACK | CREATE | EXCLUSIVE, 0);
        message.text(IFNAME, name);
        message.nest(LINKINFO, |info| {
            info.text(INFO_KIND, "bridge");
            info.nest(INFO_DATA, |data| {
                data.attribute(BR_STP_STATE, &0_u32.to_ne_bytes());
                data.attribute(BR_GROUP_FWD_MASK, &FORWARDED_GROUPS.to_ne_bytes());
                data.attribute(BR_MCAST_SNOOPING, &[0]);
            });
        });
        self.ask(&message).with_context(|| format!("cannot make the bridge {name}"))?;
        let index = if_nametoindex(name)?;
        let mut message = Message::new(SETLINK, REQUEST | ACK, index);
        message.text(IFALIAS, alias);
        // It passes frames on, and is no host: no address of its own, so that nobody finds one there.
        message.nest(AF_SPEC, |families| {
            families.nest(AF_INET6, |inet6| inet6.attribute(INET6_ADDR_GEN_MODE, &[NO_ADDRESS]));
        });
        self.ask(&message).with_context(|| format!("cannot set up the bridge {name}"))?;
        self.link(index)
    }

    /// Makes an interface part of a bridge, of none with 0.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_master(&self, index: u32, bridge: u32) -> Result<()> {
        let mut message = Message::new(SETLINK, REQUEST | ACK, index);
        message.attribute(MASTER, &bridge.to_ne_bytes());
        self.ask(&message).map(drop)
    }

    /// Sets an interface up.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_up(&self, index: u32) -> Result<()> {
        let mut message = Message::new(SETLINK, REQUEST | ACK, index);
        message.flags(IFF_UP);
        self.ask(&message).map(drop)
    }

    /// Removes a bridge; its ports stay, each by itself.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove(&self, index: u32) -> Result<()> {
        self.ask(&Message::new(DELLINK, REQUEST | ACK, index)).map(drop)
    }

    /// Sends a message and takes the answer: a link's attributes, or nothing but that it was done.
    fn ask(&self, message: &Message) -> Result<Vec<u8>> {
        let socket = self.0.as_raw_fd();
        sendto(socket, &message.bytes(), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut answer = vec![0; ANSWER];
        let len = recv(socket, &mut answer, MsgFlags::empty())?;
        answer.truncate(len);
        let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
        match (kind, answer.get(16..20).and_then(|code| code.try_into().ok()).map(i32::from_ne_bytes)) {
            (Some(ERROR), Some(0)) => Ok(answer),
            (Some(ERROR), Some(code)) => Err(anyhow!(Errno::from_raw(-code))),
            (Some(NEWLINK), _) => Ok(answer),
            _ => Err(anyhow!("the kernel's answer on netlink cannot be read")),
        }
    }
}

/// A request about one interface.
struct Message {
    kind: u16,
    how: u16,
    /// `struct ifinfomsg`, then attributes.
    body: Vec<u8>,
}

impl Message {
    fn new(kind: u16, how: u16, index: u32) -> Self {
        let mut body = vec![0; IFINFOMSG];
        body.splice(4..8, index.to_ne_bytes());
        Self { kind, how, body }
    }

    fn flags(&mut self, flags: u32) {
        self.body.splice(8..12, flags.to_ne_bytes());
        self.body.splice(12..16, flags.to_ne_bytes());
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nest(kind, |inner| inner.body.extend(value));
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.body.len();
        self.body.extend([0, 0]);
        self.body.extend(kind.to_ne_bytes());
        fill(self);
        let len = (self.body.len() - start) as u16;
        self.body.splice(start..start + 2, len.to_ne_bytes());
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = ((HEADER + self.body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend([self.kind, self.how].into_iter().flat_map(u16::to_ne_bytes));
        // Sequence number and sender: one question at a time needs neither.
        bytes.extend([0; 8]);
        bytes.extend(&self.body);
        bytes
    }
}

/// What of an interface's answer is of use here.
fn parse(answer: &[u8]) -> Option<Link> {
    let index = u32::from_ne_bytes(answer.get(HEADER + 4..HEADER + 8)?.try_into().ok()?);
    let mut link = Link { index, ..Link::default() };
    let mut rest = answer.get(HEADER + IFINFOMSG..)?;
    while let (Some(len), Some(kind)) = (word(rest, 0), word(rest, 2)) {
        let value = rest.get(4..usize::from(len))?;
        match kind & ATTRIBUTE {
            MASTER => link.master = Some(u32::from_ne_bytes(value.try_into().ok()?)),
            IFALIAS => link.alias = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
            _ => {}
        }
        rest = rest.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(link)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Length of `struct ifinfomsg`.
const IFINFOMSG: usize = 16;
/// Room for what the kernel says of one interface.
const ANSWER: usize = 16 << 10;

// linux/netlink.h
const ERROR: u16 = 2;
const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
/// `NLA_TYPE_MASK`
const ATTRIBUTE: u16 = 0x3fff;

// linux/rtnetlink.h
const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const SETLINK: u16 = 19;

// linux/if_link.h and linux/if.h
const IFNAME: u16 = 3;
const MASTER: u16 = 10;
const LINKINFO: u16 = 18;
const IFALIAS: u16 = 20;
const AF_SPEC: u16 = 26;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const BR_STP_STATE: u16 = 5;
const BR_GROUP_FWD_MASK: u16 = 9;
const BR_MCAST_SNOOPING: u16 = 23;
const AF_INET6: u16 = 10;
const INET6_ADDR_GEN_MODE: u16 = 8;
/// `IN6_ADDR_GEN_MODE_NONE`
const NO_ADDRESS: u8 = 1;
const IFF_UP: u32 = 1;

/// All of 01:80:c2:00:00:0X but STP (0), pause frames (1) and LACP (2), which the kernel refuses to pass on.
const FORWARDED_GROUPS: u16 = 0xfff8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested() {
        let mut message = Message::new(NEWLINK, REQUEST, 7);
        message.nest(LINKINFO, |info| info.text(INFO_KIND, "br"));
        message.attribute(MASTER, &9_u32.to_ne_bytes());
        let bytes = message.bytes();
        assert_eq!(bytes.len() as u32, u32::from_ne_bytes(bytes[..4].try_into().unwrap()));
        assert_eq!(bytes[HEADER + IFINFOMSG..][..12], [12, 0, 18, 0, 7, 0, 1, 0, b'b', b'r', 0, 0]);
        assert_eq!(parse(&bytes), Some(Link { index: 7, alias: String::new(), master: Some(9) }));
    }

    #[test]
    fn a_short_answer_is_none() {
        let bytes = Message::new(NEWLINK, REQUEST, 7).bytes();
        assert_eq!(parse(&bytes[..HEADER + 6]), None);
        let mut cut = bytes;
        cut.extend([40, 0, 20, 0, 1]);
        assert_eq!(parse(&cut), None);
        assert_eq!(parse(&[]), None);
    }

    #[test]
    fn the_loopback_is_found_and_what_is_not_there_is_not() {
        let netlink = Netlink::open().unwrap();
        let loopback = netlink.find("lo").unwrap().unwrap();
        assert_eq!((loopback.index, loopback.master), (if_nametoindex("lo").unwrap(), None));
        assert_eq!(netlink.find("weir-no-such").unwrap(), None);
        assert!(netlink.link(u32::MAX / 2).is_err());
    }
}
