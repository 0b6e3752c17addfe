//! The device behind a port: the DPDK calls, and the owner of everything it uses.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use super::registry::{self, Control};
use super::*;
use crate::log;
use crate::nudge::Nudge;
use crate::ring::Ring;

/// Held by the [`Port`] and by each of its queues.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) id: u16,
    pub(super) name: String,
    pub(super) warnings: Vec<PortWarning>,
    /// Number of receive and transmit queues.
    queues: (u16, u16),
    scatter: bool,
    pub(crate) multi_segs: bool,
    /// Descriptors of a transmit ring.
    pub(crate) tx_desc: u16,
    started: bool,
    closed: bool,
    // Dropped after the device is closed, in this order.
    pools: Vec<Mempool>,
    pub(super) rings: Vec<Ring>,
    _eal: Eal,
}

impl Device {
    pub(super) fn claim(eal: &Eal, id: u16, name: &str, control: &mut Control) -> Result<Self, PortError> {
        let owner = device_name(id).unwrap_or_else(|| name.to_owned());
        if !control.claim(id, &owner) {
            return Err(PortError::InUse { name: name.to_owned() });
        }
        let mut device = Self {
            id,
            name: name.to_owned(),
            warnings: Vec::new(),
            queues: (0, 0),
            scatter: false,
            multi_segs: false,
            tx_desc: 0,
            started: false,
            closed: false,
            pools: Vec::new(),
            rings: Vec::new(),
            _eal: eal.clone(),
        };
        // SAFETY: a static function that uses no argument; unregistered before the port is closed.
        let ret = unsafe {
            dpdk_sys::rte_eth_dev_callback_register(id, REMOVAL, Some(registry::on_removal), null_mut())
        };
        device.warnings.extend(Errno::check(ret).err().map(PortWarning::RemovalEvents));
        Ok(device)
    }

    pub(super) fn info(&self) -> Result<PortInfo, PortError> {
        let raw = self.raw_info()?;
        // SAFETY: the port is valid as long as `self` has not closed it.
        let node = unsafe { dpdk_sys::rte_eth_dev_socket_id(self.id) };
        Ok(PortInfo { firmware: self.firmware(), ..PortInfo::new(&self.name, node, self.mac()?, &raw) })
    }

