//! Device strings as DPDK writes them: `[BUS:]NAME[,KEY=VALUE…]`.

use std::ffi::{CString, NulError};

/// A device string taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Devargs<'a> {
    pub(crate) bus: &'a str,
    pub(crate) name: &'a str,
    pub(crate) args: &'a str,
}

impl<'a> Devargs<'a> {
    /// `None` for an empty name. Without a bus, a PCI address is on `pci`, anything else on `vdev`.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (device, args) = text.split_once(',').unwrap_or((text, ""));
        let (bus, name) = match device.split_once(':') {
            Some((bus, name))
                if bus.starts_with(|c: char| c.is_ascii_alphabetic()) && !is_pci_address(device) =>
            {
                (bus, name)
            }
            _ if is_pci_address(device) => ("pci", device),
            _ => ("vdev", device),
        };
        (!name.is_empty()).then_some(Self { bus, name, args })
    }

    pub(crate) fn c_strings(&self) -> Result<(CString, CString, CString), NulError> {
        Ok((CString::new(self.bus)?, CString::new(self.name)?, CString::new(self.args)?))
    }
}

/// `DDDD:BB:DD.F` or `BB:DD.F`.
fn is_pci_address(text: &str) -> bool {
    let mut parts = text.rsplit(':');
    let Some((device, function)) = parts.next().and_then(|part| part.split_once('.')) else { return false };
    let hex = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let rest: Vec<&str> = parts.collect();
    hex(device) && hex(function) && matches!(rest.len(), 1 | 2) && rest.iter().all(|part| hex(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_device_strings_apart() {
        let parse = |text| Devargs::parse(text).map(|d| (d.bus, d.name, d.args));
        assert_eq!(parse("net_tap0,iface=t0,mac=fixed"), Some(("vdev", "net_tap0", "iface=t0,mac=fixed")));
        assert_eq!(parse("0000:01:00.0"), Some(("pci", "0000:01:00.0", "")));
        assert_eq!(parse("ab:cd.1"), Some(("pci", "ab:cd.1", "")));
        assert_eq!(parse("pci:0000:01:00.0,x=1"), Some(("pci", "0000:01:00.0", "x=1")));
        assert_eq!(parse("vdev:net_null0"), Some(("vdev", "net_null0", "")));
        assert_eq!(parse("net_virtio_user0,path=/a:b"), Some(("vdev", "net_virtio_user0", "path=/a:b")));
        assert_eq!(parse(""), None);
        assert_eq!(parse(",iface=x"), None);
    }
}
