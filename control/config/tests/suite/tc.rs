//! Lines of tc and what they mean in keys, and back.

use crate::common::{Numbers, snapshot};
use config::model::Direction;
use config::tc;

fn up(keys: &str) -> Direction {
    let link = "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = \"net_null1\"\n[link.up]\n";
    let text = format!("{link}{keys}\n");
    let loaded = config::parse("FILE", &text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    loaded.config.links[0].up.clone().unwrap()
}

fn of(line: &str) -> Direction {
    up(&format!("tc = {line:?}"))
}

#[test]
fn a_line_means_what_its_keys_mean() {
    let pairs = [
        ("cake", "qdisc = \"cake\""),
        (
            "cake bandwidth 950Mbit diffserv4 dual-srchost nonat wash",
            "qdisc = \"cake\"\nbandwidth = \"950Mbit\"\ndiffserv = \"diffserv4\"\nflowmode = \"dual-srchost\"\nwash = true",
        ),
        ("cake rtt 30ms", "qdisc = \"cake\"\nrtt = \"regional\""),
        ("cake rtt 100000", "qdisc = \"cake\"\nrtt = \"internet\""),
        ("cake interplanetary", "qdisc = \"cake\"\nrtt = \"3600s\""),
        ("cake bandwidth 1000000", "qdisc = \"cake\"\nbandwidth = \"1Mbit\""),
        ("cake unlimited bandwidth 1mbit", "qdisc = \"cake\"\nbandwidth = \"1Mbit\""),
        ("cake pppoe-ptm ether-vlan mpu 68", "qdisc = \"cake\"\noverhead = \"pppoe-ptm ether-vlan mpu 68\""),
        ("cake atm overhead 18", "qdisc = \"cake\"\noverhead = 18\natm = \"atm\""),
        ("cake overhead -4 raw", "qdisc = \"cake\"\noverhead = \"raw\""),
        ("cake ack-filter", "qdisc = \"cake\"\nack-filter = true"),
        ("cake ack-filter-aggressive", "qdisc = \"cake\"\nack-filter = \"ack-filter-aggressive\""),
        ("cake memlimit 32Mb fwmark 0xF", "qdisc = \"cake\"\nmemlimit = \"32MiB\"\nfwmark = 15"),
        ("cake wash nowash ingress egress", "qdisc = \"cake\""),
        (
            "cake autorate-ingress ingress no-split-gso",
            "qdisc = \"cake\"\nautorate-ingress = true\ningress = true\nsplit-gso = false",
        ),
        ("pfifo limit 50p", "qdisc = \"fifo\"\nlimit = 50"),
        (
            "fq_codel limit 1000p flows 64 quantum 1k target 2000 interval 40ms noecn memory_limit 4Mb drop_batch 8",
            "flows = 64\nlimit = 1000\nquantum = 1024\ntarget = \"2ms\"\ninterval = \"40ms\"\necn = false\nmemory_limit = \"4MiB\"\ndrop_batch = 8",
        ),
        (
            "fq_codel ce_threshold 1ms ce_threshold_selector 0x1/0x3",
            "ce_threshold = \"1ms\"\nce_threshold_selector = \"0x01/0x03\"",
        ),
    ];
    for (line, keys) in pairs {
        assert_eq!(of(line), up(keys), "{line}");
    }
    assert_eq!(of("cake no-split-gso split-gso"), up("qdisc = \"cake\"\nsplit-gso = true"));
    for split in [
        "split-gso = \"auto\"\ngso-budget = \"1ms\"\ngro = true",
        "split-gso = true",
        "split-gso = false",
        "",
    ] {
        assert_eq!(up(&format!("tc = \"cake\"\n{split}")), up(&format!("qdisc = \"cake\"\n{split}")));
        assert_eq!(up(&format!("tc = \"fq_codel\"\n{split}")), up(split));
    }
    let beside = "tc = \"fq_codel limit 10\"\nbandwidth = \"20Mbit\"\noverhead = 18\ncatch-up = \"1ms\"";
    let keys = "limit = 10\nbandwidth = \"20Mbit\"\noverhead = 18\ncatch-up = \"1ms\"";
    assert_eq!(up(beside), up(keys));
}

/// Random directions in keys: the line printed for one means the same, and so do the keys printed.
#[test]
fn what_is_printed_in_either_form_reads_back() {
    let mut numbers = Numbers(11);
    for _ in 0..3_000 {
        let direction = up(&any(&mut numbers));
        let line = direction.to_tc();
        let read = of(&line);
        assert_eq!(read.qdisc, direction.qdisc, "{line}");
        assert_eq!(read.to_tc(), line);
        let beside = direction.beside_tc().into_iter().map(|(key, value)| format!("{key} = {value}\n"));
        let read = up(&format!("tc = {line:?}\n{}", beside.collect::<String>()));
        assert_eq!(Direction { rules: direction.rules.clone(), ..read }, direction, "{line}");
        assert_eq!(up(&direction.to_toml("up")), direction, "{line}");
    }
}

fn any(numbers: &mut Numbers) -> String {
    let rates = ["unlimited", "64Kbit", "19.5Mbit", "1Gbit", "123456789bit"];
    let times = ["1us", "100us", "7ms", "31.25ms", "oceanic", "satellite", "interplanetary"];
    let overheads =
        ["0", "-64", "256", "\"raw\"", "\"raw overhead 12\"", "\"docsis\"", "\"pppoe-ptm ether-vlan\""];
    let mut pick = |options: &[&str]| options[numbers.below(options.len())].to_owned();
    let flag = ["true", "false"];
    let cake = [
        ("autorate-ingress", pick(&flag)),
        ("rtt", format!("\"{}\"", pick(&times))),
        (
            "diffserv",
            pick(&["\"besteffort\"", "\"precedence\"", "\"diffserv3\"", "\"diffserv4\"", "\"diffserv8\""]),
        ),
        (
            "flowmode",
            pick(&["\"flowblind\"", "\"srchost\"", "\"hosts\"", "\"dual-dsthost\"", "\"triple-isolate\""]),
        ),
        ("wash", pick(&flag)),
        ("split-gso", pick(&["true", "false", "\"auto\""])),
        ("ack-filter", pick(&["true", "false", "\"aggressive\""])),
        ("memlimit", pick(&["\"auto\"", "\"16KiB\"", "\"65537b\"", "\"2GiB\""])),
        ("fwmark", pick(&["0x0", "1", "0xff00", "0xffffffff"])),
        ("ingress", pick(&flag)),
        ("atm", pick(&["\"atm\"", "\"ptm\"", "\"noatm\""])),
        ("mpu", pick(&["0", "84", "256"])),
    ];
    let fq_codel = [
        ("limit", pick(&["1", "10240"])),
        ("flows", pick(&["1", "65536"])),
        ("target", pick(&["\"1us\"", "\"5ms\""])),
        ("interval", pick(&["\"100ms\"", "\"6ms\""])),
        ("quantum", pick(&["256", "9014"])),
        ("ecn", pick(&flag)),
        ("ce_threshold", pick(&["\"off\"", "\"0ns\"", "\"1.5ms\""])),
        ("ce_threshold_selector", pick(&["\"0x00/0x00\"", "\"0x01/0x03\""])),
        ("drop_batch", pick(&["1", "64"])),
        ("memory_limit", pick(&["\"32MiB\"", "\"12345b\"", "\"2GiB\""])),
        ("overhead", pick(&overheads)),
        ("bandwidth", format!("\"{}\"", pick(&rates))),
    ];
    let fifo = [("limit", pick(&["1", "4194304"]))];
    let split = [("gso-budget", pick(&["\"1us\"", "\"100ms\""])), ("gro", pick(&flag))];
    let shaping = [("bandwidth", format!("\"{}\"", pick(&rates))), ("overhead", pick(&overheads))];
    let (name, keys): (&str, Vec<_>) = match numbers.below(5) {
        0 => ("fifo", fifo.into_iter().collect()),
        1 => ("fq_codel", fq_codel.into_iter().filter(|(_, value)| value != "\"12345b\"").collect()),
        _ => ("cake", cake.into_iter().chain(shaping).chain(split).collect()),
    };
    let mut text = format!("qdisc = \"{name}\"\n");
    for (key, value) in keys {
        if numbers.below(3) > 0 {
            text += &format!("{key} = {value}\n");
        }
    }
    if name == "cake" && numbers.below(2) == 0 {
        text += "[[link.up.rule]]\nsource = \"10.0.0.0/8\"\nvlan = 5\nmark = 2\n\
                 [[link.up.rule]]\ndestination = \"2001:db8::/32\"\npcp = 5\nset-dscp = \"EF\"\n\
                 [[link.up.rule]]\nexp = 1\ndscp = 3\nmark = 0\n";
    }
    text
}

/// Words of tc and of none, in any order: an answer, never a panic; what is accepted is printed so that it
/// reads back.
#[test]
fn no_line_makes_it_panic() {
    let words = [
        "cake",
        "fq_codel",
        "pfifo",
        "bandwidth",
        "20mbit",
        "unlimited",
        "rtt",
        "100ms",
        "lan",
        "overhead",
        "mpu",
        "18",
        "-4",
        "raw",
        "atm",
        "docsis",
        "memlimit",
        "4mb",
        "fwmark",
        "0xff",
        "wash",
        "nat",
        "limit",
        "10p",
        "quantum",
        "target",
        "5ms",
        "é",
        "\u{0}",
        "\"",
        "99999999999999999999",
        "ecn",
        "0x",
    ];
    let mut numbers = Numbers(5);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let count = numbers.below(5);
        let first = words[numbers.below(3)];
        let rest = (0..count).map(|_| words[numbers.below(words.len())]);
        let line: Vec<_> = std::iter::once(first).chain(rest).collect();
        let tc = toml::Value::String(line.join(" "));
        let text =
            format!("[[link]]\nname = \"x\"\na = \"net_null0\"\nb = \"net_null1\"\nup = {{ tc = {tc} }}\n");
        if let Ok(loaded) = config::parse("FUZZ", &text) {
            let direction = loaded.config.links[0].up.as_ref().unwrap();
            assert_eq!(of(&direction.to_tc()).qdisc, direction.qdisc, "{line:?}");
            accepted += 1;
        }
    }
    assert!(accepted > 500, "only {accepted} lines were accepted");
}

#[test]
fn lines_as_they_are_printed() {
    let lines = [
        of("cake"),
        of(
            "cake bandwidth 100mbit pppoe-ptm ether-vlan diffserv4 ack-filter memlimit 4mb fwmark 0xf wash ingress",
        ),
        of("fq_codel"),
        of("fq_codel ce_threshold 1ms ce_threshold_selector 0x1/0x3 noecn"),
        of("pfifo"),
    ];
    let text: String = lines.iter().map(|direction| direction.to_tc() + "\n").collect();
    snapshot("control/config/tests/snapshots/tc.txt", &text);
    assert!(!tc::CakeOptions.to_string().is_empty());
}
