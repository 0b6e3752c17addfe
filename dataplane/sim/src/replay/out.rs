//! The lines that a replay prints.

use super::hashes::Hashes;
use shaper::packet::{Delivery, DropReason, Enqueued, Verdict};
use shaper::time::Instant;
use std::fmt::Display;
use std::io::{self, Write};

/// What the lines go to.
#[derive(Debug)]
pub struct Out<W> {
    writer: W,
}

/// Packets that a call doomed, in order.
pub type Doomed<P> = Vec<(P, DropReason)>;

impl<W: Write> Out<W> {
    /// Prints to `writer`.
    pub fn new(writer: W) -> Self {
        Self { writer }
    }

    /// `enq T ID VERDICT q=TIN:QUEUE fh=.. sh=.. dh=..`, then what the arrival pushed out.
    ///
    /// # Errors
    /// The writer's.
    pub fn enqueued<P: Display>(
        &mut self,
        now: Instant,
        id: u64,
        result: &Enqueued,
        hashes: Hashes,
        doomed: &Doomed<P>,
    ) -> io::Result<()> {
        let verdict = match result.verdict {
            Verdict::Ok => "ok",
            Verdict::Congested => "cn",
            Verdict::Dropped => "drop",
        };
        let (now_ns, Enqueued { tin, queue, .. }) = (now.as_nanos(), result);
        let Hashes { flow, src, dst } = hashes;
        write!(self.writer, "enq {now_ns} {id} {verdict} q={tin}:{queue} ")?;
        writeln!(self.writer, "fh={flow:08x} sh={src:08x} dh={dst:08x}")?;
        self.dropped(now, doomed, reason)
    }

    /// What was dropped on the way, then `deq T ID len=L ds=HH ce=0|1`, or `empty T WAKEUP` when
    /// nothing is due.
    ///
    /// # Errors
    /// The writer's.
    pub fn dequeued<P: Display>(
        &mut self,
        now: Instant,
        delivery: Option<&Delivery<P>>,
        became_ce: bool,
        wakeup: Option<Instant>,
        doomed: &Doomed<P>,
    ) -> io::Result<()> {
        self.dropped(now, doomed, reason)?;
        let now = now.as_nanos();
        match (delivery, wakeup) {
            (Some(Delivery { packet, len, ds, .. }), _) => {
                let (ds, ce) = (ds.bits(), u8::from(became_ce));
                writeln!(self.writer, "deq {now} {packet} len={len} ds={ds:02x} ce={ce}")
            }
            (None, Some(wakeup)) => writeln!(self.writer, "empty {now} {}", wakeup.as_nanos()),
            (None, None) => writeln!(self.writer, "empty {now} -"),
        }
    }

    /// `chg T ERR`, then what was cut. `ERR` is 0, or -22 (`EINVAL`) for a change that was refused.
    ///
    /// # Errors
    /// The writer's.
    pub fn changed<P: Display>(&mut self, now: Instant, refused: bool, doomed: &Doomed<P>) -> io::Result<()> {
        writeln!(self.writer, "chg {} {}", now.as_nanos(), if refused { -EINVAL } else { 0 })?;
        self.dropped(now, doomed, |_| "change")
    }

    /// One line as it is.
    ///
    /// # Errors
    /// The writer's.
    pub fn line(&mut self, line: impl Display) -> io::Result<()> {
        writeln!(self.writer, "{line}")
    }

    fn dropped<P: Display>(
        &mut self,
        now: Instant,
        doomed: &Doomed<P>,
        name: fn(DropReason) -> &'static str,
    ) -> io::Result<()> {
        for (id, reason) in doomed {
            writeln!(self.writer, "drop {} {id} {}", now.as_nanos(), name(*reason))?;
        }
        Ok(())
    }
}

fn reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Codel => "codel",
        DropReason::Blue => "blue",
        DropReason::OverLimit => "overlimit",
        DropReason::OverMemory => "overmem",
        DropReason::Overflow => "overflow",
        DropReason::AckFilter => "ackfilter",
        DropReason::Change => "change",
        DropReason::Uncuttable => "uncuttable",
        DropReason::Flush => "flush",
    }
}

/// Linux's number for "invalid argument".
const EINVAL: i32 = 22;
