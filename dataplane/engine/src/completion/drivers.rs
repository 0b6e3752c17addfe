//! Which source of completions is true of which driver, as far as is known without sending a frame.
//!
//! A production wire is no place for frames that nobody asked for, so nothing is tried out at start:
//! the choice is made by the driver's name, and what it does is watched from the first frame on
//! ([`super::watch`]). `weir probe` sends frames, and says what it found ([`crate::probe`]).

use super::source::{Device, From, Nudge, Source};
use std::fmt;

/// How the completions of a port are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How a frame is seen to have left.
    pub source: Source,
    /// How the driver is made to look.
    pub nudge: Nudge,
    /// Where this is known from.
    pub basis: Basis,
    /// What is known, in words.
    pub why: &'static str,
}

/// Where something is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Measured with this driver (DPDK 22.11).
    Measured,
    /// Read in the driver's source (DPDK 22.11 to 26.07), not measured.
    Read,
    /// Nothing is known of this driver.
    Assumed,
}

/// What is known of a driver, by the name that ethdev reports.
pub fn choose(driver: &str) -> Choice {
    let rule = RULES.iter().find(|(names, _)| names.iter().any(|name| is_of(driver, name)));
    rule.map_or(UNKNOWN, |(_, choice)| *choice)
}

/// The same for a queue that nothing was sent on yet: a call that it does not have (an older DPDK, a
/// vector path), or that takes an idle ring for a full one, is not relied on.
pub fn choose_for(driver: &str, idle: &impl Device, ring: u16) -> Choice {
    let choice = choose(driver);
    let works = match choice.source {
        Source::Status(from) => from.offset(0, ring).is_some_and(|offset| idle.is_done(offset)),
        Source::QueueCount => idle.in_use() == Some(0),
        Source::Held | Source::Clock(_) | Source::Submit => true,
    };
    if works { choice } else { WITHOUT_CALL }
}

/// `net_cn*` stands for all that begin like it.
fn is_of(driver: &str, name: &str) -> bool {
    name.strip_suffix('*').map_or(driver == name, |stem| driver.starts_with(stem))
}

impl Choice {
    const fn new(source: Source, nudge: Nudge, basis: Basis, why: &'static str) -> Self {
        Self { source, nudge, basis, why }
    }
}

impl Basis {
    /// Its name, as in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Read => "read",
            Self::Assumed => "assumed",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (nudge: {}; {}: {})", self.source, self.nudge, self.basis.name(), self.why)
    }
}

type Rule = (&'static [&'static str], Choice);

const RULES: &[Rule] = &[
    (
        &["net_ring"],
        Choice::new(
            Source::Held,
            Nudge::None,
            Basis::Measured,
            "a frame is complete when whoever takes it out of the ring frees it",
        ),
    ),
    (
        &["net_virtio*"],
        Choice::new(
            Source::Held,
            Nudge::Refused,
            Basis::Measured,
            "nothing is taken back until packets want more room than there is, and an empty burst does nothing",
        ),
    ),
    (
        &["net_af_xdp", "net_memif"],
        Choice::new(
            Source::Held,
            Nudge::EmptyBurst,
            Basis::Measured,
            "any burst takes back what is complete, an empty one too; memif without zero copy copies",
        ),
    ),
    (
        &["net_tap", "net_vhost", "net_pcap", "net_af_packet", "net_null"],
        Choice::new(
            Source::Submit,
            Nudge::None,
            Basis::Measured,
            "frames are copied and freed within the burst: nothing waits in the ring, and what waits behind it cannot be seen",
        ),
    ),
    (
        &["net_nfb", "net_ntnic"],
        Choice::new(Source::Submit, Nudge::None, Basis::Read, "frames are copied and freed within the burst"),
    ),
    (
        &["mlx5_*"],
        Choice::new(
            Source::Status(From::Oldest),
            Nudge::None,
            Basis::Read,
            "small frames are copied into the ring and freed at once, so that only the descriptors tell; \
             asking for one makes the driver look; reported in batches of 32",
        ),
    ),
    (
        &["net_ixgbe*", "net_i40e*", "net_iavf", "net_ice*", "net_txgbe*", "net_ngbe*"],
        Choice::new(
            Source::Status(From::Tail),
            Nudge::None,
            Basis::Read,
            "frames are freed only when the ring is nearly full; descriptors tell, in batches of tx_rs_thresh",
        ),
    ),
    (
        &["net_e1000_igb*", "net_igc", "net_ena"],
        Choice::new(
            Source::Held,
            Nudge::Cleanup,
            Basis::Read,
            "frames are freed only when the ring is nearly full, but rte_eth_tx_done_cleanup frees them at any time",
        ),
    ),
    (
        &["net_cn*"],
        Choice::new(
            Source::QueueCount,
            Nudge::None,
            Basis::Read,
            "rte_eth_tx_queue_count is real from DPDK 24.03 on; rte_eth_tx_done_cleanup does nothing",
        ),
    ),
    (
        &["net_ark"],
        Choice::new(
            Source::Held,
            Nudge::EmptyBurst,
            Basis::Read,
            "any burst takes back what is complete, an empty one too",
        ),
    ),
];

