//! Whole files: the examples, what is printed of them, and whatever else a file may hold.

use crate::common::{Numbers, examples, snapshot};
use config::device::Bus;
use shaper::flow::rules::{Prefix, Rule};

#[test]
fn every_example_is_right_and_reads_back() {
    let mut drivers = Vec::new();
    for (name, text) in examples() {
        let loaded = config::parse(&name, &text).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(loaded.warnings.is_empty(), "{name}: {}", loaded.warnings[0]);
        let printed = loaded.config.to_toml();
        let again = config::parse("printed", &printed).unwrap_or_else(|errors| panic!("{printed}\n{errors}"));
        assert_eq!((again.config, again.warnings), (loaded.config.clone(), vec![]), "{printed}");
        for link in &loaded.config.links {
            for port in [&link.a, &link.b] {
                drivers.push(match port.device.bus() {
                    Bus::Pci => "pci",
                    _ => port.device.driver().unwrap_or("other"),
                });
            }
        }
    }
    let kinds = [
        "pci",
        "net_tap",
        "net_af_packet",
        "net_af_xdp",
        "net_virtio_user",
        "net_vhost",
        "net_memif",
        "net_ring",
        "net_pcap",
        "net_null",
    ];
    for kind in kinds {
        assert!(drivers.contains(&kind), "no example for {kind}");
    }
}

#[test]
fn the_first_example_is_printed_with_its_defaults() {
    let (name, text) = examples().into_iter().find(|(name, _)| name == "home.toml").unwrap();
    let config = config::parse(&name, &text).unwrap().config;
    snapshot("control/config/tests/snapshots/home.txt", &format!("{config}\n{}", config.to_toml()));
}

#[test]
fn rules_mean_what_they_say() {
    let text = "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = \"net_null1\"\n\
        [link.down]\nqdisc = \"cake\"\nfwmark = 0xf0\n\
        [[link.down.rule]]\nsource = \"10.1.0.0/16\"\ndestination = \"2001:db8::/32\"\nvlan = 7\ndscp = \"AF41\"\n\
        pcp = 1\nexp = 2\nmark = 0x30\nset-dscp = 63\n\
        [[link.down.rule]]\nmark = 0\n";
    let loaded = config::parse("FILE", text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.warnings, []);
    let down = loaded.config.links[0].down.clone().unwrap();
    let first = Rule {
        source: Prefix::v4([10, 1, 0, 0], 16),
        destination: Prefix::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 32),
        vlan: Some(7),
        dscp: Some(34),
        pcp: Some(1),
        exp: Some(2),
        mark: 0x30,
        set_dscp: Some(63),
    };
    assert_eq!(down.rules, [first, Rule::default()]);
    assert!(loaded.config.links[0].up.as_ref().unwrap().rules.is_empty());
}

#[test]
fn the_smallest_file_is_right() {
    let loaded = config::parse("MINIMAL", config::MINIMAL).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.warnings, []);
}

/// Nested or dotted so deeply that a parser without a bound would overflow its stack.
#[test]
fn no_depth_makes_it_overflow() {
    for part in ["[", "{", "a = [", "[[", "a.", "a = { a", "{ a = ", "\"\".", "[a.", "x = [{ y = "] {
        let text = part.repeat(50_000);
        assert!(config::parse("DEEP", &text).is_err());
        assert!(config::parse("DEEP", &format!("x = {text}")).is_err());
    }
}

/// Examples and this crate's own wrong files, cut, spliced and with bytes changed: an answer, never a panic, and
/// what is accepted is printed so that it reads back.
#[test]
fn no_file_makes_it_panic() {
    let words = [
        "=",
        "\"",
        "[",
        "]",
        "[[link]]",
        "{",
        "}",
        "\n",
        ",",
        "'",
        "\"\"\"",
        "#",
        ".",
        "0x",
        "-",
        "99999999999999999999",
        "1e400",
        "nan",
        "\0",
        "\u{feff}",
        "é",
        "up",
        "\"off\"",
        "eal",
        "args",
        "\"-",
        "\"--vdev",
        "link",
        "\\u0000",
        "a.b.c=1\n",
    ];
    let mut seeds: Vec<_> = examples().into_iter().map(|(_, text)| text).collect();
    seeds.push(include_str!("../snapshots/mistakes.txt").to_owned());
    seeds.push(include_str!("../snapshots/keys.txt").to_owned());
    let seeds: Vec<Vec<char>> = seeds.iter().map(|text| text.chars().collect()).collect();
    let mut numbers = Numbers(7);
    let mut accepted = 0;
    for round in 0..4_000 {
        let seed = &seeds[round % seeds.len()];
        let from = if numbers.below(3) == 0 { numbers.below(seed.len()) } else { 0 };
        let mut text: Vec<char> = seed.iter().skip(from).take(2_000).copied().collect();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(text.len());
            let end = (at + numbers.below(3)).min(text.len());
            text.splice(at..end, words[numbers.below(words.len())].chars());
        }
        let text: String = text.into_iter().collect();
        match config::parse("FUZZ", &text) {
            Ok(loaded) => {
                let printed = loaded.config.to_toml();
                let again =
                    config::parse("printed", &printed).unwrap_or_else(|errors| panic!("{printed}\n{errors}"));
                assert_eq!(again.config, loaded.config);
                accepted += 1;
            }
            Err(errors) => assert!(!errors.0.is_empty() && !errors.to_string().is_empty()),
        }
    }
    assert!(accepted > 60, "only {accepted} files were accepted: the others were cut too short to say much");
}
