//! A network port: its control side ([`Port`]), and the queues that a worker takes with it.
//!
//! A port is opened by name, configured, started, stopped, closed. Starting hands out its queues.
//! Each queue counts as a holder of the device, and everything that would pull the device from
//! under a queue (configure, stop, close) asks first whether any queue is left, and refuses. So a
//! burst on a stopped or closed port cannot be written, and the packet path pays nothing for it.
//! A port that is dropped while queues are out is stopped and closed by the last of them.
//!
//! [`Port`] can be moved to another thread but not shared: DPDK's control calls on one port must
//! not run side by side.

use std::cell::Cell;
use std::ffi::CString;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::eal::Eal;
use crate::errno::Errno;
use crate::mempool::{HEADROOM, Mempool};
use crate::offload::{RxOffloads, TxOffloads};
use crate::rxq::RxQueue;
use crate::txq::TxQueue;

mod config;
mod device;
mod error;
mod info;
mod link;
pub(crate) mod registry;

pub use config::{Configured, PortConfig};
pub(crate) use device::{Device, has_port};
use error::remedy;
pub use error::{PortError, PortWarning};
pub use info::{Mac, PortInfo, RingLimits, Switch};
pub use link::{Link, PortStats};

/// An open port.
#[derive(Debug)]
pub struct Port {
    device: Option<Arc<Device>>,
    name: String,
    phase: Phase,
    configured: Option<Configured>,
    /// One thread at a time.
    not_sync: PhantomData<Cell<()>>,
}

/// What a port is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Open, without queues.
    Open,
    /// Set up, not moving packets.
    Stopped,
    /// Moving packets.
    Started,
    /// Given back.
    Closed,
}

/// What starting a port yields.
#[derive(Debug)]
pub struct Started {
    /// The receive queues in order.
    pub rx: Vec<RxQueue>,
    /// The transmit queues in order.
    pub tx: Vec<TxQueue>,
    /// What the port does without.
    pub warnings: Vec<PortWarning>,
}

