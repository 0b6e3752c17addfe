//! The scenario `probe`: what DPDK's igb driver says of completions, and what the card makes of TSO and checksums.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::machine::{Card, Job, Machine, Model, Time};
use super::rig::{CANNOT_SHOW, COUNTED, FUNCTIONS, MEMORY, PATIENCE, Paths, image};
use crate::clock::Interrupt;
use crate::driver::completions::Completions;
use crate::driver::segments::{Segments, Verdict};

/// What was found, and how to have it again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// What the driver says of frames that have left.
    pub completions: Completions,
    /// What the card makes of a packet, beside the kernel.
    pub segments: Segments,
    /// What this rig cannot show.
    pub cannot_show: String,
    /// Seconds of real time.
    pub seconds: f64,
    /// QEMU as one would type it.
    pub command: String,
}

/// Boots a machine with two emulated 82576 ports on one wire and looks at the first from the second.
pub fn probe(paths: &Paths, tell: &mut dyn FnMut(&str), interrupt: &Interrupt) -> Result<Probe> {
    let image = image(paths)?;
    let card = Card { model: Model::Igb, wire: 0 };
    let machine = Machine { memory: MEMORY, time: Time::Counted(COUNTED), cards: vec![card; 2] };
    let [port, witness] = [0, 1].map(Machine::address);
    let script = format!("PORT={port} WITNESS={witness}\n{FUNCTIONS}{}", include_str!("guest/probe.sh"));
    let outcome =
        machine.run(&image, &Job { script: &script, files: &[], limit: PATIENCE }, tell, interrupt)?;
    Ok(Probe {
        completions: serde_json::from_str(&outcome.text("completions")?).context("completions have another shape")?,
        segments: serde_json::from_str(&outcome.text("segments")?).context("segments have another shape")?,
        cannot_show: CANNOT_SHOW.to_owned(),
        seconds: outcome.took.as_secs_f64(),
        command: outcome.command,
    })
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { completions, segments, .. } = self;
        let (status, cleanup, reclaim) =
            (&completions.descriptor_status, &completions.done_cleanup, &completions.reclaim);
        writeln!(f, "{} ({}), transmit ring of {}", completions.driver, completions.dpdk, completions.ring)?;
        let verdict = |is_true: bool, refused: &Option<String>| match refused {
            Some(errno) => format!("not there ({errno})"),
            None => if is_true { "true" } else { "LIES" }.to_owned(),
        };
        writeln!(f, "  descriptor status  {}", verdict(status.is_true(), &status.refused))?;
        if status.is_true() {
            writeln!(
                f,
                "    a frame is done at look {}; of four segments: {}; of a TSO frame: {}",
                status.polls_until_done.unwrap_or_default(),
                status.of_four_segments.join(" "),
                status.of_tso.join(" ")
            )?;
        }
        if status.idle_full > 0 {
            writeln!(
                f,
                "    at an offset inside a frame it says full for ever ({} descriptors of an idle ring): \
                 ask only at the last descriptor of a frame",
                status.idle_full
            )?;
        }
        writeln!(f, "  done_cleanup       {}", verdict(cleanup.is_true(), &cleanup.refused))?;
        if cleanup.refused.is_none() {
            writeln!(
                f,
                "    of {} frames: asked for 1, said {}, {} buffers back; asked for all, said {}, {} back; \
                 {} frames of four segments: said {}, {} back",
                cleanup.held,
                cleanup.one,
                cleanup.one_returned,
                cleanup.rest,
                cleanup.rest_returned,
                cleanup.chains,
                cleanup.chains_freed,
                cleanup.chains_returned
            )?;
        }
        match reclaim.first_after {
            Some(first) => writeln!(
                f,
                "  by itself          the first buffer comes back with frame {first}, at most {} a call",
                reclaim.batch
            )?,
            None => writeln!(f, "  by itself          no buffer comes back")?,
        }
        writeln!(
            f,
            "    {} frames that have left are held, 100 empty bursts give back {}",
            reclaim.held, reclaim.by_empty_bursts
        )?;
        let mut line = |name: &str, verdict: &Verdict| {
            writeln!(
                f,
                "  {name:<18} {}: {} of {} packets are the kernel's frames to the byte ({} frames in all), {} more but for \
                 TCP's flags; {} wrong checksums, {} refused",
                if verdict.is_right() { "right" } else { "WRONG" },
                verdict.identical,
                verdict.packets,
                verdict.frames,
                verdict.wrong_flags,
                verdict.wrong_checksums,
                verdict.refused
            )?;
            verdict.differences.iter().try_for_each(|difference| writeln!(f, "    {difference}"))
        };
        match &segments.tso {
            Some(tso) => line("TSO", tso)?,
            None => line("TSO not offered", &Verdict::default())?,
        }
        line("checksums", &segments.checksums)?;
        line("weir's splitter", &segments.splitter)?;
        writeln!(f, "  cannot be shown    {}", self.cannot_show)?;
        writeln!(f, "  {:.0} s", Duration::from_secs_f64(self.seconds).as_secs_f64())
    }
}
