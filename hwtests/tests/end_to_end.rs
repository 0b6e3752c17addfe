//! `weir` as its users run it: real files, real ports, real packets, real signals. Needs root (taps, namespaces).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod instance;

use std::fs;
use std::ops::Sub;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hwtests::clock::{Interrupt, nap, now};
use hwtests::iperf::{Host, Load, Received, Transfer};
use hwtests::netns::Netns;
use hwtests::process::{Process, Signal, command, run};
use instance::{Weir, weir_binary};
use serde_json::Value;

#[test]
fn tcp_and_ping_pass_between_two_taps_and_every_packet_is_accounted_for() {
    let interrupt = Interrupt::install().unwrap();
    let bench = Bench::new("tcp");
    let weir = bench.weir(&taps(
        "e2ea",
        "e2eb",
        "up = { bandwidth = \"50Mbit\" }\ndown = { bandwidth = \"50Mbit\" }",
    ));
    let (a, b) = namespaces("e2ea", "e2eb", &interrupt);
    run(a.command("ping").args(["-c", "5", "-i", "0.2", "-W", "5", "192.0.2.2"])).unwrap();
    let load = Load { streams: 4, seconds: 3, omit: 0, congestion: "cubic" };
    let hosts = [(&a, "192.0.2.1"), (&b, "192.0.2.2")].map(|(netns, address)| Host { netns, address });
    let rate = transfer(hosts[0], hosts[1], load, &interrupt).total;
    let received = (rate * f64::from(load.seconds) / 8.0) as u64;
    assert!(received > 1_000_000, "{received} bytes of TCP arrived");
    let show = weir.show();
    let up = &show["links"][0]["directions"][0];
    assert!(up["sent"]["bytes"].as_u64().unwrap() > received, "{up:#}");
    assert!(up["qdisc"]["new_flow_count"].as_u64().unwrap() >= 4, "{up:#}");
    assert!(up["control"]["packets"].as_u64().unwrap() >= 1, "ARP went through the control queue: {up:#}");
    assert_conserved(&show);
    assert_histograms(&weir);
    weir.stop(Signal::TERM);
}

/// Both ends announce an MSS of 64 KB, so that what their kernels send is cut by weir alone: net_tap takes no offload.
#[test]
fn tcp_of_frames_up_to_64_kb_arrives_in_frames_of_the_port_behind() {
    let interrupt = Interrupt::install().unwrap();
    let ends = ["e2sa", "e2sb"].map(|end| format!("{end}{}", std::process::id()));
    let bench = Bench::new(&format!("super-{}", std::process::id()));
    // No AQM that drops when this machine stops weir for a while: a retransmission then means a broken frame.
    let weir = bench.weir(&taps(
        &ends[0],
        &ends[1],
        "up = { target = \"1s\", interval = \"10s\" }\n\
         down = { qdisc = \"cake\", rtt = \"20s\", split-gso = true }",
    ));
    let (a, b) = namespaces(&ends[0], &ends[1], &interrupt);
    let (a, b) = (Jumbo::new(a, &ends[0], "2001:db8::1"), Jumbo::new(b, &ends[1], "2001:db8::2"));
    for addresses in [["192.0.2.1", "192.0.2.2"], ["2001:db8::1", "2001:db8::2"]] {
        for ((from, source), (to, sink)) in
            [((&a, addresses[0]), (&b, addresses[1])), ((&b, addresses[1]), (&a, addresses[0]))]
        {
            let (sent, received) = (from.frames("tx"), to.frames("rx"));
            let load = Load { streams: 2, seconds: 1, omit: 0, congestion: "cubic" };
            let host = |netns, address| Host { netns, address };
            let rate = transfer(host(&from.netns, source), host(&to.netns, sink), load, &interrupt).total;
            assert!(rate > 8e6, "{rate} bit/s of TCP from {source}");
            let (sent, received) = (from.frames("tx") - sent, to.frames("rx") - received);
            assert!(sent.mean_len() > 4 * 1514, "the kernel sent no super-packets: {sent:?}");
            assert!(
                received.mean_len() <= 1514 && received.frames > 4 * sent.frames,
                "{sent:?} {received:?}"
            );
        }
    }
    let show = weir.show();
    assert_conserved(&show);
    for direction in show["links"][0]["directions"].as_array().unwrap() {
        assert_eq!(direction["dropped"]["packets"], 0, "{direction:#}");
        let supers = &direction["supers"];
        assert!(supers["received"]["packets"].as_u64() > Some(0), "{direction:#}");
        // Before they are queued, or on their way out: this port cuts nothing, and its link is fast.
        let cut = [&supers["pieces"][0]["pieces"], &supers["late_cuts"]].map(|count| count.as_u64().unwrap());
        assert!(cut.iter().sum::<u64>() > 0, "{supers:#}");
    }
    a.assert_nothing_broke();
    b.assert_nothing_broke();
    weir.stop(Signal::TERM);
}