impl Port {
    /// Opens a port by name: a PCI address or a vdev name.
    ///
    /// # Errors
    /// [`PortError::NotFound`], [`PortError::InUse`].
    pub fn open(eal: &Eal, name: &str) -> Result<Self, PortError> {
        let mut control = registry::control();
        let mut id = u16::MAX;
        let c_name = CString::new(name).unwrap_or_default();
        // SAFETY: a C string and a local that outlive the call.
        let ret = unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &mut id) };
        if ret != 0 {
            let present = device::names();
            let present = if present.is_empty() { "none".to_owned() } else { present.join(", ") };
            return Err(PortError::NotFound { name: name.to_owned(), present });
        }
        Device::claim(eal, id, name, &mut control).map(Self::new)
    }

    /// The names of all ports that are attached, open or not.
    pub fn names(_eal: &Eal) -> Vec<String> {
        let _control = registry::control();
        device::names()
    }

    /// Identity, limits and capabilities.
    ///
    /// # Errors
    /// [`PortError::Closed`] or [`PortError::Refused`].
    pub fn info(&self) -> Result<PortInfo, PortError> {
        self.device()?.info()
    }

    /// The port's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the port is doing.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How it was set up; `None` before that.
    pub fn configured(&self) -> Option<&Configured> {
        self.configured.as_ref()
    }

    /// Sets up rings and offloads; every receive queue takes its buffers from `pool`. A port can
    /// be set up again while it is stopped.
    ///
    /// # Errors
    /// [`PortError`]; the port is not configured then, and can be with other values.
    pub fn configure(&mut self, config: &PortConfig, pool: &Mempool) -> Result<&Configured, PortError> {
        self.expect(&[Phase::Open, Phase::Stopped], "configure", "stop it first")?;
        // Half a set-up must not be started.
        self.phase = Phase::Open;
        self.configured = None;
        let configured = self.exclusive()?.configure(config, pool)?;
        self.phase = Phase::Stopped;
        Ok(self.configured.insert(configured))
    }

    /// Starts the port with promiscuous and allmulticast on, and hands out its queues.
    ///
    /// # Errors
    /// [`PortError::Phase`] unless it is configured and stopped; [`PortError::Refused`].
    pub fn start(&mut self) -> Result<Started, PortError> {
        self.expect(&[Phase::Stopped], "start", "configure it once, and start it once")?;
        let (rx_queues, tx_queues) = self.exclusive()?.start()?;
        self.phase = Phase::Started;
        let device = self.device()?;
        let warnings = device.see_everything();
        Ok(Started {
            rx: (0..rx_queues).map(|queue| RxQueue::new(device.clone(), queue)).collect(),
            tx: (0..tx_queues).map(|queue| TxQueue::new(device.clone(), queue, device.nudge())).collect(),
            warnings,
        })
    }

    /// Stops the port; [`Port::start`] starts it again.
    ///
    /// # Errors
    /// [`PortError::QueuesInUse`] until all queues are dropped; [`PortError::Phase`] unless started.
    pub fn stop(&mut self) -> Result<(), PortError> {
        self.expect(&[Phase::Started], "stop", "it moves no packets")?;
        self.exclusive()?.stop()?;
        self.phase = Phase::Stopped;
        Ok(())
    }

    /// Stops the port if need be and gives the device back. Opening it again needs a detach and
    /// an attach, as DPDK has it.
    ///
    /// # Errors
    /// [`PortError::QueuesInUse`], after which the port is as before; [`PortError::Closed`];
    /// [`PortError::Refused`] if the driver complains, but the port is closed all the same.
    pub fn close(&mut self) -> Result<(), PortError> {
        let result = self.exclusive()?.close();
        self.device = None;
        self.phase = Phase::Closed;
        result
    }

    /// MTU in bytes.
    ///
    /// # Errors
    /// [`PortError::Closed`] or [`PortError::Refused`].
    pub fn mtu(&self) -> Result<u16, PortError> {
        self.device()?.mtu()
    }

    /// Changes the MTU; the port must be configured and stopped.
    ///
    /// # Errors
    /// [`PortError::OutOfRange`], [`PortError::DataRoom`], [`PortError::Refused`], [`PortError::Phase`].
    pub fn set_mtu(&mut self, mtu: u16) -> Result<(), PortError> {
        self.expect(&[Phase::Stopped], "change the MTU of", "stop it first")?;
        self.exclusive()?.set_mtu(mtu)?;
        if let Some(configured) = &mut self.configured {
            configured.mtu = mtu;
        }
        Ok(())
    }

    /// MAC address.
    ///
    /// # Errors
    /// [`PortError::Closed`] or [`PortError::Refused`].
    pub fn mac(&self) -> Result<Mac, PortError> {
        self.device()?.mac()
    }

    /// State of the link, without waiting for negotiation.
    ///
    /// # Errors
    /// [`PortError::Closed`] or [`PortError::Refused`].
    pub fn link(&self) -> Result<Link, PortError> {
        self.device()?.link()
    }

    /// Takes the link up.
    ///
    /// # Errors
    /// [`PortError::Refused`], with ENOTSUP where the driver cannot.
    pub fn set_link_up(&self) -> Result<(), PortError> {
        self.device()?.set_link(true)
    }

    /// Takes the link down.
    ///
    /// # Errors
    /// [`PortError::Refused`], with ENOTSUP where the driver cannot.
    pub fn set_link_down(&self) -> Result<(), PortError> {
        self.device()?.set_link(false)
    }

    /// Counters of the driver, which start at 0 when the device is attached.
    ///
    /// # Errors
    /// [`PortError::Closed`] or [`PortError::Refused`].
    pub fn stats(&self) -> Result<PortStats, PortError> {
        self.device()?.stats()
    }

    /// Whether the device was pulled out, by event or by what the driver finds when it looks.
    /// Close the port then; its queues may be used until they are dropped, and move nothing.
    pub fn vanished(&self) -> bool {
        self.device().is_ok_and(|device| device.vanished())
    }

    /// What could not be had when the port was opened.
    pub fn warnings(&self) -> Vec<PortWarning> {
        self.device().map(|device| device.warnings.clone()).unwrap_or_default()
    }

    /// Keeps `rings` alive as long as the device.
    pub(crate) fn adopt(eal: &Eal, id: u16, rings: Vec<crate::ring::Ring>) -> Result<Self, PortError> {
        let mut control = registry::control();
        let name = device::name(id).unwrap_or_default();
        let mut device = Device::claim(eal, id, &name, &mut control)?;
        device.rings = rings;
        Ok(Self::new(device))
    }

    fn new(device: Device) -> Self {
        Self {
            name: device.name.clone(),
            device: Some(Arc::new(device)),
            phase: Phase::Open,
            configured: None,
            not_sync: PhantomData,
        }
    }

    fn device(&self) -> Result<&Arc<Device>, PortError> {
        self.device.as_ref().ok_or_else(|| PortError::Closed { name: self.name.clone() })
    }

    /// The device, if no queue holds it.
    fn exclusive(&mut self) -> Result<&mut Device, PortError> {
        let name = &self.name;
        let device = self.device.as_mut().ok_or_else(|| PortError::Closed { name: name.clone() })?;
        let count = Arc::strong_count(device) - 1;
        Arc::get_mut(device).ok_or_else(|| PortError::QueuesInUse { name: name.clone(), count })
    }

    fn expect(
        &self,
        phases: &[Phase],
        operation: &'static str,
        remedy: &'static str,
    ) -> Result<(), PortError> {
        if self.phase == Phase::Closed {
            return Err(PortError::Closed { name: self.name.clone() });
        }
        if phases.contains(&self.phase) {
            return Ok(());
        }
        Err(PortError::Phase { name: self.name.clone(), operation, phase: self.phase, remedy })
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Open => "not configured",
            Self::Stopped => "stopped",
            Self::Started => "started",
            Self::Closed => "closed",
        })
    }
}