const WITHOUT_CALL: Choice = Choice::new(
    Source::Held,
    Nudge::EmptyBurst,
    Basis::Assumed,
    "the call that would tell of this driver's completions is missing, or answers wrongly of an idle ring: \
     most free a frame when the device is done with it; `weir probe` finds out more",
);

const UNKNOWN: Choice = Choice::new(
    Source::Held,
    Nudge::EmptyBurst,
    Basis::Assumed,
    "nothing is known of this driver: most free a frame when the device is done with it; \
     `weir probe` finds out more",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_driver_is_found_by_its_own_name() {
        for (driver, source, nudge) in [
            ("net_virtio", Source::Held, Nudge::Refused),
            ("net_virtio_user", Source::Held, Nudge::Refused),
            ("net_vhost", Source::Submit, Nudge::None),
            ("net_i40e_vf", Source::Status(From::Tail), Nudge::None),
            ("mlx5_pci", Source::Status(From::Oldest), Nudge::None),
            ("net_cn10k", Source::QueueCount, Nudge::None),
            ("net_e1000_igb_vf", Source::Held, Nudge::Cleanup),
            ("net_e1000_em", Source::Held, Nudge::EmptyBurst),
            ("net_ringlike", Source::Held, Nudge::EmptyBurst),
        ] {
            let choice = choose(driver);
            assert_eq!((choice.source, choice.nudge), (source, nudge), "{driver}");
        }
        assert_eq!(choose("net_new").basis, Basis::Assumed);
        let text = choose("net_ring").to_string();
        assert!(
            text.starts_with("held-reference (nudge: none; measured: a frame is complete when"),
            "{text}"
        );
    }

    /// Answers the same whatever it is asked.
    struct Fixed {
        is_done: bool,
        in_use: Option<u32>,
    }

    impl Device for Fixed {
        fn is_done(&self, _: u16) -> bool {
            self.is_done
        }

        fn in_use(&self) -> Option<u32> {
            self.in_use
        }

        fn nudge(&mut self, _: Nudge) {}
    }

    #[test]
    fn a_call_that_is_missing_or_lies_is_not_relied_on() {
        for (is_done, in_use, status, count) in [
            (true, Some(0), Source::Status(From::Tail), Source::QueueCount),
            (false, None, Source::Held, Source::Held),
            (false, Some(7), Source::Held, Source::Held),
        ] {
            let idle = Fixed { is_done, in_use };
            assert_eq!(choose_for("net_ice", &idle, 512).source, status);
            assert_eq!(choose_for("net_cn10k", &idle, 512).source, count);
            assert_eq!(choose_for("net_ring", &idle, 512), choose("net_ring"));
        }
    }

    #[test]
    fn no_driver_is_ruled_twice() {
        let mut names: Vec<_> = RULES.iter().flat_map(|(names, _)| *names).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
