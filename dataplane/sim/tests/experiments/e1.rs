use super::*;

fn run(name: &str, n: usize, setup: Setup, sock: impl Fn(usize) -> Socket, rtt_us: u64) {
    let path = Path { one_way: us(rtt_us / 2), rx_usecs: us(50) };
    let mut rig = Rig::new(setup, path).unwrap();
    for i in 0..n {
        rig.add_stream(Instant::ZERO + ms(7 * i as u64), sock(i), DsField::ip(0));
    }
    let probe = rig.add_probe(Source::every(98, ms(1)).jittered(3), DsField::ip(0));
    let mut seconds = Vec::new();
    let t = std::time::UNIX_EPOCH;
    for s in 0..20 {
        rig.measure();
        rig.run(ms(1000));
        let left = rig.left();
        if s < 10 || s==19 { seconds.push(left.iter().map(|b| format!("{:.1}", b * 8e-6)).collect::<Vec<_>>().join("/") + &format!(" j{:.4}", sim::net::rig::jain(&left))); }
    }
    let arrived = rig.arrived();
    let added = rig.added(probe).span(0.99);
    let now = rig.now();
    let seen = rig.seen();
    println!("{name}: limit {} in_flight p99 {} res p99 {} ping {} good {:.2} wire {:.2} cpu {:?}", seen.limit.most(), seen.in_flight.quantile(now, 0.99), seen.residence.span(0.99).as_micros(), added.as_micros(), arrived as f64*8e-6, seen.wire_bytes as f64*8e-6, t);
    println!("   {}", seconds.join("  "));
}

#[test]
fn explore() {
    let setup = |limit, split, qdisc| Setup { card: card(100, 512), qdisc, split, limit, release: Release::Completion };
    let auto = |_| Socket::new(cubic(), Tso::Autosized);
    let autot = |_| Socket::new(cubic(), Tso::Autosized).with_small_queue();
    let whole = |_| Socket::new(cubic(), Tso::Whole).with_small_queue();
    let capped = |i: usize| Socket::new(cubic().capped([128, 64][i % 2]), Tso::Autosized);
    for (name, n, rtt) in [("two", 2, 200), ("eight", 8, 200), ("two 2ms", 2, 2_000)] {
        println!("=== {name}");
        run("no weir, free", n, setup(Limit::Ring, Split::Never, no_qdisc()), auto, rtt);
        run("no weir, tsq", n, setup(Limit::Ring, Split::Never, no_qdisc()), autot, rtt);
        run("ring fq_codel free", n, setup(Limit::Ring, Split::Never, fq_codel()), auto, rtt);
        run("ring fq_codel tsq", n, setup(Limit::Ring, Split::Never, fq_codel()), autot, rtt);
        run("ring fq_codel capped", n, setup(Limit::Ring, Split::Never, fq_codel()), capped, rtt);
        run("stock fq_codel tsq", n, setup(Limit::Stock(0), Split::Never, fq_codel()), autot, rtt);
        run("stock 89908 fq_codel tsq", n, setup(Limit::Stock(89908), Split::Never, fq_codel()), autot, rtt);
        run("stock 89908 fq_codel capped", n, setup(Limit::Stock(89908), Split::Never, fq_codel()), capped, rtt);
        run("stock fq_codel whole tsq", n, setup(Limit::Stock(0), Split::Never, fq_codel()), whole, rtt);
        run("governed tsq", n, setup(Limit::Governed, Split::AUTO, fq_codel()), autot, rtt);
        run("governed free", n, setup(Limit::Governed, Split::AUTO, fq_codel()), auto, rtt);
        run("governed capped", n, setup(Limit::Governed, Split::AUTO, fq_codel()), capped, rtt);
        run("governed free cake", n, setup(Limit::Governed, Split::AUTO, cake()), auto, rtt);
    }
}