    /// What the driver says of the card's firmware, if anything.
    fn firmware(&self) -> Option<String> {
        let mut text = [0_u8; FIRMWARE_MAX];
        // SAFETY: a valid port, and a buffer of the length that is given.
        let ret =
            unsafe { dpdk_sys::rte_eth_dev_fw_version_get(self.id, text.as_mut_ptr().cast(), text.len()) };
        // What is longer than the buffer is not written, and its length returned.
        let text = if ret == 0 { CStr::from_bytes_until_nul(&text).ok()? } else { return None };
        let text = text.to_string_lossy().trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn configure(&mut self, config: &PortConfig, pool: &Mempool) -> Result<Configured, PortError> {
        let raw = self.raw_info()?;
        let info = self.info()?;
        self.check(config, &info, pool)?;
        let rx_offloads = config.rx_wanted(info.rx_offloads);
        let tx_offloads = config.tx_wanted(info.tx_offloads);

        let mut conf = dpdk_sys::rte_eth_conf::default();
        conf.rxmode.mtu = config.mtu.map_or(0, u32::from);
        conf.rxmode.offloads = rx_offloads.bits();
        conf.txmode.offloads = tx_offloads.bits();
        conf.intr_conf.set_rmv(u32::from(has_removal_interrupt(&raw)));
        // SAFETY: a valid port that is not started; `conf` outlives the call.
        let result = log::catch(|| unsafe {
            dpdk_sys::rte_eth_dev_configure(self.id, config.rx_queues, config.tx_queues, &conf)
        });
        self.check_said(result, || {
            format!("rte_eth_dev_configure with {} rx and {} tx queues, rx offloads {rx_offloads}, tx offloads {tx_offloads}", config.rx_queues, config.tx_queues)
        })?;
        let (rx_desc, tx_desc) = self.adjust(config)?;
        self.set_up_queues(config, &raw, (rx_desc, tx_desc), (rx_offloads, tx_offloads), pool)?;

        self.queues = (config.rx_queues, config.tx_queues);
        self.tx_desc = tx_desc;
        self.scatter = rx_offloads.contains(RxOffloads::SCATTER);
        self.multi_segs = tx_offloads.contains(TxOffloads::MULTI_SEGS);
        let mut warnings = Vec::new();
        for (direction, asked, got) in [("rx", config.rx_desc, rx_desc), ("tx", config.tx_desc, tx_desc)] {
            if asked != got {
                warnings.push(PortWarning::RingSize { direction, asked, got });
            }
        }
        if !self.multi_segs {
            warnings.push(PortWarning::NoMultiSegs);
        }
        Ok(Configured { rx_desc, tx_desc, mtu: self.mtu()?, rx_offloads, tx_offloads, warnings })
    }

    /// Starts the device; returns the numbers of queues.
    pub(super) fn start(&mut self) -> Result<(u16, u16), PortError> {
        // SAFETY: a valid port, configured, with all queues set up.
        let result = log::catch(|| unsafe { dpdk_sys::rte_eth_dev_start(self.id) });
        self.check_said(result, || "rte_eth_dev_start".into())?;
        self.started = true;
        Ok(self.queues)
    }

    pub(super) fn stop(&mut self) -> Result<(), PortError> {
        // SAFETY: a valid port, and no queue of it exists: `self` is borrowed exclusively.
        let ret = unsafe { dpdk_sys::rte_eth_dev_stop(self.id) };
        self.check_ret(ret, || "rte_eth_dev_stop".into())?;
        self.started = false;
        Ok(())
    }

    /// Stops and closes. A device that was pulled out may refuse to stop, and is closed all the same.
    pub(super) fn close(&mut self) -> Result<(), PortError> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let mut control = registry::control();
        // SAFETY: a valid port, closed once, and no queue of it exists: `self` is borrowed exclusively.
        let ret = unsafe {
            dpdk_sys::rte_eth_dev_callback_unregister(
                self.id,
                REMOVAL,
                Some(registry::on_removal),
                null_mut(),
            );
            // An interface of the kernel would stay promiscuous after us.
            dpdk_sys::rte_eth_promiscuous_disable(self.id);
            if self.started {
                dpdk_sys::rte_eth_dev_stop(self.id);
            }
            dpdk_sys::rte_eth_dev_close(self.id)
        };
        self.started = false;
        control.release(self.id);
        self.check_ret(ret, || "rte_eth_dev_close".into())
    }

    /// Promiscuous and allmulticast: a shaper in the wire passes every frame.
    pub(super) fn see_everything(&self) -> Vec<PortWarning> {
        // SAFETY: a valid port.
        let (promiscuous, allmulticast) = unsafe {
            (dpdk_sys::rte_eth_promiscuous_enable(self.id), dpdk_sys::rte_eth_allmulticast_enable(self.id))
        };
        let promiscuous = Errno::check(promiscuous).err().map(PortWarning::Promiscuous);
        let allmulticast = Errno::check(allmulticast).err().map(PortWarning::Allmulticast);
        promiscuous.into_iter().chain(allmulticast).collect()
    }

    /// What the driver refuses but reclaims for, if it is one that needs it.
    pub(super) fn nudge(&self) -> Option<Nudge> {
        let raw = self.raw_info().ok()?;
        let pool = self.pools.first()?;
        Nudge::works_on(&info::text(raw.driver_name)).then(|| Nudge::new(pool)).flatten()
    }

    pub(super) fn mtu(&self) -> Result<u16, PortError> {
        let mut mtu = 0;
        // SAFETY: a valid port and a local that outlives the call.
        let ret = unsafe { dpdk_sys::rte_eth_dev_get_mtu(self.id, &mut mtu) };
        self.check_ret(ret, || "rte_eth_dev_get_mtu".into()).map(|()| mtu)
    }

    pub(super) fn set_mtu(&mut self, mtu: u16) -> Result<(), PortError> {
        let info = self.info()?;
        self.in_range("mtu", mtu.into(), &info, info.min_mtu.into(), info.max_mtu.into())?;
        for pool in &self.pools {
            self.fits(mtu, &info, pool, self.scatter)?;
        }
        // SAFETY: a valid port that is configured and stopped.
        let result = log::catch(|| unsafe { dpdk_sys::rte_eth_dev_set_mtu(self.id, mtu) });
        self.check_said(result, || format!("rte_eth_dev_set_mtu({mtu})"))
    }