#[test]
fn a_lost_link_holds_packets_back_and_comes_back() {
    let interrupt = Interrupt::install().unwrap();
    let bench = Bench::new("flap");
    // weir sees the state of a tap only in its own namespace: it runs where b is.
    let b = Netns::new("e2fb", None, &interrupt).unwrap();
    let weir = bench.weir_in(&b, &taps("e2fa", "e2fb", "link-down-hold = \"50ms\""));
    let a = Netns::new("e2fa", None, &interrupt).unwrap();
    run(b.command("ip").args(["link", "set", "e2fa", "netns", &a.pid().to_string()])).unwrap();
    a.set_up("e2fa", "192.0.2.1/24").unwrap();
    b.set_up("e2fb", "192.0.2.2/24").unwrap();
    run(a.command("ping").args(["-c", "2", "-W", "5", "192.0.2.2"])).unwrap();
    // Not to be forgotten with the link: what is held back must be more than ARP.
    run(a.command("ip").args([
        "neigh",
        "replace",
        "192.0.2.2",
        "dev",
        "e2fa",
        "lladdr",
        "02:00:00:00:00:01",
    ]))
    .unwrap();
    for _ in 0..3 {
        run(b.command("ip").args(["link", "set", "e2fb", "down"])).unwrap();
        weir.until("link down", |show| show["links"][0]["b"]["link_up"] == false);
        let _ = run(a.command("ping").args(["-c", "3", "-i", "0.1", "-W", "1", "192.0.2.2"]));
        weir.until("given up", |show| show["links"][0]["directions"][0]["backlog"]["packets"] == 0);
        run(b.command("ip").args(["link", "set", "e2fb", "up"])).unwrap();
        weir.until("link up", |show| show["links"][0]["b"]["link_up"] == true);
        let sent = weir.show()["links"][0]["directions"][0]["sent"]["packets"].clone();
        let _ = run(a.command("ping").args(["-c", "3", "-i", "0.1", "-W", "1", "192.0.2.2"]));
        weir.until("traffic resumes", |show| show["links"][0]["directions"][0]["sent"]["packets"] != sent);
    }
    let events: Value =
        serde_json::from_str(&weir.tell(&["history", "--json", &weir.name]).unwrap()).unwrap();
    for state in ["is down", "is up"] {
        let is_told =
            |event: &&Value| event["kind"] == "link" && event["text"].as_str().unwrap().contains(state);
        assert!(events.as_array().unwrap().iter().filter(is_told).count() >= 3, "{state}: {events:#}");
    }
    let show = weir.show();
    assert_conserved(&show);
    let up = &show["links"][0]["directions"][0];
    assert!(up["losses"]["link-down"]["packets"].as_u64().unwrap() >= 3, "{up:#}");
    weir.stop(Signal::INT);
}

#[test]
fn a_deleted_tap_is_a_lost_link() {
    let interrupt = Interrupt::install().unwrap();
    let bench = Bench::new("gone");
    let b = Netns::new("e2lb", None, &interrupt).unwrap();
    let weir = bench.weir_in(&b, &taps("e2la", "e2lb", "link-down-hold = \"50ms\""));
    let a = Netns::new("e2la", None, &interrupt).unwrap();
    run(b.command("ip").args(["link", "set", "e2la", "netns", &a.pid().to_string()])).unwrap();
    a.set_up("e2la", "192.0.2.1/24").unwrap();
    run(a.command("ip").args(["link", "set", "e2la", "name", "e2other"])).unwrap();
    b.set_up("e2lb", "192.0.2.2/24").unwrap();
    run(a.command("ping").args(["-c", "2", "-W", "5", "192.0.2.2"])).unwrap();
    run(b.command("ip").args(["link", "delete", "e2lb"])).unwrap();
    weir.until("link down", |show| show["links"][0]["b"]["link_up"] == false);
    assert_eq!(weir.show()["links"][0]["a"]["link_up"], true, "the other one is only elsewhere");
    let _ = run(a.command("ping").args(["-c", "3", "-i", "0.1", "-W", "1", "192.0.2.2"]));
    weir.until("given up", |show| {
        let up = &show["links"][0]["directions"][0];
        up["backlog"]["packets"] == 0 && up["losses"]["link-down"]["packets"].as_u64() > Some(0)
    });
    assert_conserved(&weir.show());
    weir.stop(Signal::TERM);
}

#[test]
fn two_instances_run_side_by_side_and_a_name_is_taken_once() {
    let bench = Bench::new("pair");
    let one = bench.weir_named("pair-one", &taps("e2ga", "e2gb", ""));
    let two = bench.weir_named("pair-two", &taps("e2gc", "e2gd", ""));
    assert_eq!(one.show()["name"], "pair-one");
    assert_eq!(two.show()["name"], "pair-two");
    let refused = bench.refused("pair-one", &taps("e2ge", "e2gf", ""));
    assert!(refused.contains("pair-one") && refused.contains("--name"), "{refused}");
    let refused = bench.refused("pair-three", &taps("e2gb", "e2gf", ""));
    assert!(refused.contains("e2gb") && refused.contains("process"), "{refused}");
    one.stop(Signal::INT);
    assert_eq!(two.show()["name"], "pair-two", "the other one goes on");
    two.stop(Signal::INT);
}

