//! A kernel interface as a port (driver net_tap), in a network namespace of the test's own thread.
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic, reason = "a test that calls the kernel")]

mod common;

use common::{FullAtEnd, Running, bytes, enter_namespace, ip};
use dpdk::testing::{TestEal, eal};
use dpdk::{Burst, Errno, Mbuf, Mempool, PortError};

#[test]
fn frames_cross_between_kernel_and_port() {
    let eal = eal();
    enter_namespace();
    let pool = FullAtEnd::new(&eal, "tap", 4095);
    let mut running = tap(&eal, "net_tap0,iface=weirtest0", &pool.0);
    ip(&["link", "set", "weirtest0", "up"]);
    let socket = PacketSocket::on("weirtest0");

    let frame = frame(b"from the kernel");
    socket.send(&frame);
    let arrived = poll(&mut running, |mbuf| mbuf.head().starts_with(&frame));
    assert!(arrived, "the frame sent by the kernel did not arrive");

    let mut burst = Burst::new();
    burst.push(Mbuf::from_bytes(&pool.0, &self::frame(b"from the port")).unwrap()).unwrap();
    assert_eq!(running.tx.burst(&mut burst), 1);
    assert!(socket.receives(&self::frame(b"from the port")), "the frame sent by the port did not arrive");
    running.close();
}

#[test]
fn a_tap_link_flaps() {
    let eal = eal();
    enter_namespace();
    let pool = FullAtEnd::new(&eal, "tapflap", 4095);
    let mut running = tap(&eal, "net_tap1,iface=weirtest1", &pool.0);
    for _ in 0..3 {
        running.port.set_link_down().unwrap();
        assert!(!running.port.link().unwrap().up);
        let mut burst = Burst::new();
        burst.push(Mbuf::from_bytes(&pool.0, &frame(b"into a link that is down")).unwrap()).unwrap();
        running.tx.burst(&mut burst);
        // What the kernel said of itself while the link was up may still be there.
        running.rx.burst(&mut Burst::new());
        running.port.set_link_up().unwrap();
        assert!(running.port.link().unwrap().up);
    }
    running.close();
}

#[test]
fn an_interface_pulled_out_is_no_crash() {
    let eal = eal();
    enter_namespace();
    let pool = FullAtEnd::new(&eal, "tapgone", 4095);
    let mut running = tap(&eal, "net_tap2,iface=weirtest2", &pool.0);
    ip(&["link", "del", "weirtest2"]);
    let mut burst = Burst::new();
    for _ in 0..100 {
        burst.clear();
        running.rx.burst(&mut burst);
        assert!(burst.is_empty());
        burst.push(Mbuf::from_bytes(&pool.0, &frame(b"into nothing")).unwrap()).unwrap();
        assert_eq!(running.tx.burst(&mut burst), 0, "nobody can take it, so it stays");
    }
    assert!(running.port.stats().unwrap().oerrors > 0);
    let link = running.port.link();
    assert!(link.as_ref().map_or(true, |link| !link.up), "{link:?}");
    burst.clear();
    running.close();
}

#[test]
fn an_mtu_beyond_the_driver_is_refused() {
    let eal = eal();
    enter_namespace();
    let pool = FullAtEnd::new(&eal, "tapmtu", 4095);
    let Running { mut port, rx, tx, .. } = tap(&eal, "net_tap3,iface=weirtest3", &pool.0);
    drop((rx, tx));
    port.stop().unwrap();
    assert!(matches!(
        port.set_mtu(9000),
        Err(PortError::Refused { errno: Errno::EINVAL, .. } | PortError::OutOfRange { .. })
    ));
    port.set_mtu(1400).unwrap();
    assert_eq!(port.mtu().unwrap(), 1400);
    port.close().unwrap();
    eal.detach(port.name()).unwrap();
}

#[test]
fn workers_are_spared_the_signals_of_the_driver() {
    let eal = eal();
    let thread = |name: &str| {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let status = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap());
        status.into_iter().find(|status| status.contains(name)).unwrap()
    };
    let blocked = |status: String| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap()
    };
    let real_time = (libc::SIGRTMIN()..=libc::SIGRTMAX()).fold(0, |mask, signal| mask | 1 << (signal - 1));
    let launched =
        dpdk::Lcore::workers(&eal)[0].launch(|| std::fs::read_to_string("/proc/thread-self/status"));
    let worker = launched.unwrap().join().unwrap().unwrap();
    assert_eq!(blocked(worker) & real_time, real_time);
    assert_eq!(blocked(thread("dpdk-signals")) & real_time, 0);
}

/// Attaches and starts a tap, or says what keeps it from being made.
fn tap<'a>(eal: &'a TestEal, devargs: &str, pool: &Mempool) -> Running<'a> {
    if !std::path::Path::new("/dev/net/tun").exists() {
        panic!("/dev/net/tun is missing: load the kernel module tun");
    }
    if let Err(error) = std::fs::File::options().read(true).write(true).open("/dev/net/tun") {
        panic!("cannot open /dev/net/tun: {error}; run this test as root");
    }
    Running::attach(eal, devargs, pool)
}

/// A frame of an ethertype that nothing on the machine speaks.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.extend(payload);
    frame.resize(60, 0);
    frame
}

/// Receives until a packet satisfies `wanted`; gives up after a bounded number of polls.
fn poll(running: &mut Running<'_>, wanted: impl Fn(&Mbuf) -> bool) -> bool {
    let mut burst = Burst::new();
    for _ in 0..POLLS {
        running.rx.burst(&mut burst);
        let mut found = false;
        for mbuf in burst.drain() {
            assert_eq!(bytes(&mbuf).len(), mbuf.pkt_len() as usize);
            found |= wanted(&mbuf);
        }
        if found {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// A raw socket on an interface.
struct PacketSocket(i32);

impl PacketSocket {
    fn on(name: &str) -> Self {
        let name = std::ffi::CString::new(name).unwrap();
        // SAFETY: plain system calls with initialised arguments.
        unsafe {
            let all = (libc::ETH_P_ALL as u16).to_be();
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, i32::from(all));
            assert!(fd >= 0);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = all;
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let len = size_of_val(&address) as u32;
            assert_eq!(libc::bind(fd, (&raw const address).cast(), len), 0);
            Self(fd)
        }
    }

    fn send(&self, frame: &[u8]) {
        // SAFETY: the slice outlives the call.
        let sent = unsafe { libc::send(self.0, frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }

    fn receives(&self, frame: &[u8]) -> bool {
        let mut buffer = [0u8; 2048];
        for _ in 0..POLLS {
            // SAFETY: the buffer outlives the call.
            let len = unsafe { libc::recv(self.0, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            if len > 0 && buffer[..len as usize].starts_with(frame) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        // SAFETY: ours, closed once.
        unsafe { libc::close(self.0) };
    }
}

/// Some seconds even on a busy machine.
const POLLS: u32 = 2_000_000;
