//! Device strings as DPDK writes them: `[BUS:]NAME[,KEY=VALUE…]`.

use std::borrow::Cow;
use std::ffi::{CString, NulError};

/// A device string taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Devargs<'a> {
    pub(crate) bus: &'a str,
    /// As the bus names the device: one device has one name, whichever way it was written.
    pub(crate) name: Cow<'a, str>,
    pub(crate) args: &'a str,
}

impl<'a> Devargs<'a> {
    /// `None` for what cannot name a device. Without a bus, a PCI address is on `pci`, anything
    /// else on `vdev`.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (device, args) = text.split_once(',').unwrap_or((text, ""));
        if let Some(name) = pci_address(device.strip_prefix("pci:").unwrap_or(device)) {
            return Some(Self { bus: "pci", name: name.into(), args });
        }
        let (bus, name) = device.split_once(':').unwrap_or(("vdev", device));
        let valid = !bus.is_empty() && bus != "pci" && !name.is_empty();
        valid.then_some(Self { bus, name: name.into(), args })
    }

    pub(crate) fn c_strings(&self) -> Result<(CString, CString, CString), NulError> {
        Ok((CString::new(self.bus)?, CString::new(&*self.name)?, CString::new(self.args)?))
    }
}

/// `DDDD:BB:DD.F` from that or from `BB:DD.F`, with any number of hexadecimal digits.
fn pci_address(text: &str) -> Option<String> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    let hex = |digits: &str, max: u32| {
        let valid = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|value| valid && *value <= max)
    };
    let (domain, bus) = (hex(domain, u32::MAX)?, hex(bus, 0xff)?);
    let (device, function) = (hex(device, 0x1f)?, hex(function, 7)?);
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_device_strings_apart() {
        let parse = |text| Devargs::parse(text).map(|d| (d.bus, d.name.into_owned(), d.args));
        let is = |bus, name: &str, args| Some((bus, name.to_owned(), args));
        assert_eq!(parse("net_tap0,iface=t0,mac=fixed"), is("vdev", "net_tap0", "iface=t0,mac=fixed"));
        assert_eq!(parse("pci:0000:01:00.0,x=1"), is("pci", "0000:01:00.0", "x=1"));
        assert_eq!(parse("vdev:net_null0"), is("vdev", "net_null0", ""));
        assert_eq!(parse("net_virtio_user0,path=/a:b"), is("vdev", "net_virtio_user0", "path=/a:b"));
        assert_eq!(parse("auxiliary:mlx5_core.sf.2"), is("auxiliary", "mlx5_core.sf.2", ""));
        for text in ["", ",iface=x", "vdev:", ":net_null0", "pci:net_null0", "pci:0000:01:00.9"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_pci_device_has_one_name() {
        for text in ["0000:ab:1d.1", "AB:1d.1", "0:ab:1D.1", "pci:ab:1d.1"] {
            assert_eq!(Devargs::parse(text).map(|d| d.name.into_owned()).as_deref(), Some("0000:ab:1d.1"));
        }
    }
}