#[test]
fn every_virtual_port_starts_stops_and_starts_again() {
    let bench = Bench::new("vdev");
    let socket = bench.folder.join("vhost.sock").display().to_string();
    let memif = bench.folder.join("memif.sock").display().to_string();
    for (a, b) in [
        ("net_null0".to_owned(), "net_null1".to_owned()),
        ("net_ring0".to_owned(), "net_ring1".to_owned()),
        (format!("net_vhost0,iface={socket},queues=1"), "net_null0".to_owned()),
        (format!("net_memif0,role=server,id=0,socket={memif},socket-abstract=no"), "net_null0".to_owned()),
        ("net_tap0,iface=e2ha".to_owned(), "net_null0,no-rx=1".to_owned()),
    ] {
        for _ in 0..2 {
            let weir = bench.weir(&format!("[[link]]\nname = \"x\"\na = \"{a}\"\nb = \"{b}\"\n"));
            assert_conserved(&weir.show());
            weir.stop(Signal::TERM);
        }
    }
}

#[test]
fn a_killed_instance_does_not_stand_in_the_way_of_the_next() {
    let bench = Bench::new("kill");
    let socket = |name: &str| bench.folder.join(name).display().to_string();
    for port in [
        format!("net_vhost0,iface={},queues=1", socket("vhost.sock")),
        format!("net_memif0,role=server,id=0,socket={},socket-abstract=no", socket("memif.sock")),
        "net_tap0,iface=e2ma".to_owned(),
    ] {
        let file = format!("[[link]]\nname = \"x\"\na = \"{port}\"\nb = \"net_null0,no-rx=1\"\n");
        let killed = bench.weir(&file);
        killed.process.stop(Signal::KILL, Duration::from_secs(5)).unwrap();
        let next = bench.weir(&file);
        assert_conserved(&next.show());
        next.stop(Signal::TERM);
    }
}

#[test]
fn kernel_interfaces_are_driven_by_af_packet_and_af_xdp() {
    let interrupt = Interrupt::install().unwrap();
    for driver in ["net_af_packet", "net_af_xdp"] {
        let bench = Bench::new("veth");
        let a = Veth::new("e2va", "192.0.2.1/24", &interrupt);
        let _b = Veth::new("e2vb", "192.0.2.2/24", &interrupt);
        let weir = bench.weir(&format!(
            "[[link]]\nname = \"veth\"\na = \"{driver}0,iface=e2va\"\nb = \"{driver}1,iface=e2vb\"\n\
             up = {{ bandwidth = \"20Mbit\" }}\n"
        ));
        // A ping that met an error of the socket ends early, and with success if one answer came.
        weir.until("five frames pass", |show| {
            run(a.far.command("ping").args(["-c", "5", "-i", "0.2", "-W", "5", "192.0.2.2"])).unwrap();
            show["links"][0]["directions"][0]["sent"]["packets"].as_u64() >= Some(5)
        });
        assert_conserved(&weir.show());
        let link = |state| run(Command::new("ip").args(["link", "set", "e2vb", state])).unwrap();
        link("down");
        weir.until("link down", |show| show["links"][0]["b"]["link_up"] == false);
        assert_eq!(weir.show()["links"][0]["a"]["link_up"], true, "{driver}");
        let _ = run(a.far.command("ping").args(["-c", "3", "-i", "0.1", "-W", "1", "192.0.2.2"]));
        weir.until("given up", |show| {
            show["links"][0]["directions"][0]["losses"]["link-down"]["packets"].as_u64() > Some(0)
        });
        link("up");
        weir.until("link up", |show| show["links"][0]["b"]["link_up"] == true);
        run(a.far.command("ping").args(["-c", "5", "-i", "0.2", "-W", "5", "192.0.2.2"])).unwrap();
        assert_conserved(&weir.show());
        weir.stop(Signal::INT);
        for end in ["e2va", "e2vb"] {
            let found = run(Command::new("ip").args(["link", "show", end])).unwrap();
            assert!(!found.contains("PROMISC"), "{driver} leaves {found}");
        }
    }
}

#[test]
fn frames_of_a_capture_leave_as_they_came() {
    let bench = Bench::new("pcap");
    let frames: Vec<Vec<u8>> = (0..200_u32).map(frame).collect();
    write_pcap(&bench.folder.join("in.pcap"), &frames);
    let weir = bench.weir(&format!(
        "[[link]]\nname = \"capture\"\na = \"net_pcap0,rx_pcap={0}/in.pcap\"\n\
         b = \"net_pcap1,tx_pcap={0}/out.pcap\"\nup = {{ qdisc = \"fifo\", bandwidth = \"10Mbit\" }}\ndown = \"off\"\n",
        bench.folder.display()
    ));
    weir.until("all sent", |show| show["links"][0]["directions"][0]["sent"]["packets"] == 200);
    weir.stop(Signal::INT);
    let mut sent = read_pcap(&bench.folder.join("out.pcap"));
    let mut expected = frames;
    // Control frames go first, so the order is compared without them elsewhere; here the bytes are.
    sent.sort();
    expected.sort();
    assert!(sent == expected, "{} frames came out, not the same {} that went in", sent.len(), expected.len());
}

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