    pub(super) fn mac(&self) -> Result<Mac, PortError> {
        let mut mac = dpdk_sys::rte_ether_addr::default();
        // SAFETY: a valid port and a local that outlives the call.
        let ret = unsafe { dpdk_sys::rte_eth_macaddr_get(self.id, &mut mac) };
        self.check_ret(ret, || "rte_eth_macaddr_get".into()).map(|()| Mac(mac.addr_bytes))
    }

    pub(crate) fn vanished(&self) -> bool {
        // SAFETY: a valid port; drivers without the call answer 0.
        registry::vanished(self.id) || unsafe { dpdk_sys::rte_eth_dev_is_removed(self.id) } == 1
    }

    pub(super) fn check_ret(&self, ret: i32, operation: impl FnOnce() -> String) -> Result<(), PortError> {
        self.check_said((ret, String::new()), operation)
    }

    /// As [`Device::check_ret`], with what was logged meanwhile (see [`log::catch`]).
    fn check_said(
        &self,
        (ret, said): (i32, String),
        operation: impl FnOnce() -> String,
    ) -> Result<(), PortError> {
        Errno::check(ret).map(|_| ()).map_err(|errno| PortError::Refused {
            name: self.name.clone(),
            operation: operation(),
            errno,
            said: log::below(&said),
            remedy: remedy(errno),
        })
    }

    fn raw_info(&self) -> Result<dpdk_sys::rte_eth_dev_info, PortError> {
        let mut raw = dpdk_sys::rte_eth_dev_info::default();
        // SAFETY: a valid port and a local that outlives the call.
        let ret = unsafe { dpdk_sys::rte_eth_dev_info_get(self.id, &mut raw) };
        self.check_ret(ret, || "rte_eth_dev_info_get".into()).map(|()| raw)
    }

    fn check(&self, config: &PortConfig, info: &PortInfo, pool: &Mempool) -> Result<(), PortError> {
        self.in_range("rx_queues", config.rx_queues.into(), info, 1, info.max_rx_queues.into())?;
        self.in_range("tx_queues", config.tx_queues.into(), info, 1, info.max_tx_queues.into())?;
        if let Some(mtu) = config.mtu {
            self.in_range("mtu", mtu.into(), info, info.min_mtu.into(), info.max_mtu.into())?;
        }
        let mtu = config.mtu.unwrap_or(DEFAULT_MTU.min(info.max_mtu));
        let scatter = config.rx_wanted(info.rx_offloads).contains(RxOffloads::SCATTER);
        self.fits(mtu, info, pool, scatter)
    }

    /// Whether a frame fits into a buffer, or may be spread over several.
    fn fits(&self, mtu: u16, info: &PortInfo, pool: &Mempool, scatter: bool) -> Result<(), PortError> {
        let need = u32::from(mtu) + info.overhead + u32::from(HEADROOM);
        let have = u32::from(pool.data_room());
        if need <= have || scatter {
            return Ok(());
        }
        let (name, driver) = (self.name.clone(), info.driver.clone());
        Err(PortError::DataRoom { name, mtu, need, have, driver })
    }

    fn in_range(
        &self,
        key: &'static str,
        value: u32,
        info: &PortInfo,
        min: u32,
        max: u32,
    ) -> Result<(), PortError> {
        if (min..=max).contains(&value) {
            return Ok(());
        }
        let (name, driver) = (self.name.clone(), info.driver.clone());
        Err(PortError::OutOfRange { name, key, value, driver, min, max })
    }

    fn adjust(&self, config: &PortConfig) -> Result<(u16, u16), PortError> {
        let (mut rx, mut tx) = (config.rx_desc, config.tx_desc);
        // SAFETY: a valid port and two locals that outlive the call.
        let result =
            log::catch(|| unsafe { dpdk_sys::rte_eth_dev_adjust_nb_rx_tx_desc(self.id, &mut rx, &mut tx) });
        self.check_said(result, || "rte_eth_dev_adjust_nb_rx_tx_desc".into()).map(|()| (rx, tx))
    }

