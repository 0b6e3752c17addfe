//! placeholder
use crate::scenario::{Measured, Run};
use anyhow::{Result, bail};
/// x
pub fn latency(_run: &mut Run<'_>, _tc: &str) -> Result<Measured> { bail!("x") }