/// Nobody takes frames out of the ring, so that all of it fills where no limit holds.
#[test]
fn what_lies_below_the_scheduler_is_shown_with_its_price() {
    let bench = Bench::new("below");
    let link = |complete_on| {
        format!(
            "[[link]]\nname = \"x\"\na = \"net_null0,size=1000\"\n\
             b = {{ device = \"net_ring0\", complete-on = \"{complete_on}\" }}\n\
             up = {{ bandwidth = \"100Mbit\" }}\ndown = \"off\"\n"
        )
    };
    let queue = |show: &Value| show["links"][0]["b"]["tx_queues"][0].clone();
    let weir = bench.weir(&link("submit"));
    weir.until("a full ring", |show| queue(show)["descriptors"] == 1_023);
    let price = queue(&weir.show());
    assert_eq!((&price["complete_on"], &price["binds"]), (&"submit".into(), &false.into()));
    assert_eq!((&price["source"], &price["in_flight"]), (&"held-reference".into(), &1_023_000.into()));
    let text = run(Command::new(weir_binary()).args(["show", &weir.name])).unwrap();
    assert!(text.contains("complete-on submit, 1023000b in 1023 descriptors below the scheduler"), "{text}");
    weir.stop(Signal::TERM);

    let weir = bench.weir(&link("completion"));
    weir.until("a limit that holds", |show| {
        let queue = queue(show);
        queue["binds"] == true && queue["in_flight"].as_u64() > Some(0)
    });
    let held = queue(&weir.show());
    assert!(held["descriptors"].as_u64() < Some(512), "{held:#}");
    assert!(
        weir.show()["links"][0]["a"]["tx_queues"].as_array().unwrap().is_empty(),
        "nothing is sent there"
    );
    weir.stop(Signal::TERM);
}

