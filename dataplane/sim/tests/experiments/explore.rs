use super::*;
fn show(name: &str, o: Outcome) {
    println!(
        "{name:<40} share {:.4} good {:.2} limit {} in_fl99 {} most {} res99 {:.1} ping mean {:.1} p99 {:.1} pieces {} each {:.2} lost {}",
        o.share,
        o.goodput / 1e6,
        o.limit as i32,
        o.in_flight,
        o.most,
        o.residence as f64 / 1e3,
        o.mean as f64 / 1e3,
        o.ping as f64 / 1e3,
        o.pieces,
        o.each,
        o.lost
    );
}
#[test]
fn e2() {
    for mbit in [1_000, 10_000] {
        for (l, limit) in [("stock", Limit::Stock(0)), ("governed", Limit::Governed)] {
            for (n, split) in [("never", Split::Never), ("always", Split::Always), ("auto", Split::AUTO)] {
                for (q, qdisc) in [("cake", cake()), ("fq_codel", fq_codel())] {
                    let setup =
                        Setup { card: card(mbit, 4096), qdisc, split, limit, release: Release::Completion };
                    let c = Case { setup, streams: 4, socket: |_| Socket::new(cubic(), Tso::Whole), ping: 0 };
                    show(&format!("{mbit} {l} {n} {q}"), c.run(ms(1200), ms(500)));
                }
            }
        }
    }
}
#[test]
fn e3() {
    for mbit in [100, 650, 1_000] {
        for (d, u, f) in [(0, 0, 1), (50, 0, 1), (1500, 0, 1), (10000, 0, 1), (0, 1024, 64)] {
            let card = nic::Config { delay: us(d), tx_usecs: us(u), tx_frames: f, ..card(mbit, 4096) };
            let run = |name: &str, limit, release, socket: fn(usize) -> Socket, n| {
                let setup = Setup { card, qdisc: cake(), split: Split::AUTO, limit, release };
                show(
                    &format!("{mbit} {d} {u}/{f} {name}"),
                    Case { setup, streams: n, socket, ping: 184 }.run(ms(2000), ms(1000)),
                );
            };
            let free: fn(usize) -> Socket = |_| Socket::new(cubic(), Tso::Autosized);
            let tsq: fn(usize) -> Socket = |_| Socket::new(cubic(), Tso::Autosized).with_small_queue();
            run("stock", Limit::Stock(0), Release::Completion, free, 5);
            run("fixed 1ms", Limit::Fixed(mbit as u32 * 125), Release::Completion, free, 5);
            run("ring tsq 1", Limit::Ring, Release::Completion, tsq, 1);
            run("ring tsq 5", Limit::Ring, Release::Completion, tsq, 5);
            run("ring tsq submit 5", Limit::Ring, Release::Submit, tsq, 5);
            run("governed", Limit::Governed, Release::Completion, free, 5);
            run("governed tsq 5", Limit::Governed, Release::Completion, tsq, 5);
            run("governed tsq submit", Limit::Governed, Release::Submit, tsq, 5);
        }
    }
}
