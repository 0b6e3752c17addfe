//! Every mistake and every warning has its message, kept as text in `snapshots/`.

use crate::common::{file_with, snapshot};
use config::error::{Concern, Mistake};
use config::schema::{
    API, Change, DIRECTION, EAL, ENGINE, Key, Kind, LCORES, LINK, PORT, ROOT, RULE, Schema, Table,
};
use config::tc::CakeOptions;

const TABLES: [&Table; 9] = [&ROOT, &EAL, &LCORES, &ENGINE, &API, &LINK, &PORT, &DIRECTION, &RULE];

/// For each key of the schema, one file for each way in which its value can be wrong.
#[test]
fn a_wrong_value_of_each_key_is_told() {
    let mut told = String::new();
    for (table, key) in keys() {
        for value in wrong_values(key) {
            let text = file_with(table.heading, &[(key.name, value)]);
            let errors = config::parse("FILE", &text).expect_err(&text);
            let about: Vec<_> = errors.0.iter().filter(|error| error.key == key.name).collect();
            assert!(!about.is_empty(), "{text}\n{errors}");
            for error in &about {
                assert!(!error.accepted.is_empty() && !error.remedy.is_empty(), "{error}");
                assert!(error.position.line > 1 || table.heading == ROOT.heading, "{error}");
            }
            told += &format!(
                "# {}: {} = {value}\n{}\n\n",
                table.heading,
                key.name,
                config::error::Errors(about.into_iter().cloned().collect())
            );
        }
        if key.is_required() {
            let text = file_with(table.heading, &[(key.name, "")]);
            let errors = config::parse("FILE", &text).expect_err(&text);
            assert!(
                errors.0.iter().any(|error| error.what == Mistake::Missing && error.key == key.name),
                "{errors}"
            );
            told += &format!("# {}: without {}\n{errors}\n\n", table.heading, key.name);
        }
    }
    snapshot("control/config/tests/snapshots/keys.txt", &told);
}

/// Spelled with the other separator, without its last letter, with two letters swapped: the right name is told.
#[test]
fn a_misspelled_key_is_told_with_the_right_name() {
    for (table, key) in keys() {
        let swapped: String = key
            .name
            .chars()
            .map(|c| match c {
                '-' => '_',
                '_' => '-',
                c => c,
            })
            .collect();
        let cut: String = key.name.chars().take(key.name.len() - 1).collect();
        let mut turned = key.name.as_bytes().to_vec();
        turned.swap(1.min(key.name.len() - 1), key.name.len() / 2);
        let turned = String::from_utf8(turned).unwrap();
        for wrong in [swapped, cut, turned, key.name.to_uppercase()] {
            let hinted = table.hints.iter().any(|(word, _)| *word == wrong);
            if wrong.len() < 3 || hinted || table.keys.iter().any(|key| key.name == wrong) {
                continue;
            }
            let text = file_with(table.heading, &[(&wrong, "1")]);
            let errors = config::parse("FILE", &text).expect_err(&text);
            let error = errors.0.iter().find(|error| error.what == Mistake::UnknownKey).expect(&text);
            assert_eq!(error.key, wrong);
            let expected = format!("did you mean {}?", key.name);
            assert_eq!(error.remedy, expected, "{error}");
        }
        for (word, hint) in table.hints {
            let errors = config::parse("FILE", &file_with(table.heading, &[(word, "1")])).expect_err(word);
            assert!(errors.0.iter().any(|error| error.key == *word && error.remedy == *hint), "{errors}");
        }
    }
}