#[test]
fn probe_tells_what_completions_are_worth_and_leaves_nothing() {
    let probe = |args: &[&str]| Command::new(weir_binary()).arg("probe").args(args).output().unwrap();
    let verdict = |args: &[&str]| -> Value {
        let output = probe(args);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let null = verdict(&["net_null0", "--json"]);
    assert_eq!((&null["source"], &null["driver"]), (&"submit".into(), &"net_null".into()));
    assert_eq!((&null["evidence"]["copies"], &null["as_known"]), (&true.into(), &true.into()));
    assert_eq!(null["evidence"]["idle"]["queue_count"], "not offered");

    // Nobody takes frames out of it.
    let bench = Bench::new("probe");
    let file = bench.folder.join("probe.toml");
    fs::write(
        &file,
        "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = { device = \"net_ring0\", tx-ring = 256 }\n",
    )
    .unwrap();
    let ring = verdict(&["x/b", file.to_str().unwrap(), "--json"]);
    assert_eq!((&ring["ring"], &ring["evidence"]["copies"]), (&256.into(), &false.into()));
    assert!(
        ring["evidence"]["shown_by"].is_null() && ring["evidence"]["sent"].as_u64() > Some(255),
        "{ring:#}"
    );

    let text = String::from_utf8(probe(&["net_null0"]).stdout).unwrap();
    assert!(text.starts_with("port net_null0: driver net_null, ring 1024: submit, nudge none\n"), "{text}");

    let refused = probe(&["net_af_packet0,iface=lo"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("lo has 127.0.0.1") && said.contains("--force"), "{said}");

    let left = fs::read_dir("/run/dpdk").into_iter().flatten().flatten();
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with("weir-probe-")).collect();
    assert!(left.is_empty(), "{left:?}");
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
fn a_hangup_takes_up_the_changed_file() {
    let bench = Bench::new(&format!("hangup-{}", std::process::id()));
    let mut weir = bench.weir(IDLE);
    let interrupt = Interrupt::install().unwrap();
    weir.process.signal(Signal::HUP).unwrap();
    weir.process
        .wait_for("SIGHUP: nothing differs from what runs", Duration::from_secs(30), &interrupt)
        .unwrap();
    bench.write(&format!("{IDLE}up = {{ bandwidth = \"7Mbit\" }}\n"));
    weir.process.signal(Signal::HUP).unwrap();
    weir.until("7 Mbit/s", |show| show["links"][0]["directions"][0]["bandwidth"] == 7_000_000);
    assert_eq!(weir.show()["workers"][0]["generation"], 1);
    assert_conserved(&weir.show());
    weir.stop(Signal::TERM);
}

/// A rate that rises and falls, other tins, another isolation, while TCP runs: all of it is taken up, and every packet
/// is accounted for.
#[test]
fn settings_change_under_load() {
    let interrupt = Interrupt::install().unwrap();
    let ends = ["e2ra", "e2rb"].map(|end| format!("{end}{}", std::process::id()));
    let bench = Bench::new(&format!("reload-{}", std::process::id()));
    let file = |up: &str| taps(&ends[0], &ends[1], &format!("up = {{ qdisc = \"cake\", {up} }}"));
    let weir = bench.weir(&file("bandwidth = \"20Mbit\""));
    let (a, b) = namespaces(&ends[0], &ends[1], &interrupt);
    let load = Load { streams: 4, seconds: 4, omit: 0, congestion: "cubic" };
    let hosts = [(&a, "192.0.2.1"), (&b, "192.0.2.2")].map(|(netns, address)| Host { netns, address });
    let mut load = Transfer::start(hosts[0], hosts[1], load, &interrupt).unwrap();
    weir.until("load", |show| show["links"][0]["directions"][0]["backlog"]["packets"].as_u64() > Some(5));
    let modes = ["flows", "srchost", "triple-isolate", "flowblind"];
    for round in 0..20 {
        let [mode, tins] = [modes[round % 4], ["besteffort", "diffserv4", "diffserv8"][round % 3]];
        bench.write(&file(&format!(
            "bandwidth = \"{}Mbit\", flowmode = \"{mode}\", diffserv = \"{tins}\"",
            20 + round
        )));
        let said = weir.tell(&["reload", &weir.name]).unwrap();
        assert!(said.starts_with(&format!("generation {} (lcore ", 2 * round + 1)), "{said}");
        assert!(said.contains("e2e.up.flowmode") || round == 2, "{said}");
        weir.tell(&["set", "up.bandwidth", "60Mbit", "--name", &weir.name]).unwrap();
    }
    let show = weir.show();
    assert_eq!(show["workers"][0]["generation"], 40);
    assert_eq!(show["links"][0]["directions"][0]["bandwidth"], 60_000_000);
    assert_conserved(&show);
    while load.result().unwrap().is_none() {
        nap(Duration::from_millis(20));
    }
    let show = weir.show();
    assert_conserved(&show);
    assert!(show["links"][0]["directions"][0]["losses"].get("change").is_none(), "{show:#}");
    let history = weir.tell(&["history", &weir.name]).unwrap();
    assert!(history.contains("generation 40") && history.contains("set up.bandwidth 60Mbit"), "{history}");
    weir.stop(Signal::TERM);
}

#[test]
fn what_is_set_for_a_time_is_set_back() {
    let bench = Bench::new(&format!("revert-{}", std::process::id()));
    let weir = bench.weir(IDLE);
    let rate = |show: &Value| show["links"][0]["directions"][0]["bandwidth"].clone();
    let said = weir.tell(&["set", "up.bandwidth", "5Mbit", "--dry-run", "--name", &weir.name]).unwrap();
    assert!(said.contains("would change") && said.contains("\"unlimited\" -> \"5Mbit\""), "{said}");
    assert_eq!(rate(&weir.show()), Value::Null);
    weir.tell(&["set", "up.bandwidth", "5Mbit", "--for", "1s", "--name", &weir.name]).unwrap();
    assert_eq!(rate(&weir.show()), 5_000_000);
    weir.until("unlimited again", |show| rate(show) == Value::Null);
    let history = weir.tell(&["history", &weir.name]).unwrap();
    assert!(history.contains("its time is over") && history.contains("generation 2"), "{history}");
    weir.stop(Signal::TERM);
}

/// Whatever is wrong with the file: it is told, and what runs stays as it is.
#[test]
fn a_file_that_is_wrong_changes_nothing() {
    let bench = Bench::new(&format!("wrong-{}", std::process::id()));
    let started = format!("{IDLE}up = {{ limit = 1000, bandwidth = \"5Mbit\" }}\n");
    let weir = bench.weir(&started);
    let other = |from: &str, to: &str| started.replace(from, to);
    let more = IDLE.replace("idle", "more").replace("null0", "null2").replace("null1", "null3");
    for (file, said) in [
        ("[[link".to_owned(), "weir: "),
        (String::new(), "there is no link"),
        (other("bandwidth", "bandwith"), "bandwidth"),
        (other("5Mbit", "5"), "the unit is missing"),
        (other("5Mbit", "1bit"), "accepted"),
        (other("limit = 1000", "limit = \"many\""), "number"),
        (
            other("limit = 1000", "limit = 2000"),
            "idle.up.limit: 1000 -> 2000 (more than memory was allocated for",
        ),
        (other("limit = 1000", "qdisc = \"cake\""), "idle.up.qdisc: \"fq_codel\" -> \"cake\""),
        (other("limit = 1000", "flows = 2048"), "idle.up.flows: 1024 -> 2048"),
        (
            other("\"net_null0,no-rx=1\"", "{ device = \"net_null0,no-rx=1\", mtu = 9000 }"),
            "idle.a.mtu: 1500 -> 9000",
        ),
        (other("null1", "null7"), "idle.b.device"),
        (other("\"idle\"", "\"busy\""), "link: [\"idle\"] -> [\"busy\"]"),
        (format!("{started}{more}"), "link: [\"idle\"] -> [\"idle\", \"more\"]"),
        (format!("{started}down = \"off\"\n"), "idle.down: a table -> \"off\""),
        (format!("[eal]\nargs = [\"-m\", \"64\"]\n{started}"), "eal.args"),
    ] {
        bench.write(&format!("[engine]\npoll = \"busy\"\n{file}"));
        let refused = weir.tell(&["reload", &weir.name]).unwrap_err();
        assert!(refused.contains(said), "{said}: {refused}");
    }
    fs::remove_file(bench.folder.join(format!("{}.toml", bench.name))).unwrap();
    assert!(weir.tell(&["reload", &weir.name]).unwrap_err().contains("cannot be read"));
    let show = weir.show();
    assert_eq!(show["workers"][0]["generation"], 0);
    let up = &show["links"][0]["directions"][0];
    assert_eq!(up["bandwidth"], 5_000_000);
    assert!(up["options"].as_str().unwrap().contains("limit 1000p"), "{up}");
    bench.write(&format!("[engine]\npoll = \"busy\"\n{started}"));
    let said = weir.tell(&["reload", &weir.name]).unwrap();
    assert!(
        said.contains("engine.poll: \"adaptive\" -> \"busy\""),
        "what was refused was not half done: {said}"
    );
    weir.stop(Signal::TERM);
}

/// The driver waits for its peer, which never comes, in a call that nobody can interrupt.
#[test]
fn a_start_that_waits_can_be_stopped_and_leaves_nothing() {
    let bench = Bench::new("wait");
    let socket = bench.folder.join("virtio.sock");
    for signal in [Signal::TERM, Signal::INT] {
        let mut process = bench.spawn(
            &bench.name,
            &format!(
                "[[link]]\nname = \"x\"\na = \"net_virtio_user0,path={},server=1\"\nb = \"net_null0\"\n",
                socket.display()
            ),
        );
        let interrupt = Interrupt::install().unwrap();
        process.wait_for("attaching net_virtio_user0", Duration::from_secs(30), &interrupt).unwrap();
        assert!(socket.exists());
        let (status, lines) = process.stop(signal, Duration::from_secs(20)).unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("stopped while starting")), "{lines:?}");
        assert!(!socket.exists());
        assert_nothing_left(&bench.name);
    }
}

