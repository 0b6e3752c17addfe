//! Replay of recorded traces: the same events through our disciplines, printed line by line in the
//! form of the recording.
//!
//! * [`trace`] reads what happens, [`hashes`] supplies the flow hashes, [`out`] prints;
//! * one file per discipline drives it (`fq_codel`, `cake`): to add one, implement `Discipline` and
//!   name it in [`replay`]. Byte queue limits ([`dql`]) have a format and a file of their own.

mod cake;
pub mod dql;
pub mod file;
mod fq_codel;
pub mod hashes;
pub mod out;
pub mod tcp;
pub mod trace;

use hashes::{HashSource, Hashes};
use out::Out;
use shaper::conformance::{Conformance, Linux, Weir};
use shaper::time::Instant;
use std::fmt::{self, Display};
use std::io::{self, Write};
use trace::{EventKind, Packet, Settings, Trace};

/// Which of [`shaper::conformance`] to replay under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every fault reproduced.
    Linux,
    /// Every fault mended.
    #[default]
    Weir,
}

/// Why a replay stopped: a line that is not understood, or output that cannot be written.
#[derive(Debug)]
pub struct Error {
    message: String,
}

/// A discipline that a trace can be played to. Every call prints its own lines.
trait Discipline {
    fn enqueue(
        &mut self,
        now: Instant,
        packet: &Packet,
        hashes: Hashes,
        out: &mut Out<impl Write>,
    ) -> io::Result<()>;
    fn dequeue(&mut self, now: Instant, out: &mut Out<impl Write>) -> io::Result<()>;
    fn change(&mut self, now: Instant, settings: &Settings, out: &mut Out<impl Write>) -> Result<(), Error>;
    fn statistics(&self, out: &mut Out<impl Write>) -> io::Result<()>;
}

/// Plays `trace` and prints what happens to `writer`.
///
/// # Errors
/// A setting that is not understood, a packet without hashes, or the writer's error; what was
/// printed before stays printed.
pub fn replay(trace: &Trace, mode: Mode, hashes: &HashSource, writer: impl Write) -> Result<(), Error> {
    match mode {
        Mode::Linux => replay_under::<Linux>(trace, hashes, writer),
        Mode::Weir => replay_under::<Weir>(trace, hashes, writer),
    }
}

fn replay_under<C: Conformance>(trace: &Trace, hashes: &HashSource, writer: impl Write) -> Result<(), Error> {
    let out = Out::new(writer);
    match trace.config.text("qdisc") {
        Some("fq_codel") => play(trace, fq_codel::Replay::<C>::new(trace)?, hashes, out),
        Some("cake") => play(trace, cake::Replay::<C>::new(trace)?, hashes, out),
        Some(other) => {
            let what = format_args!("qdisc={other} cannot be replayed: fq_codel and cake can");
            Err(trace.config.place.error(what))
        }
        None => Err(trace.config.place.error("the key qdisc is missing")),
    }
}

fn play(
    trace: &Trace,
    mut discipline: impl Discipline,
    hashes: &HashSource,
    mut out: Out<impl Write>,
) -> Result<(), Error> {
    for event in &trace.events {
        match &event.kind {
            EventKind::Enqueue(packet) => {
                discipline.enqueue(event.time, packet, hashes.of(packet)?, &mut out)?;
            }
            EventKind::Dequeue => discipline.dequeue(event.time, &mut out)?,
            EventKind::Change(settings) => discipline.change(event.time, settings, &mut out)?,
        }
    }
    Ok(discipline.statistics(&mut out)?)
}

impl Error {
    /// `what` is wrong at `place`.
    pub fn new(place: impl Display, what: impl Display) -> Self {
        Self { message: format!("{place}: {what}") }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::new("output", error)
    }
}
