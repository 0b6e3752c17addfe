//! A port to send by and one to see by.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use dpdk::{
    Burst, Eal, Mbuf, Mempool, MempoolConfig, Port, PortConfig, PortInfo, RxOffloads, RxQueue, TxOffloads,
    TxQueue,
};

use crate::clock::{nap, now};
use crate::record::PortRecord;

/// Where frames go in and where they come out: two ports of one wire.
#[derive(Debug)]
pub struct Way {
    /// The queue under test.
    pub tx: TxQueue,
    /// The port it belongs to.
    pub info: PortInfo,
    /// Its descriptors.
    pub ring: u16,
    /// Its transmit offloads in force.
    pub offloads: TxOffloads,
    /// Frames to send lie here and nowhere else, so that [`Mempool::in_use`] counts those that the driver holds. No
    /// cache: it counts to the last one.
    pub pool: Mempool,
    rx: RxQueue,
    // After their queues.
    ports: [Port; 2],
}

impl Way {
    /// Opens and starts two ports by name, all offloads on, and waits for their links.
    pub fn open(eal: &Eal, from: &str, to: &str) -> Result<Self> {
        let pool = |name: String| {
            let config = MempoolConfig { cache: 0, ..MempoolConfig::new(name, BUFFERS) };
            Mempool::create(eal, &config).context("no buffers")
        };
        let (out, seen) = (pool(format!("out-{from}"))?, pool(format!("seen-{to}"))?);
        let (mut tx_port, mut rx_port) = (Port::open(eal, from)?, Port::open(eal, to)?);
        // Checked on receipt by nobody but us.
        let config =
            PortConfig { rx_offloads: RxOffloads::SCATTER, tx_offloads: OFFLOADS, ..PortConfig::default() };
        let configured = tx_port.configure(&config, &seen)?.clone();
        rx_port.configure(&PortConfig::default(), &seen)?;
        let info = tx_port.info()?;
        let tx = tx_port.start()?.tx.pop().context("a started port has a queue")?;
        let rx = rx_port.start()?.rx.pop().context("a started port has a queue")?;
        await_links(&[&tx_port, &rx_port])?;
        Ok(Self {
            tx,
            info,
            ring: configured.tx_desc,
            offloads: configured.tx_offloads,
            pool: out,
            rx,
            ports: [tx_port, rx_port],
        })
    }

    /// The port that sends, and its link.
    pub fn port(&self) -> Result<PortRecord> {
        let link = self.ports[0].link()?;
        Ok(PortRecord {
            device: self.info.name.clone(),
            driver: self.info.driver.clone(),
            firmware: self.info.firmware.clone(),
            link_up: link.up,
            speed_mbps: link.speed_mbps,
            full_duplex: Some(link.full_duplex),
            autoneg: Some(link.autoneg),
        })
    }

    /// Sends a packet after the driver had a look at it (`rte_eth_tx_prepare`).
    pub fn send(&mut self, packet: Mbuf) -> Result<()> {
        let mut burst = Burst::new();
        let Ok(()) = burst.push(packet) else { bail!("an empty burst has room") };
        let prepared = self.tx.prepare(burst.as_mut_slice());
        if let Some(errno) = prepared.refused {
            bail!("tx_prepare refuses it: {errno}");
        }
        let end = now() + PATIENCE;
        while self.tx.burst(&mut burst) == 0 {
            ensure!(now() < end, "tx_burst takes nothing for {PATIENCE:?}");
        }
        Ok(())
    }

    /// The frames that came out and have `source` as their address, up to `expected` and any beyond that are there.
    pub fn seen(&mut self, source: [u8; 6], expected: usize) -> Vec<Vec<u8>> {
        let end = now() + PATIENCE;
        let mut frames = Vec::new();
        let mut silent = 0;
        while silent < SILENCE && (frames.len() >= expected || now() < end) {
            let mut burst = Burst::new();
            if self.rx.burst(&mut burst) == 0 && frames.len() >= expected {
                silent += 1;
            }
            frames.extend(burst.drain().map(|frame| frame.segments().flatten().copied().collect::<Vec<_>>()));
            // What the kernel says by itself on an interface that is up.
            frames.retain(|frame| frame.get(6..12) == Some(&source));
        }
        frames
    }
}

fn await_links(ports: &[&Port]) -> Result<()> {
    let end = now() + LINK_PATIENCE;
    for port in ports {
        while !port.link()?.up {
            ensure!(now() < end, "the link of {} does not come up: is it cabled?", port.name());
            nap(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// A full ring of frames and as many in the witness's.
const BUFFERS: u32 = 4095;
/// All that a packet here may want.
const OFFLOADS: TxOffloads = TxOffloads::from_bits(
    TxOffloads::MULTI_SEGS.bits()
        | TxOffloads::IPV4_CKSUM.bits()
        | TxOffloads::TCP_CKSUM.bits()
        | TxOffloads::UDP_CKSUM.bits()
        | TxOffloads::TCP_TSO.bits(),
);
/// Two seconds are a million times what a frame needs.
const PATIENCE: Duration = Duration::from_secs(2);
/// Autonegotiation of copper takes up to 4 s.
const LINK_PATIENCE: Duration = Duration::from_secs(10);
/// Empty polls after the last expected frame that show that no more will come.
const SILENCE: u32 = 16;