    fn set_up_queues(
        &mut self,
        config: &PortConfig,
        raw: &dpdk_sys::rte_eth_dev_info,
        (rx_desc, tx_desc): (u16, u16),
        (rx_offloads, tx_offloads): (RxOffloads, TxOffloads),
        pool: &Mempool,
    ) -> Result<(), PortError> {
        let mut rx_conf = raw.default_rxconf;
        rx_conf.offloads = rx_offloads.bits();
        let mut tx_conf = raw.default_txconf;
        tx_conf.offloads = tx_offloads.bits();
        tx_conf.tx_free_thresh = config.tx_free_thresh.unwrap_or(tx_conf.tx_free_thresh);
        tx_conf.tx_rs_thresh = config.tx_rs_thresh.unwrap_or(tx_conf.tx_rs_thresh);
        // SAFETY: a valid port. The node may be SOCKET_ID_ANY, which the cast keeps.
        let node = unsafe { dpdk_sys::rte_eth_dev_socket_id(self.id) } as u32;
        // The device refers to the pool from now on, until it is set up with another one.
        let former = std::mem::replace(&mut self.pools, vec![pool.clone()]);
        self.pools.extend(former);
        for queue in 0..config.rx_queues {
            // SAFETY: a valid, configured port, not started; the pool is kept by `self.pools`.
            let result = log::catch(|| unsafe {
                dpdk_sys::rte_eth_rx_queue_setup(self.id, queue, rx_desc, node, &rx_conf, pool.as_ptr())
            });
            self.check_said(result, || {
                format!("rte_eth_rx_queue_setup of queue {queue} with {rx_desc} descriptors")
            })?;
        }
        for queue in 0..config.tx_queues {
            // SAFETY: a valid, configured port, not started.
            let result = log::catch(|| unsafe {
                dpdk_sys::rte_eth_tx_queue_setup(self.id, queue, tx_desc, node, &tx_conf)
            });
            self.check_said(result, || {
                format!("rte_eth_tx_queue_setup of queue {queue} with {tx_desc} descriptors")
            })?;
        }
        self.pools.truncate(1);
        Ok(())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.close();
    }
}

/// The names of all attached ports.
pub(super) fn names() -> Vec<String> {
    ids().filter_map(name).collect()
}

/// Whether the device has a port, open or not.
pub(crate) fn has_port(device: &str) -> bool {
    ids().any(|id| device_name(id).as_deref() == Some(device))
}

fn ids() -> impl Iterator<Item = u16> {
    std::iter::successors(next_id(0), |id| next_id(id + 1))
}

/// The first port from `from` on.
fn next_id(from: u16) -> Option<u16> {
    // SAFETY: looks into DPDK's table of ports, whose end is SHIM_MAX_ETHPORTS.
    let id = unsafe { dpdk_sys::rte_eth_find_next(from) };
    (u32::from(id) < dpdk_sys::SHIM_MAX_ETHPORTS).then_some(id)
}

/// The name of a port.
pub(super) fn name(id: u16) -> Option<String> {
    let mut name = [0 as c_char; dpdk_sys::SHIM_NAME_MAX as usize];
    // SAFETY: the array is as long as the call demands, and holds a C string afterwards.
    unsafe {
        (dpdk_sys::rte_eth_dev_get_name_by_port(id, name.as_mut_ptr()) == 0)
            .then(|| CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned())
    }
}

/// The name of the device that the port belongs to.
fn device_name(id: u16) -> Option<String> {
    let mut raw = dpdk_sys::rte_eth_dev_info::default();
    // SAFETY: a local that outlives the call; an invalid port is an error.
    let ret = unsafe { dpdk_sys::rte_eth_dev_info_get(id, &mut raw) };
    (ret == 0).then(|| info::device_name(&raw)).filter(|name| !name.is_empty())
}

fn has_removal_interrupt(raw: &dpdk_sys::rte_eth_dev_info) -> bool {
    // SAFETY: points into the device, which is open, or is null.
    unsafe { raw.dev_flags.as_ref() }.is_some_and(|flags| flags & dpdk_sys::SHIM_DEV_INTR_RMV != 0)
}

/// What ethdev sets where nothing else is asked for.
const DEFAULT_MTU: u16 = 1500;

/// Vendors' strings have up to a few dozen bytes.
const FIRMWARE_MAX: usize = 128;

const REMOVAL: dpdk_sys::rte_eth_event_type = dpdk_sys::RTE_ETH_EVENT_INTR_RMV;
