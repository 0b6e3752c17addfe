//! What is refused, warned of or explained, and in which words.

use std::fs;
use std::process::{Command, Stdio};

use crate::bench::*;
use crate::instance::weir_binary;
use hwtests::process::{Signal, run};
use serde_json::Value;

#[test]
fn what_cannot_run_says_why_and_leaves_nothing() {
    let bench = Bench::new("refuse");
    let port = |device| format!("[[link]]\nname = \"x\"\na = \"{device}\"\nb = \"net_null0\"\n");
    for (file, words) in [
        ("[[link]]\nname = \"x\"\na = \"0000:7f:1f.7\"\nb = \"net_null0\"\n".to_owned(), vec!["0000:7f:1f.7"]),
        (
            "[[link]]\nname = \"x\"\na = { device = \"net_tap0,iface=e2ia\", mtu = 9000 }\nb = \"net_null0\"\n".to_owned(),
            vec!["net_tap0", "9000"],
        ),
        (
            format!("[eal]\nargs = [\"--no-huge\", \"-m\", \"32\"]\n{}", taps("e2ja", "e2jb", "")),
            vec!["MiB", "mbufs"],
        ),
        (
            "[[link]]\nname = \"x\"\na = \"net_af_packet0,iface=e2no\"\nb = \"net_null0\"\n".to_owned(),
            vec!["net_af_packet0", "there is no interface e2no"],
        ),
        (
            port("net_memif0,role=server,id=0,socket=/e2e-no-such/m.sock,socket-abstract=no"),
            vec!["net_memif0", "Invalid socket directory"],
        ),
        (port("net_tap0,iface=e2e-longer-than-15"), vec!["net_tap0", "iface=e2e-longer-than-15 has 18 bytes", "at most 15"]),
        (port("net_pcap0,rx_pcap=/e2e-no-such.pcap"), vec!["/e2e-no-such.pcap: No such file or directory"]),
        (format!("[eal]\nlcores = {{ main = 0, workers = [1023] }}\n{IDLE}"), vec!["CPU 1023", "has the CPUs 0", "lcores"]),
        ("[[link]]\nname = \"x\"\na = \"net_null0\"\nb = \"net_null0\"\n".to_owned(), vec!["net_null0", "refuse.toml:4:5"]),
        (
            (0..40).map(|n| format!("[[link]]\nname = \"x{n}\"\na = \"net_null{n}\"\nb = \"net_ring{n}\"\n")).collect(),
            vec!["40 links", "RTE_MAX_ETHPORTS"],
        ),
        (taps("e2ka", "e2kb", "up = { bandwidth = \"20Mbot\" }"), vec!["20Mbot", "bandwidth"]),
    ] {
        let said = bench.refused("refuse", &file);
        for word in words {
            assert!(said.contains(word), "expected {word:?} in:\n{said}");
        }
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn check_explains_and_needs_no_port() {
    let bench = Bench::new("check");
    let file = bench.folder.join("check.toml");
    fs::write(&file, taps("none0", "none1", "up = { bandwidth = \"20Mbit\" }")).unwrap();
    let said = run(Command::new(weir_binary()).arg("check").arg(&file)).unwrap();
    for word in ["bandwidth = \"20Mbit\"", "fq_codel", "mbufs", "rx ring 1024", "--lcores"] {
        assert!(said.contains(word), "expected {word:?} in:\n{said}");
    }
    let json = run(Command::new(weir_binary()).args(["check", "--json"]).arg(&file)).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["link"][0]["up"]["bandwidth"], "20Mbit");
}

#[test]
fn check_warns_of_what_this_machine_has_not() {
    let bench = Bench::new("elsewhere");
    let file = bench.folder.join("elsewhere.toml");
    let asks = |eal: &str, link: &str| {
        fs::write(&file, format!("{eal}{IDLE}{link}")).unwrap();
        let output = Command::new(weir_binary()).arg("check").arg(&file).output().unwrap();
        assert!(output.status.success(), "the file may be meant for another machine: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(asks("", ""), "");
    let cpus = asks("[eal]\nlcores = { main = 0, workers = [1023] }\n", "");
    assert!(cpus.contains("workers names CPU 1023") && cpus.contains("help: "), "{cpus}");
    // Some terabytes of packets.
    let links: String = (0..12)
        .map(|n| {
            let port = |m| format!("{{ device = \"net_null{m}\", mtu = 9000 }}");
            let way = "{ qdisc = \"fifo\", limit = 4194304 }";
            let (a, b) = (port(2 * n + 2), port(2 * n + 3));
            format!("[[link]]\nname = \"x{n}\"\na = {a}\nb = {b}\nup = {way}\ndown = {way}\n")
        })
        .collect();
    let memory = asks("", &links);
    assert!(memory.contains("packets need") && memory.contains("are free on this machine"), "{memory}");
}

#[test]
fn a_start_warns_of_what_a_port_cannot_do_and_of_nothing_else() {
    let bench = Bench::new("warn");
    assert_eq!(bench.warnings(IDLE), [""; 0]);

    let said = bench.warnings(&format!("{IDLE}propagate-link = true\n"));
    let of = |port| said.iter().filter(|line| line.contains("propagate-link") && line.contains(port)).count();
    assert_eq!([of("port net_null0"), of("port net_null1"), said.len()], [1, 1, 2], "{said:?}");

    // With two VLAN tags such a frame takes two buffers.
    let port = |n| format!("{{ device = \"net_null{n},no-rx=1\", mtu = 2028 }}");
    let said = bench.warnings(&format!("[[link]]\nname = \"x\"\na = {}\nb = {}\n", port(0), port(1)));
    assert!(said.len() == 2 && said.iter().all(|line| line.contains("several segments")), "{said:?}");
}

#[test]
fn output_that_nobody_takes_is_no_panic() {
    let bench = Bench::new("mute");
    let weir = bench.weir(IDLE);
    let file = bench.folder.join("e2e-mute.toml").display().to_string();
    for args in [&["show", &weir.name][..], &["show", "--json", &weir.name], &["keys"], &["check", &file]] {
        let gone = |fails: bool| {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            let out = if fails { Stdio::from(full) } else { Stdio::from(writer) };
            Command::new(weir_binary()).args(args).stdout(out).output().unwrap()
        };
        let (seen_enough, full) = (gone(false), gone(true));
        assert!(seen_enough.status.success(), "{args:?}: {seen_enough:?}");
        assert_eq!(full.status.code(), Some(1), "{args:?}: {full:?}");
        assert!(String::from_utf8_lossy(&full.stderr).contains("standard output"), "{args:?}: {full:?}");
    }
    weir.stop(Signal::TERM);
}

#[test]
fn whoever_may_not_is_told_what_to_do() {
    let bench = Bench::new("nobody");
    let weir = bench.weir(IDLE);
    let binary = bench.folder.join("weir");
    fs::copy(weir_binary(), &binary).unwrap();
    let file = bench.folder.join("e2e-nobody.toml");
    let nobody = |args: &[&str]| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary).args(args);
        let output = setpriv.env_remove("XDG_RUNTIME_DIR").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let run = nobody(&["run", file.to_str().unwrap(), "--name", "e2e-nobody-else"]);
    assert!(run.contains("/run/weir") && run.contains("run as root"), "{run}");
    for args in [&["show"][..], &["show", &weir.name]] {
        let show = nobody(args);
        assert!(show.contains("belongs to another user"), "{show}");
    }
    let unknown = Command::new(weir_binary()).args(["show", "e2e-no-such"]).output().unwrap();
    let unknown = String::from_utf8(unknown.stderr).unwrap();
    assert!(unknown.contains("running: ") && unknown.contains(&weir.name), "{unknown}");
    weir.stop(Signal::TERM);
}
