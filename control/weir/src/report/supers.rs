//! What became of super-packets: read, cut, merged, left to the port.

use super::Count;
use engine::counters::{SIZE_CLASSES, Supers};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Formatter};

/// Super-packets of one direction. Those that could not be cut are among its losses, as `gso-...`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupersReport {
    /// Super-packets that came in, those that GRO made included.
    pub received: Count,
    /// Packets that GRO appended to others.
    pub gro_merged: u64,
    /// Pieces of super-packets that were queued, by their size.
    pub pieces: Vec<SizeClass>,
    /// Frames of several segments that the port cut.
    pub tso: Count,
    /// Frames whose checksum the port wrote.
    pub checksum_offload: u64,
    /// Frames with a checksum left open by their sender, completed here.
    pub checksum_completed: u64,
    /// Frames that the driver's `tx_prepare` refused.
    pub prepare_refused: u64,
    /// Pieces that were cut again after they had waited.
    pub late_cuts: u64,
    /// Turns in which packets had to wait for the cutting of others.
    pub deferred: u64,
}

/// Pieces of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeClass {
    /// Segments they hold: `1`, `2-3`, ... `32+`.
    pub segments: String,
    /// How many there were.
    pub pieces: u64,
}

impl From<&Supers> for SupersReport {
    fn from(supers: &Supers) -> Self {
        let class = |((_, name), pieces): (&(u16, &str), &u64)| SizeClass {
            segments: (*name).to_owned(),
            pieces: *pieces,
        };
        Self {
            received: supers.received.into(),
            gro_merged: supers.merged,
            pieces: SIZE_CLASSES.iter().zip(&supers.pieces).map(class).collect(),
            tso: supers.tso.into(),
            checksum_offload: supers.checksum_offload,
            checksum_completed: supers.completed,
            prepare_refused: supers.prepare_refused,
            late_cuts: supers.late_cuts,
            deferred: supers.deferred,
        }
    }
}

/// Nothing where there was nothing: most lines never see a super-packet.
pub(super) fn write(f: &mut Formatter<'_>, supers: &SupersReport) -> fmt::Result {
    if supers.received.packets > 0 {
        let Count { packets, bytes } = supers.received;
        writeln!(f, " super-packets {bytes} bytes {packets} pkt, merged by gro {} pkt", supers.gro_merged)?;
        write!(f, "  pieces by segments:")?;
        for class in supers.pieces.iter().filter(|class| class.pieces > 0) {
            write!(f, " {}: {}", class.segments, class.pieces)?;
        }
        writeln!(f)?;
        writeln!(f, "  cut late {}, turns that left packets waiting {}", supers.late_cuts, supers.deferred)?;
    }
    if supers.tso.packets + supers.prepare_refused > 0 {
        let Count { packets, bytes } = supers.tso;
        writeln!(f, " tso {bytes} bytes {packets} pkt, refused by tx_prepare {}", supers.prepare_refused)?;
    }
    if supers.checksum_offload + supers.checksum_completed > 0 {
        writeln!(
            f,
            " checksums left to the port {}, completed here {}",
            supers.checksum_offload, supers.checksum_completed
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{DirectionReport, LinkReport, Report, snapshot};
    use engine::counters::Tally;

    fn report(supers: &Supers) -> Report {
        let count = |packets, bytes| Count { packets, bytes };
        let direction = DirectionReport {
            direction: "up".into(),
            from: "net_vhost0".into(),
            to: "net_null1".into(),
            kind: "fq_codel".into(),
            options: "limit 10240p split-gso auto gso-budget 100us gro".into(),
            bandwidth: Some(1_000_000_000),
            received: count(113, 6_500_000),
            added: count(700, 36_300),
            removed: count(13, 700),
            sent: count(798, 6_524_000),
            dropped: count(2, 11_600),
            losses: [("gso-fragment".to_owned(), count(2, 11_600))].into(),
            supers: supers.into(),
            ..DirectionReport::default()
        };
        let link = LinkReport { name: "home".into(), directions: vec![direction], ..LinkReport::default() };
        Report { links: vec![link], ..Report::default() }
    }

    #[test]
    fn each_figure_is_shown_and_reads_back() {
        let shown = report(&Supers {
            received: Tally { packets: 102, bytes: 6_480_000 },
            merged: 13,
            pieces: [90, 1, 2, 600, 0, 7],
            completed: 5,
            deferred: 11,
            late_cuts: 3,
            tso: Tally { packets: 607, bytes: 6_300_000 },
            checksum_offload: 607,
            prepare_refused: 4,
        });
        snapshot("super_packets.txt", &shown.to_string());
        let json = serde_json::to_value(&shown).unwrap();
        let supers = &json["links"][0]["directions"][0]["supers"];
        assert_eq!((&supers["received"]["packets"], &supers["gro_merged"]), (&102.into(), &13.into()));
        assert_eq!(supers["pieces"][3], serde_json::json!({ "segments": "8-15", "pieces": 600 }));
        let back: Report = serde_json::from_value(json).unwrap();
        assert_eq!(back.to_string(), shown.to_string());
    }

    #[test]
    fn nothing_is_said_where_there_was_none() {
        let shown = report(&Supers::default()).to_string();
        let (shown, _) = shown.split_once("port home/a").unwrap();
        assert!(!shown.contains("super-packets") && !shown.contains("tso") && !shown.contains("checksums"));
    }
}
