//! What is left to a port when it sends, and why no more.

use engine::split::offload::{Segmentation, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// What is left to one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffloadReport {
    /// `works`, `off`, `not-offered`, `known-fault` or `refused`, as found at start.
    pub tso: String,
    /// What is known to be wrong with its segmentation.
    pub tso_fault: Option<String>,
    /// It cuts TCP over IPv4.
    pub tso_v4: bool,
    /// It cuts TCP over IPv6.
    pub tso_v6: bool,
    /// It writes TCP checksums.
    pub tcp_checksum: bool,
    /// It writes UDP checksums.
    pub udp_checksum: bool,
}

impl From<&Verdict> for OffloadReport {
    fn from(verdict: &Verdict) -> Self {
        let (tso, fault) = match verdict.segmentation {
            Segmentation::Works => ("works", None),
            Segmentation::Off => ("off", None),
            Segmentation::NotOffered => ("not-offered", None),
            Segmentation::KnownFault(fault) => ("known-fault", Some(fault)),
            Segmentation::Refused => ("refused", None),
        };
        Self {
            tso: tso.to_owned(),
            tso_fault: fault.map(str::to_owned),
            tso_v4: verdict.offload.tso_v4,
            tso_v6: verdict.offload.tso_v6,
            tcp_checksum: verdict.offload.tcp_checksum,
            udp_checksum: verdict.offload.udp_checksum,
        }
    }
}

impl Display for OffloadReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.tso.as_str() {
            "works" => write!(f, "tso by the port for {}", both(self.tso_v4, "IPv4", self.tso_v6, "IPv6"))?,
            "off" => write!(f, "tso off")?,
            "not-offered" => write!(f, "tso not offered by the driver")?,
            "refused" => write!(f, "tso not used: the driver's tx_prepare refuses it")?,
            _ => write!(f, "tso not used")?,
        }
        write!(f, "; checksums by the port: {}", both(self.tcp_checksum, "TCP", self.udp_checksum, "UDP"))?;
        match &self.tso_fault {
            Some(fault) => write!(f, "\n  known fault: {fault}"),
            None => Ok(()),
        }
    }
}

/// The names of what there is.
fn both(has_one: bool, one: &str, has_other: bool, other: &str) -> String {
    match (has_one, has_other) {
        (true, true) => format!("{one} and {other}"),
        (true, false) => one.to_owned(),
        (false, true) => other.to_owned(),
        (false, false) => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::split::offload::Offload;

    fn shown(segmentation: Segmentation, offload: Offload) -> String {
        OffloadReport::from(&Verdict { offload, segmentation }).to_string()
    }

    #[test]
    fn each_verdict_is_told() {
        let all =
            Offload { tso_v4: true, tso_v6: true, tcp_checksum: true, udp_checksum: true, ..Offload::NONE };
        let works = "tso by the port for IPv4 and IPv6; checksums by the port: TCP and UDP";
        assert_eq!(shown(Segmentation::Works, all), works);
        let four = Offload { tso_v4: true, tcp_checksum: true, ..Offload::NONE };
        assert_eq!(shown(Segmentation::Works, four), "tso by the port for IPv4; checksums by the port: TCP");
        assert_eq!(shown(Segmentation::Off, Offload::NONE), "tso off; checksums by the port: none");
        assert_eq!(
            shown(Segmentation::KnownFault("it stops"), Offload::NONE),
            "tso not used; checksums by the port: none\n  known fault: it stops"
        );
        for segmentation in [Segmentation::NotOffered, Segmentation::Refused] {
            assert!(shown(segmentation, Offload::NONE).contains("the driver"));
        }
    }
}