/// A valid value of each key is accepted, by the schema and by the serde types.
#[test]
fn the_example_of_each_key_is_accepted() {
    for (table, key) in keys().filter(|(_, key)| !key.example.is_empty()) {
        let text = file_with(table.heading, &[(key.name, key.example)]);
        let loaded = config::parse("FILE", &text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        let printed = loaded.config.to_toml();
        assert!(
            matches!(key.kind, Kind::Overhead | Kind::Tc) || printed.contains(key.example),
            "{} not in\n{printed}",
            key.example
        );
    }
}

/// The defaults that the schema tells are those that take effect.
#[test]
fn the_default_of_each_key_is_the_one_told() {
    let text = file_with(LINK.heading, &[("b", "{ device = \"net_null1\" }")]);
    let cake = format!("{text}up = {{ qdisc = \"cake\" }}\n");
    let print = |text: &str| config::parse("FILE", text).unwrap().config.to_toml();
    let (printed, of_cake) = (print(&text), print(&cake));
    let in_words = ["tc", "mpu", "atm", "limit", "quantum"];
    // A rule's defaults are what it does not say.
    let of_rule = |key: &Key| RULE.keys.iter().any(|other| std::ptr::eq(other, key));
    for (_, key) in keys().filter(|(_, key)| !key.is_required() && key.table().is_none() && !of_rule(key)) {
        if !in_words.contains(&key.name) {
            let row = format!("{} = {}", key.name, key.default);
            let printed = if key.qdiscs == ["cake"] { &of_cake } else { &printed };
            assert!(printed.contains(&row), "{row} not in\n{printed}");
        }
    }
    for row in ["mpu = 0", "atm = \"noatm\"", "limit = 10240", "quantum = 1514"] {
        assert!(printed.contains(row), "{row} not in\n{printed}");
    }
    let fifo = file_with(DIRECTION.heading, &[("qdisc", "\"fifo\"")]);
    assert!(config::parse("FILE", &fifo).unwrap().config.to_toml().contains("limit = 1000\n"));
}

/// One file for each kind of mistake that concerns more than a single value.
#[test]
fn every_mistake_is_told() {
    let link = "[[link]]\nname = \"home\"\na = \"net_null0\"\nb = \"net_null1\"\n";
    let eal = |args: &str| format!("{link}[eal]\nargs = [{args}]\n");
    let up = |keys: &str| format!("{link}up = {{ {keys} }}\n");
    let second = |keys: &str| format!("{link}[[link]]\n{keys}\n");
    let files = [
        "[[link]\nname = home\nb = = 3\n".to_owned(),
        format!("{link}name = \"again\"\n"),
        String::new(),
        "link = []\n".to_owned(),
        "[eal]\nargs = []\n".to_owned(),
        "[link]\nname = \"home\"\na = \"net_null0\"\nb = \"net_null1\"\n".to_owned(),
        "[[link]]\n".to_owned(),
        second("name = \"home\"\na = \"net_null2\"\nb = \"net_null3\""),
        second("name = \"office\"\na = \"net_null1\"\nb = { device = \"net_null0,size=64\" }"),
        second("name = \"office\"\na = \"01:00.0\"\nb = \"0000:01:00.0\""),
        second("name = \"office\"\na = \"net_tap0,iface=lan\"\nb = \"net_tap1,iface=lan\""),
        format!("{link}up = \"off\"\ndown = \"off\"\n"),
        format!("{link}on-stop = \"bridge\"\n"),
        "link = [\n  { name = \"household-one\", a = \"1:0.0\", b = \"1:0.1\", on-stop = \"bridge\" },\n  \
         { name = \"household-two\", a = \"2:0.0\", b = \"2:0.1\", on-stop = \"bridge\" },\n]\n"
            .to_owned(),
        up("target = \"100ms\""),
        up("interval = \"5ms\""),
        up("target = \"20ms\", interval = \"10ms\""),
        up("quantum = 1048576, memory_limit = \"512KiB\""),
        "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = { device = \"net_null1\", mtu = 65521 }\nup = { memory_limit = \"16KiB\" }\n".to_owned(),
        up("qdisc = \"fifo\", target = \"5ms\", flows = 16"),
        up("qdisc = \"fq-codel\""),
        up("qdisc = \"cake\", target = \"5ms\", limit = 100, catch-up = \"1ms\""),
        up("wash = true, rtt = \"10ms\""),
        up("qdisc = \"cake\", nat = true"),
        up("tc = \"cake nat\""),
        up("tc = \"cake diffserv4\", bandwidth = \"20Mbit\", qdisc = \"cake\", overhead = 18, target = \"5ms\""),
        up("tc = \"cake split-gso\", split-gso = \"auto\""),
        "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = { device = \"net_null1\", limit-min = \"64KiB\", limit-max = \"3KiB\" }\n".to_owned(),
        "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = { device = \"net_null1\", limit_max = \"64KiB\", hold_time = \"1s\", gso = true, tso = true }\n".to_owned(),
        up("tc = \"fq_codel ecn\", ecn = true, target = \"1ms\", wash = true"),
        up("tc = \"fq_codel target 5ms interval 2ms\""),
        up("qdisc = \"cake\", fwmark = 1, rule = [{ vlan = 7 }]"),
        up("rule = [{ vlan = 7, mark = 1 }]"),
        format!("{link}[link.up]\nqdisc = \"cake\"\nfwmark = 1\n{}", "[[link.up.rule]]\nmark = 1\n".repeat(65)),
        up("bandwith = \"20Mbit\", ce-threshold = \"1ms\", colour = \"red\", noecn = true"),
        format!("{link}bandwidth = \"20Mbit\"\nup = \"down\"\n"),
        eal("\"--file-prefix\", \"x\", \"--proc-type=secondary\", \"-l\", \"0\", \"-l0-3\", \"--lcore=0\", \"-h\""),
        eal("\"--vdev\", \"net_null0\", \"--vdev=net_null9\", \"--vdev=net_null1,size=64\""),
        "[[link]]\nname = \"x\"\na = \"01:00.0\"\nb = \"01:00.1\"\n[eal]\nargs = [\"-a\", \"0000:01:00.0,x=1\", \"--no-pci\", \"-b01:00.2\"]\n".to_owned(),
        eal("\"--no-huge\", \"--in-memory\""),
        eal("\"-m512\", \"--socket-mem=64\", \"--legacy-mem\", \"--in-memory\", \"--match-allocations\""),
        eal("\"--no-huge -m 512\""),
        eal("\"512\", \"--no-huge=yes\", \"-m\""),
        format!("{link}[eal]\nlcores = {{ main = 0, workers = [1, 2, 1] }}\n"),
        format!("{link}[api]\nlisten = \"0.0.0.0:9118\"\n"),
        format!("{link}[api]\nlisten = \"[2001:db8::1]:9118\"\ntoken-file = \"/etc/weir/token\"\n"),
        format!("{link}[api]\nlisten = \"127.0.0.1:9118\"\ntls-cert = \"/etc/weir/cert.pem\"\n"),
        format!("{link}[api]\nlisten = \"192.0.2.1:9118\"\ntls-key = \"/etc/weir/key.pem\"\n"),
    ];
    let (mut told, mut seen) = (String::new(), Vec::new());
    for text in files {
        let errors = config::parse("FILE", &text).expect_err(&text);
        seen.extend(errors.0.iter().map(|error| variant(&error.what)));
        told += &format!("# {}\n{errors}\n\n", text.trim_end().replace('\n', "\n# "));
    }
    for (table, key) in keys() {
        for value in wrong_values(key) {
            let errors =
                config::parse("FILE", &file_with(table.heading, &[(key.name, value)])).expect_err(value);
            seen.extend(errors.0.iter().map(|error| variant(&error.what)));
        }
    }
    snapshot("control/config/tests/snapshots/mistakes.txt", &told);
    let unseen: Vec<_> = MISTAKES.iter().filter(|mistake| !seen.contains(mistake)).collect();
    assert_eq!(unseen, [&"Internal"], "that one alone cannot be provoked");
}

#[test]
fn every_concern_is_told() {
    let link = |b: &str| format!("[[link]]\nname = \"home\"\na = \"net_null0\"\nb = {b}\n");
    let up = |keys: &str| format!("{}up = {{ {keys} }}\n", link("\"net_null1\""));
    let files = [
        link("{ device = \"net_null1\", mtu = 9000 }"),
        link("\"net_softnic0\""),
        up("bandwidth = \"100Mbps\""),
        up("overhead = 18, mpu = 64, atm = \"atm\", catch-up = \"1ms\""),
        up("ce_threshold_selector = \"0x01/0x03\""),
        up("split-gso = true, gso-budget = \"1ms\""),
        up("tc = \"cake no-split-gso\", gso-budget = \"1ms\""),
        link(
            "{ device = \"net_null1\", complete-on = \"submit\", limit-min = \"1KiB\", limit-max = \"1KiB\", hold-time = \"1s\" }",
        ),
        up("bandwidth = \"1Mbit\""),
        up("tc = \"fq_codel limit 100\", bandwidth = \"1Mbit\""),
        up("tc = \"cake bandwidth 10mbps\""),
        up("qdisc = \"cake\", overhead = 18, mpu = 64"),
        up("qdisc = \"cake\", rule = [{ vlan = 7, mark = 0x10 }, { pcp = 5, mark = 0, set-dscp = \"EF\" }]"),
        up("tc = \"cake besteffort fwmark 0xff\", rule = [{ vlan = 7, mark = 1 }]"),
        format!(
            "{}[eal]\nargs = [\"--in-memery\", \"--new-in-dpdk-30\", \"x\", \"-q\"]\n",
            link("\"net_null1\"")
        ),
        format!("{}[eal]\nlcores = {{ main = 1, workers = [1] }}\n", link("\"net_null1\"")),
        format!(
            "{}[api]\ntoken-file = \"/etc/weir/token\"\nallow-hosts = [\"shaper.example\"]\n",
            link("\"net_null1\"")
        ),
    ];
    let (mut told, mut seen) = (String::new(), Vec::new());
    for text in files {
        let loaded = config::parse("FILE", &text).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(!loaded.warnings.is_empty(), "{text}");
        told += &format!("# {}\n", text.trim_end().replace('\n', "\n# "));
        for warning in &loaded.warnings {
            seen.push(concern(&warning.what));
            told += &format!("{warning}\n");
        }
        told += "\n";
    }
    snapshot("control/config/tests/snapshots/concerns.txt", &told);
    assert!(CONCERNS.iter().all(|concern| seen.contains(concern)), "{seen:?}");
}

#[test]
fn several_mistakes_are_told_together_with_their_places() {
    let text = "[[link]]\nname = \"home\"\na = \"net_tpa0\"\nb = { device = \"net_null1\", mtu = 9 }\n\
                up = { bandwith = \"20Mbit\", target = 5 }\n[engin]\n";
    let errors = config::parse("FILE", text).unwrap_err();
    let places: Vec<_> =
        errors.0.iter().map(|e| (e.position.line, e.position.column, e.key.as_str())).collect();
    let expected = [(3, 5, "a"), (4, 35, "mtu"), (5, 8, "bandwith"), (5, 38, "target"), (6, 2, "engin")];
    assert_eq!(places.len(), expected.len(), "{errors}");
    assert!(expected.iter().all(|place| places.contains(place)), "{errors}");
    let wide =
        "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = { \"é\" = 1, mtu = 9, device = \"net_null1\" }\n";
    let wide = config::parse("FILE", wide).unwrap_err();
    assert!(wide.0.iter().any(|error| error.position.column == 22 && error.key == "mtu"), "{wide}");
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let error = config::load(std::path::Path::new("/nowhere/weir.toml")).unwrap_err().to_string();
    assert!(
        error.starts_with("/nowhere/weir.toml: cannot be read: ") && error.contains("configs/"),
        "{error}"
    );
}

/// The listing for people, and the documentation's tables.
#[test]
fn the_keys_are_documented() {
    for (table, key) in keys() {
        assert!(!key.help.is_empty() && !table.help.is_empty(), "{}", key.name);
        // Rules alone come and go while weir runs.
        assert!(key.change != Change::Live || key.table().is_none() || key.name == "rule", "{}", key.name);
    }
    let intro = "# Keys of the configuration file\n\n\
        Options of `tc` are spelled as `tc` spells them (tc-fq_codel(8), tc-cake(8)), weir's own with hyphens. \
        Rates, times and sizes carry their unit (`\"20Mbit\"`, `\"5ms\"`, `\"32MiB\"`); `bps` is bytes per second, as in \
        `tc`. \"live\" is taken up by `weir reload` and `weir set` while packets flow, without losing or reordering one; \
        \"restart\" is refused by both.\n\n";
    let options = "### Options of tc-cake(8)\n\nEach as `tc` has it and as a key of `up` or `down`; \
        `tc = \"cake ...\"` takes them as they are. \"yes\" is what holds if nothing is said.\n\n";
    let text = format!("{intro}{}\n\n{options}{CakeOptions}", format!("{Schema:#}").trim_end());
    snapshot("configs/KEYS.md", &text);
    let readme = include_str!("../../../../README.md");
    assert!(readme.contains(&CakeOptions.to_string()), "README.md must hold cake's options as KEYS.md does");
    snapshot("control/config/tests/snapshots/listing.txt", &Schema.to_string());
}

fn keys() -> impl Iterator<Item = (&'static Table, &'static Key)> {
    TABLES.into_iter().flat_map(|table| table.keys.iter().map(move |key| (table, key)))
}

fn wrong_values(key: &Key) -> Vec<&'static str> {
    match key.kind {
        Kind::Flag => vec!["\"yes\"", "1"],
        Kind::Number(..) => vec!["\"64\"", "\"x\"", "1.5", "-65", "9999999999", "99999999999999999999999"],
        Kind::FlagOrChoice(_) => vec!["\"yes\"", "\"agressive\"", "1"],
        Kind::Rate(..) => vec![
            "100000000",
            "\"fast\"",
            "\"100\"",
            "\"20Mbt\"",
            "\"50%\"",
            "\"64000.5bit\"",
            "\"63kbit\"",
            "\"401gbit\"",
            "\"99999999999Tbit\"",
        ],
        Kind::Time(..) | Kind::TimeOrOff(..) => {
            vec![
                "5",
                "\"soon\"",
                "\"5\"",
                "\"5m\"",
                "\"0.5ns\"",
                "\"-1ms\"",
                "\"2000s\"",
                "\"99999999999999s\"",
            ]
        }
        Kind::TimeOrPreset(..) => {
            vec!["5", "\"soon\"", "\"internett\"", "\"5\"", "\"0ns\"", "\"5000s\"", "true"]
        }
        Kind::SizeOr(least, ..) => {
            let little = if least > 1 << 10 { "\"1kb\"" } else { "\"1b\"" };
            vec!["4194304", "\"much\"", "\"automatic\"", little, "\"3gb\"", "\"9999gb\""]
        }
        Kind::Prefix => vec![
            "\"10.0.0.0\"",
            "\"10.1.2.3/16\"",
            "\"10.0.0.0/33\"",
            "\"2001:db8::/129\"",
            "\"2001:db8::1/64\"",
            "\"here/8\"",
            "\"10.0.0.0/x\"",
            "10",
        ],
        Kind::Dscp => vec!["64", "-1", "\"AF44\"", "\"46\"", "1.5", "true"],
        Kind::Tc => vec![
            "7",
            "\"\"",
            "\"htb rate 1mbit\"",
            "\"cake bandwidth\"",
            "\"cake bandwith 20mbit\"",
            "\"cake bandwidth 1kbit\"",
            "\"cake bandwidth 20mbt\"",
            "\"cake rtt 0\"",
            "\"cake overhead\"",
            "\"cake overhead 300\"",
            "\"cake memlimit 1kb\"",
            "\"cake fwmark 0x1ffffffff\"",
            "\"fq_codel limit 0\"",
            "\"fq_codel limit many\"",
            "\"fq_codel quantum 10\"",
            "\"fq_codel wash\"",
            "\"pfifo limit 1.5\"",
        ],
        Kind::Size(least, _) => {
            let wrong = ["4194304", "\"much\"", "\"4194304\"", "\"4XB\"", "\"1.0001kb\"", "\"3gb\""];
            let little = (least > 0).then_some("\"1kb\"");
            wrong.into_iter().chain(little).collect()
        }
        Kind::Choice(_) => vec!["\"nonsense\"", "\"\"", "7", "true"],
        Kind::Name => vec!["\"\"", "\"a b\"", "\"abcdefghijklmnopqrstuvwxyz0123456\"", "7"],
        Kind::Device => {
            vec!["\"\"", "\"eth0\"", "\"net_tpa0\"", "\"net_af_packet0\"", "\"net_tap0,iface\"", "5"]
        }
        Kind::TableOrDevice(_) => vec!["\"eth0\"", "\"01:00.9\"", "\"net_vhost0\"", "5", "[]"],
        Kind::Overhead => vec![
            "257",
            "-65",
            "1.5",
            "\"docis\"",
            "\"\"",
            "\"overhead 257\"",
            "\"overhead 255 ether-vlan\"",
            "true",
        ],
        Kind::Selector => vec!["\"1\"", "\"0x1ff/3\"", "\"1/+3\"", "\"4/3\"", "3"],
        Kind::Address => vec![
            "9118",
            "\"\"",
            "\"9118\"",
            "\":9118\"",
            "\"127.0.0.1\"",
            "\"::1:9118\"",
            "\"localhost:9118\"",
            "\"127.0.0.1:99999\"",
            "\"http://127.0.0.1:9118\"",
            "\"*:9118\"",
            "true",
        ],
        Kind::File => vec!["\"\"", "\"token\"", "\"./token\"", "7", "[]"],
        Kind::Hosts => {
            vec!["\"localhost\"", "[1]", "[\"\"]", "[\"http://here\"]", "[\"here:80\"]", "[\"*\"]"]
        }
        Kind::Strings => vec!["\"--no-huge\"", "[1]", "[[]]", "7"],
        Kind::Cpus => vec!["[]", "[-1]", "[1024]", "[\"0\"]", "[1.5]", "0"],
        Kind::Table(_) => vec!["5", "\"x\"", "[]", "1979-05-27"],
        Kind::Tables(_) => vec!["5", "{}", "[5]"],
        Kind::TableOrChoice(..) => vec!["5", "\"of\"", "false"],
    }
}