#[test]
fn a_flood_of_questions_does_not_keep_it_from_stopping() {
    let bench = Bench::new("flood");
    let weir = bench.weir(IDLE);
    let path = format!("/run/weir/{}.sock", weir.name);
    let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(&path).unwrap()).collect();
    assert_conserved(&weir.show());
    let go = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let _end = Lowered(&go);
        for _ in 0..4 {
            scope.spawn(|| {
                while go.load(Ordering::Relaxed) {
                    let _ = UnixStream::connect(&path);
                }
            });
        }
        assert_conserved(&weir.show());
        weir.stop(Signal::TERM);
    });
    drop(silent);
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

/// A folder for one test's files; nothing of the test may be left once it is dropped.
struct Bench {
    name: String,
    folder: PathBuf,
}

/// A veth pair: one end here for weir, the other in a namespace, all offloads off.
struct Veth {
    far: Netns,
    outside: String,
}

impl Bench {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-e2e-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self { name: format!("e2e-{name}"), folder }
    }

    fn weir(&self, file: &str) -> Weir {
        self.weir_named(&self.name, file)
    }

    /// Changes the file.
    fn write(&self, file: &str) {
        fs::write(self.folder.join(format!("{}.toml", self.name)), file).unwrap();
    }

    fn weir_named(&self, name: &str, file: &str) -> Weir {
        let interrupt = Interrupt::install().unwrap();
        let mut process = self.spawn(name, file);
        process.wait_for("ready", Duration::from_secs(30), &interrupt).unwrap();
        Weir { name: name.to_owned(), process }
    }

    /// Runs until it is ready; the warnings, wherever they came among other lines.
    fn warnings(&self, file: &str) -> Vec<String> {
        let process = self.spawn(&self.name, file);
        let mut said = Vec::new();
        while !said.last().is_some_and(|line: &String| line.contains("ready")) {
            said.push(process.line(Duration::from_secs(30)).expect("weir is not ready and says nothing"));
        }
        let (status, rest) = process.stop(Signal::TERM, Duration::from_secs(20)).unwrap();
        assert!(status.success(), "{status}: {said:?}");
        said.into_iter().chain(rest).filter(|line| line.contains("warning")).collect()
    }

    /// Runs inside a namespace.
    fn weir_in(&self, netns: &Netns, file: &str) -> Weir {
        let mut process = self.start(netns.command(weir_binary().to_str().unwrap()), &self.name, file);
        process.wait_for("ready", Duration::from_secs(30), &Interrupt::install().unwrap()).unwrap();
        Weir { name: self.name.clone(), process }
    }

    /// Runs a file that must be refused; what was said.
    fn refused(&self, name: &str, file: &str) -> String {
        let mut process = self.spawn(name, file);
        let end = now() + Duration::from_secs(30);
        while process.ended().unwrap().is_none() {
            assert!(now() < end, "weir neither ran nor refused");
            nap(Duration::from_millis(10));
        }
        let (status, lines) = process.stop(Signal::TERM, Duration::ZERO).unwrap();
        // 78: for its configuration.
        assert!(matches!(status.code(), Some(1 | 78)), "{status}: {}", lines.join("\n"));
        lines.join("\n")
    }

    fn spawn(&self, name: &str, file: &str) -> Process {
        self.start(command(weir_binary()), name, file)
    }

    fn start(&self, mut start: Command, name: &str, file: &str) -> Process {
        let path = self.folder.join(format!("{name}.toml"));
        fs::write(&path, file).unwrap();
        start.arg("run").arg(&path).args(["--name", name]);
        Process::spawn("weir", &mut start, None).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Weir {
    /// Stops it, and sees to it that all is accounted for and nothing is left.
    fn stop(self, signal: Signal) {
        let name = self.name.clone();
        let said = self.end(signal);
        assert!(said.contains("Sent "), "no summary: {said}");
        assert_nothing_left(&name);
    }
}

impl Veth {
    fn new(outside: &str, address: &str, interrupt: &Interrupt) -> Self {
        let far = Netns::new(outside, None, interrupt).unwrap();
        let inside = format!("{outside}i");
        run(Command::new("ip").args(["link", "add", outside, "type", "veth", "peer", "name", &inside]))
            .unwrap();
        let veth = Self { far, outside: outside.to_owned() };
        veth.far.take(&inside, address).unwrap();
        // The kernel behind the end that weir drives may have an address of this network too, and must not answer for it.
        run(Command::new("ip").args(["link", "set", outside, "arp", "off", "up"])).unwrap();
        for mut ethtool in [Command::new("ethtool"), veth.far.command("ethtool")] {
            let end = if ethtool.get_program() == "ethtool" { outside } else { &inside };
            run(ethtool.args(["-K", end, "tx", "off", "tso", "off", "gso", "off", "gro", "off"])).unwrap();
        }
        veth
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        let _ = run(Command::new("ip").args(["link", "delete", &self.outside]));
    }
}

/// A namespace whose interface takes frames of 64 KB, with TCP that retransmits only what was lost.
struct Jumbo {
    netns: Netns,
    interface: String,
}

/// What an interface has passed on.
#[derive(Clone, Copy, Debug)]
struct Frames {
    frames: u64,
    bytes: u64,
}

impl Jumbo {
    /// `netns` with `interface`, which has its IPv4 address.
    fn new(netns: Netns, interface: &str, ipv6: &str) -> Self {
        run(netns.command("sh").args(["-ec", JUMBO, "sh", interface, ipv6])).unwrap();
        Self { netns, interface: interface.to_owned() }
    }

    fn frames(&self, way: &str) -> Frames {
        let text = run(self.netns.command("ip").args(["-j", "-s", "link", "show", &self.interface])).unwrap();
        let interface: Value = serde_json::from_str(&text).unwrap();
        let count = |unit: &str| interface[0]["stats64"][way][unit].as_u64().unwrap();
        Frames { frames: count("packets"), bytes: count("bytes") }
    }

    /// No frame that arrived was damaged, out of order or sent a second time.
    fn assert_nothing_broke(&self) {
        let text = run(self.netns.command("nstat").args(["-asz", "--json"])).unwrap();
        let counters: Value = serde_json::from_str(&text).unwrap();
        let counters = counters["kernel"].as_object().unwrap();
        for suffix in ["InCsumErrors", "InHdrErrors", "InTruncatedPkts", "InErrs", "RetransSegs", "OFOQueue"]
        {
            let of_it: Vec<_> = counters.iter().filter(|(name, _)| name.ends_with(suffix)).collect();
            assert!(
                of_it.iter().any(|(name, _)| name.contains("Tcp") || name.contains("Ip6")),
                "no {suffix}"
            );
            assert!(of_it.iter().all(|(_, count)| **count == 0), "{}: {of_it:?}", self.interface);
        }
    }
}

impl Frames {
    fn mean_len(&self) -> u64 {
        self.bytes / self.frames.max(1)
    }
}

impl Sub for Frames {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { frames: self.frames - before.frames, bytes: self.bytes - before.bytes }
    }
}

