//! Clients that are slow, silent, too many, or send what nobody asked for: the owner is answered all the same,
//! and what they cost is bounded.

use crate::bench::{PATIENCE, Weir, ask, read};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

#[test]
fn what_is_too_long_is_refused() {
    let weir = Weir::start("long", "listen = \"127.0.0.1:0\"");
    let long = format!("X-Long: {}", "x".repeat(64 << 10));
    assert_eq!(weir.ask("GET", "/v1/stats", &[&long], "").status, 431);
    let many: Vec<_> = (0..100).map(|index| format!("X-{index}: x")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(weir.ask("GET", "/v1/stats", &many, "").status, 431);
    let far = format!("/{}", "x".repeat(64 << 10));
    assert!([414, 431].contains(&weir.ask("GET", &far, &[], "").status));
    let json = "Content-Type: application/json";
    let announced = "Content-Length: 99999999999";
    assert_eq!(weir.ask("PATCH", "/v1/config", &[json, announced], "").status, 413);
    let mut endless = weir.unix();
    let head =
        "PATCH /v1/config HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n";
    endless.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    // Until it hangs up: it must not take as much as comes.
    let sent = (0..10_000).take_while(|_| endless.write_all(chunk.as_bytes()).is_ok()).count();
    assert!(sent < 100, "{sent} chunks of 64 KiB were taken");
    // On TCP without the right to change, the body is not even read.
    assert_eq!(ask(weir.tcp(), "PATCH", "/v1/config", &[json], &"x".repeat(60_000)).status, 403);
}

#[test]
fn what_is_no_http_is_hung_up_on() {
    let weir = Weir::start("noise", "listen = \"127.0.0.1:0\"");
    let mut number = 1_u64;
    for _ in 0..200 {
        let noise: Vec<u8> = (0..200)
            .map(|_| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (number >> 56) as u8
            })
            .collect();
        let mut stream = weir.tcp();
        let _ = stream.write_all(&noise);
        let _ = stream.write_all(b"\r\n\r\n");
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&said));
    }
    for method in ["GET", "get", "G\u{e9}T"] {
        let answer = weir.ask(method, "/%00%ff", &["X: \u{e9}"], "");
        assert!([400, 404].contains(&answer.status), "{answer:?}");
    }
    assert_eq!(weir.get("/v1/stats")["name"], weir.name.as_str());
}

#[test]
fn several_requests_at_once_are_answered_in_their_order() {
    let weir = Weir::start("pipeline", "listen = \"127.0.0.1:0\"");
    let mut stream = weir.tcp();
    let mut sent = String::new();
    for index in 0..50 {
        let close = if index == 49 { "Connection: close\r\n" } else { "" };
        sent += &format!("GET /v1/{index} HTTP/1.1\r\nHost: localhost\r\n{close}\r\n");
    }
    stream.write_all(sent.as_bytes()).unwrap();
    // Half closed: all was said, and the answers are waited for.
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let places: Vec<_> = (0..50).map(|index| said.find(&format!("there is no /v1/{index};"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{said}");
}

/// Silent, one byte at a time, a body that never comes, an answer that is never read: hundreds of each, and then
/// the owner and one more on TCP.
#[test]
fn nobody_is_kept_out_and_memory_does_not_grow() {
    let weir = Weir::start("crowd", "listen = \"127.0.0.1:0\"");
    let before = memory(weir.pid());
    let greet = |stream: &mut TcpStream, part: &[u8]| drop(stream.write_all(part));
    let mut crowd = Vec::new();
    for index in 0..400 {
        let mut stream = weir.tcp();
        match index % 4 {
            0 => {}
            1 => greet(&mut stream, b"GET /v1/st"),
            2 => greet(
                &mut stream,
                b"PATCH /v1/config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
            ),
            _ => greet(&mut stream, &b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(50)),
        }
        crowd.push(stream);
    }
    let owners: Vec<_> = (0..200).map(|_| weir.unix()).collect();
    for _ in 0..10 {
        assert_eq!(weir.get("/v1/stats")["name"], weir.name.as_str());
        assert_eq!(ask(weir.tcp(), "GET", "/healthz", &[], "").status, 200);
    }
    assert!(weir.tell(&["show"]).status.success());
    let open = std::fs::read_dir(format!("/proc/{}/fd", weir.pid())).unwrap().count();
    // A place is two files: its connection is asked whether the client is gone.
    assert!(open < 2 * 64 + 2 * 64 + 64, "{open} files are open");
    for stream in crowd.iter_mut() {
        greet(stream, b"x");
    }
    // Those that connect and are gone at once.
    for _ in 0..3_000 {
        drop(TcpStream::connect(weir.address.unwrap()).unwrap());
    }
    assert_eq!(weir.get("/v1/stats")["name"], weir.name.as_str());
    let after = memory(weir.pid());
    println!("beside packet memory: {} KiB before, {} KiB after", before.beside, after.beside);
    assert!(after.beside <= 64 << 10, "{} KiB beside packet memory", after.beside);
    assert!(after.beside < before.beside + (16 << 10), "{before:?} {after:?}");
    drop((crowd, owners));
}

/// Byte by byte, faster than any timeout between two bytes: given up all the same.
#[test]
fn a_head_that_never_ends_is_given_up() {
    let weir = Weir::start("loris", "listen = \"127.0.0.1:0\"");
    let started = Instant::now();
    let mut loris = weir.tcp();
    loris.write_all(b"GET /v1/stats HTTP/1.1\r\n").unwrap();
    let mut silent = weir.tcp();
    let mut idle = weir.tcp();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    while loris.write_all(b"x").is_ok() {
        assert!(started.elapsed() < PATIENCE, "still listened to");
        assert_eq!(weir.ask("GET", "/healthz", &[], "").status, 200, "others are answered meanwhile");
    }
    let mut said = Vec::new();
    let _ = silent.read_to_end(&mut said);
    assert!(!String::from_utf8_lossy(&said).contains("200"), "{said:?}");
    // Answered, and given up once it was idle for long.
    assert_eq!(read(idle).status, 200);
}

/// Resident memory in KiB.
#[derive(Debug)]
struct Memory {
    /// All but that of DPDK's memory, which is the largest mapping.
    beside: u64,
}

fn memory(pid: u32) -> Memory {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let of = |name: &str| -> Vec<u64> {
        let lines = maps.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap()).collect()
    };
    let (sizes, resident) = (of("Size:"), of("Rss:"));
    assert_eq!(sizes.len(), resident.len());
    let (largest, _) = sizes.iter().zip(&resident).max_by_key(|(_, resident)| **resident).unwrap();
    assert!(*largest > 16 << 10, "packet memory is not found: {largest} KiB");
    let most = resident.iter().max().unwrap();
    Memory { beside: resident.iter().sum::<u64>() - most }
}