const MISTAKES: [&str; 28] = [
    "Syntax",
    "UnknownKey",
    "Missing",
    "WrongType",
    "Unreadable",
    "OutOfRange",
    "UnknownWord",
    "NotOfQdisc",
    "BesideTc",
    "Nat",
    "RuleSaysNothing",
    "TooManyRules",
    "NoLink",
    "NameTaken",
    "PortTaken",
    "ResourceTaken",
    "NothingForwarded",
    "NotTheKernels",
    "NotBelow",
    "NotAbove",
    "Without",
    "Exposed",
    "CpuTwice",
    "EalReserved",
    "EalConflict",
    "EalSeveral",
    "EalIncomplete",
    "Internal",
];

/// Without a wildcard: a new variant needs a name here and in [`MISTAKES`].
fn variant(mistake: &Mistake) -> &'static str {
    match mistake {
        Mistake::Syntax(_) => "Syntax",
        Mistake::UnknownKey => "UnknownKey",
        Mistake::Missing => "Missing",
        Mistake::WrongType { .. } => "WrongType",
        Mistake::Unreadable(_) => "Unreadable",
        Mistake::OutOfRange => "OutOfRange",
        Mistake::UnknownWord => "UnknownWord",
        Mistake::NotOfQdisc(_) => "NotOfQdisc",
        Mistake::BesideTc => "BesideTc",
        Mistake::Nat => "Nat",
        Mistake::RuleSaysNothing => "RuleSaysNothing",
        Mistake::TooManyRules(_) => "TooManyRules",
        Mistake::NoLink => "NoLink",
        Mistake::NameTaken(_) => "NameTaken",
        Mistake::PortTaken(_) => "PortTaken",
        Mistake::ResourceTaken(..) => "ResourceTaken",
        Mistake::NothingForwarded => "NothingForwarded",
        Mistake::NotTheKernels { .. } => "NotTheKernels",
        Mistake::NotBelow(_) => "NotBelow",
        Mistake::NotAbove(_) => "NotAbove",
        Mistake::Without(_) => "Without",
        Mistake::Exposed(_) => "Exposed",
        Mistake::CpuTwice(_) => "CpuTwice",
        Mistake::EalReserved(_) => "EalReserved",
        Mistake::EalConflict(..) => "EalConflict",
        Mistake::EalSeveral => "EalSeveral",
        Mistake::EalIncomplete(_) => "EalIncomplete",
        Mistake::Internal(_) => "Internal",
    }
}

