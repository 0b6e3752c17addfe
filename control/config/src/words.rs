//! The words of the file and what they mean, each pair in one place.

use shaper::gso::Split;
use shaper::qdisc::cake::{AckFilter, Diffserv, FlowMode};

use crate::model::Offload;

/// A type whose values are words in the file.
pub(crate) trait Words: Copy + PartialEq + 'static {
    /// Every word with its meaning; the first word of a meaning is the one that is printed.
    const WORDS: &'static [(&'static str, Self)];

    /// What `word` means.
    fn of(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, meaning)| *meaning)
    }

    /// The word for this.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, meaning)| *meaning == self).map_or("", |(word, _)| word)
    }
}

impl Words for Diffserv {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("besteffort", Self::BestEffort),
        ("precedence", Self::Precedence),
        ("diffserv3", Self::Diffserv3),
        ("diffserv4", Self::Diffserv4),
        ("diffserv8", Self::Diffserv8),
    ];
}

impl Words for FlowMode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("flowblind", Self::FlowBlind),
        ("srchost", Self::SrcHost),
        ("dsthost", Self::DstHost),
        ("hosts", Self::Hosts),
        ("flows", Self::Flows),
        ("dual-srchost", Self::DualSrcHost),
        ("dual-dsthost", Self::DualDstHost),
        ("triple-isolate", Self::TripleIsolate),
    ];
}

impl Words for AckFilter {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("no-ack-filter", Self::Off),
        ("ack-filter", Self::Conservative),
        ("ack-filter-aggressive", Self::Aggressive),
        ("aggressive", Self::Aggressive),
    ];
}

/// `true` is [`Split::Always`], `false` [`Split::Never`]; the budget has a key of its own.
impl Words for Split {
    const WORDS: &'static [(&'static str, Self)] = &[("auto", Self::AUTO)];
}

impl Words for Offload {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
}

/// The number of a DSCP: 0..=63, or its name (RFC 2474, 2597, 3246, 5865, 8622).
pub(crate) fn dscp(text: &str) -> Option<u8> {
    let named = DSCP.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|(_, number)| *number)
}

/// The name of a DSCP, where it has one.
pub(crate) fn dscp_name(number: u8) -> Option<&'static str> {
    DSCP.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}

/// Names of DSCPs; where two mean the same the first is printed.
const DSCP: [(&str, u8); 25] = [
    ("CS0", 0),
    ("DF", 0),
    ("BE", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{DIRECTION, Kind, PORT};

    fn words_of(key: &str) -> &'static [&'static str] {
        match DIRECTION.key(key).or(PORT.key(key)).unwrap().kind {
            Kind::Choice(words) | Kind::FlagOrChoice(words) => words,
            kind => panic!("{kind}"),
        }
    }

    #[test]
    fn the_schema_has_the_words_that_have_a_meaning() {
        let known = |mut words: Vec<&'static str>, key| {
            let mut listed = words_of(key).to_vec();
            words.sort_unstable();
            listed.sort_unstable();
            assert_eq!(words, listed);
        };
        known(Diffserv::WORDS.iter().map(|(word, _)| *word).collect(), "diffserv");
        known(FlowMode::WORDS.iter().map(|(word, _)| *word).collect(), "flowmode");
        known(AckFilter::WORDS.iter().map(|(word, _)| *word).collect(), "ack-filter");
        known(Split::WORDS.iter().map(|(word, _)| *word).collect(), "split-gso");
        known(Offload::WORDS.iter().map(|(word, _)| *word).collect(), "tso");
        known(Offload::WORDS.iter().map(|(word, _)| *word).collect(), "lro");
    }

    #[test]
    fn a_dscp_has_one_number_and_a_number_one_name() {
        assert_eq!(
            (dscp("ef"), dscp("AF41"), dscp("CS7"), dscp("nothing")),
            (Some(46), Some(34), Some(56), None)
        );
        assert_eq!((dscp_name(0), dscp_name(46), dscp_name(3)), (Some("CS0"), Some("EF"), None));
    }
}