/// Moves as much TCP as `load` says, and waits for its end.
fn transfer(from: Host<'_>, to: Host<'_>, load: Load, interrupt: &Interrupt) -> Received {
    let mut transfer = Transfer::start(from, to, load, interrupt).unwrap();
    loop {
        match transfer.result().unwrap() {
            Some(received) => return received,
            None => nap(Duration::from_millis(20)),
        }
    }
}

/// Is set to `false` when this is dropped, by a panic too.
struct Lowered<'a>(&'a AtomicBool);

impl Drop for Lowered<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn assert_nothing_left(name: &str) {
    for path in [format!("/run/weir/{name}.sock"), format!("/run/dpdk/weir-{name}")] {
        assert!(!Path::new(&path).exists(), "{path} is left");
    }
}

/// received = sent + dropped + backlog, for every direction.
fn assert_conserved(show: &Value) {
    for direction in
        show["links"].as_array().unwrap().iter().flat_map(|link| link["directions"].as_array().unwrap())
    {
        for unit in ["packets", "bytes"] {
            let count = |what: &str| direction[what][unit].as_u64().unwrap();
            assert_eq!(
                count("received") + count("added"),
                count("sent") + count("dropped") + count("backlog") + count("removed"),
                "{unit}: {direction:#}"
            );
        }
    }
}