const CONCERNS: [&str; 13] = [
    "MtuMismatch",
    "BytesPerSecond",
    "WithoutBandwidth",
    "WithoutThreshold",
    "WithoutAuto",
    "WithoutGovernor",
    "WithoutListen",
    "TargetBelowFrame",
    "MarkIgnored",
    "OneTin",
    "UnknownDriver",
    "EalUnknown",
    "SharedCpu",
];

fn concern(concern: &Concern) -> &'static str {
    match concern {
        Concern::MtuMismatch { .. } => "MtuMismatch",
        Concern::BytesPerSecond(_) => "BytesPerSecond",
        Concern::WithoutBandwidth => "WithoutBandwidth",
        Concern::WithoutThreshold => "WithoutThreshold",
        Concern::WithoutAuto => "WithoutAuto",
        Concern::WithoutGovernor => "WithoutGovernor",
        Concern::WithoutListen => "WithoutListen",
        Concern::TargetBelowFrame(_) => "TargetBelowFrame",
        Concern::MarkIgnored(..) => "MarkIgnored",
        Concern::OneTin => "OneTin",
        Concern::UnknownDriver => "UnknownDriver",
        Concern::EalUnknown(_) => "EalUnknown",
        Concern::SharedCpu(_) => "SharedCpu",
    }
}
