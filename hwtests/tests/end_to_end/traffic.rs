//! Packets go through: TCP, frames of every size and sort, over each kind of port.

use std::process::Command;

use crate::bench::*;
use hwtests::clock::Interrupt;
use hwtests::iperf::{Host, Load};
use hwtests::process::{Signal, run};

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