/// Each packet is in the histograms once, in the document and in the log as a reader finds it that is not weir's.
fn assert_histograms(weir: &Weir) {
    let log = std::env::temp_dir().join(format!("weir-hist-{}.hlog", std::process::id()));
    let before = weir.show();
    let document = weir.tell(&["hist", &weir.name, "--format", "json"]).unwrap();
    weir.tell(&["hist", &weir.name, "--format", "log", "--out", log.to_str().unwrap()]).unwrap();
    let after = weir.show();
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/hdr-read");
    let read = run(Command::new(reader).arg(&log)).unwrap();
    fs::remove_file(&log).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let read: Vec<Value> = read.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (way, name) in ["up", "down"].into_iter().enumerate() {
        let sent = |show: &Value| {
            let direction = &show["links"][0]["directions"][way];
            direction["sent"]["packets"].as_u64().unwrap() - direction["control"]["packets"].as_u64().unwrap()
        };
        let expected = sent(&before)..=sent(&after);
        for kind in ["sojourn", "total"] {
            let histograms = document["histograms"].as_array().unwrap();
            let found = histograms.iter().find(|of| of["direction"] == name && of["kind"] == kind).unwrap();
            let count = found["count"].as_u64().unwrap();
            assert!(expected.contains(&count), "{name} {kind}: {count} of {expected:?}");
            let link = found["link"].as_str().unwrap();
            let tag = format!("{link}.{name}.all.{kind}");
            let line = read.iter().find(|line| line["tag"] == tag.as_str()).unwrap();
            assert!(expected.contains(&line["count"].as_u64().unwrap()), "{line} of {expected:?}");
            assert_eq!(found["until"], "submission", "net_tap shows no completions: {found:#}");
        }
    }
    let refused = weir.tell(&["hist", &weir.name, "--tin", "Voice"]).unwrap_err();
    assert!(refused.contains("there is no such histogram"), "{refused}");
}

/// Ports that receive nothing.
const IDLE: &str = "[[link]]\nname = \"idle\"\na = \"net_null0,no-rx=1\"\nb = \"net_null1,no-rx=1\"\n";

/// `$1` the interface, `$2` its IPv6 address. What is on the way fits every queue, and no timer of TCP expires because
/// this machine was busy elsewhere: neither tail loss probe nor retransmission time-out.
const JUMBO: &str = r#"
    ip link set $1 mtu 65521
    ip address add $2/64 dev $1 nodad
    echo 0 >/proc/sys/net/ipv4/tcp_early_retrans
    echo 4096 262144 524288 >/proc/sys/net/ipv4/tcp_wmem
    for family in -4 -6; do
        ip $family route show dev $1 proto kernel | while read -r route; do
            ip $family route change $route dev $1 proto kernel rto_min 10s
        done
    done
"#;

fn taps(a: &str, b: &str, more: &str) -> String {
    format!("[[link]]\nname = \"e2e\"\na = \"net_tap0,iface={a}\"\nb = \"net_tap1,iface={b}\"\n{more}\n")
}

fn namespaces(a: &str, b: &str, interrupt: &Interrupt) -> (Netns, Netns) {
    let one = Netns::new(a, None, interrupt).unwrap();
    let two = Netns::new(b, None, interrupt).unwrap();
    one.take(a, "192.0.2.1/24").unwrap();
    two.take(b, "192.0.2.2/24").unwrap();
    (one, two)
}

/// Frames of every length from 60 to 1514 bytes, of all sorts, each different.
fn frame(number: u32) -> Vec<u8> {
    let len = 60 + (number as usize * 379) % 1455;
    let mut bytes: Vec<u8> = (0..len).map(|at| (at as u32).wrapping_mul(number + 7) as u8).collect();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    let kind: [u8; 2] =
        [[0x08, 0x00], [0x86, 0xdd], [0x81, 0x00], [0x88, 0x64], [0x88, 0xb5]][number as usize % 5];
    bytes[12..14].copy_from_slice(&kind);
    bytes[16..20].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// A libpcap file, little endian, microseconds, Ethernet.
fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    fs::write(path, bytes).unwrap();
}

fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.get(24..).expect("a pcap header");
    let mut frames = Vec::new();
    while let Some((head, tail)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        frames.push(tail[..len].to_vec());
        rest = &tail[len..];
    }
    frames
}
