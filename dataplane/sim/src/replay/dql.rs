//! Byte queue limits under a trace. The format is its own: times are jiffies, and there is no
//! `cfg` line.
//!
//! ```text
//! # text
//! init J HOLD        a new limit at jiffy J, hold time in jiffies
//! set KEY VALUE      limit, min_limit, max_limit (bytes), hold_time, stall_thrs (jiffies)
//! q J BYTES          queued
//! c J BYTES          completed
//! r J                reset
//! ```
//!
//! Each operation prints the state after it; a `set` is repeated as it stands.

use super::{Error, Mode};
use shaper::conformance::{Conformance, Linux, Weir};
use shaper::dql::Dql;
use std::fmt;
use std::io::Write;
use std::str::FromStr;

/// Whether `text` is such a trace: its first word is `init`.
pub fn is_trace(text: &str) -> bool {
    text.lines().find(|line| !is_comment(line)).is_some_and(|line| line.split(' ').next() == Some("init"))
}

/// Plays the `text` of a trace and prints what happens to `writer`; `file` is its name for messages.
///
/// # Errors
/// The first line that is not understood, or the writer's error.
pub fn replay(file: &str, text: &str, mode: Mode, writer: impl Write) -> Result<(), Error> {
    match mode {
        Mode::Linux => replay_under::<Linux>(file, text, writer),
        Mode::Weir => replay_under::<Weir>(file, text, writer),
    }
}

fn replay_under<C: Conformance>(file: &str, text: &str, mut writer: impl Write) -> Result<(), Error> {
    let mut queue: Option<Queue<C>> = None;
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !is_comment(line)) {
        let line = Line { place: format!("{file}:{number}"), words: line.split_ascii_whitespace().collect() };
        let queue = match (line.words.first(), &mut queue) {
            (Some(&"init"), queue) => queue.insert(Queue {
                dql: Dql::new(line.number(1)?, line.number(2)?),
                now: 0,
                stopped: false,
            }),
            (_, Some(queue)) => queue,
            (_, None) => return Err(Error::new(line.place, "the first line must be `init J HOLD`")),
        };
        queue.apply(&line, &mut writer)?;
    }
    Ok(())
}

struct Line<'a> {
    place: String,
    words: Vec<&'a str>,
}

/// A limit, and whether its owner has stopped queueing.
struct Queue<C: Conformance> {
    dql: Dql<C>,
    now: u64,
    stopped: bool,
}

impl<C: Conformance> Queue<C> {
    fn apply(&mut self, line: &Line<'_>, writer: &mut impl Write) -> Result<(), Error> {
        let word = line.words.first().copied().unwrap_or_default();
        if word == "set" {
            self.set(line)?;
            return Ok(writeln!(writer, "{}", line.words.join(" "))?);
        }
        self.now = line.number(1)?;
        let amount: u32 = if word == "r" { 0 } else { line.number(2)? };
        match word {
            "init" => (),
            "r" => {
                self.dql.reset(self.now);
                self.stopped = false;
            }
            "q" => {
                if let Err(error) = self.dql.queued(self.now, amount) {
                    writeln!(writer, "# {}: {error}", line.place)?;
                }
                self.stopped |= self.dql.available() < 0;
            }
            "c" => {
                if let Err(error) = self.dql.completed(self.now, amount) {
                    writeln!(writer, "# {}: {error}", line.place)?;
                }
                self.stopped &= amount == 0 || self.dql.available() < 0;
            }
            other => {
                let what = format_args!("`{other}` is no operation: init, set, q, c or r");
                return Err(Error::new(&line.place, what));
            }
        }
        Ok(writeln!(writer, "{word} {} {amount} {self}", self.now)?)
    }

    fn set(&mut self, line: &Line<'_>) -> Result<(), Error> {
        match line.words.get(1).copied().unwrap_or_default() {
            "limit" => self.dql.set_limit(line.number(2)?),
            "min_limit" => self.dql.set_min_limit(line.number(2)?),
            "max_limit" => self.dql.set_max_limit(line.number(2)?),
            "hold_time" => self.dql.set_hold_time(line.number(2)?),
            "stall_thrs" => self.dql.set_stall_threshold(self.now, line.number(2)?),
            other => {
                let keys = "limit, min_limit, max_limit, hold_time or stall_thrs";
                return Err(Error::new(&line.place, format_args!("`{other}` cannot be set: {keys}")));
            }
        }
        Ok(())
    }
}

impl<C: Conformance> fmt::Display for Queue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, stall) = (self.dql.state(), self.dql.stall());
        write!(f, "limit={} avail={} ", state.limit, self.dql.available())?;
        write!(f, "xoff={} adj={} ", u8::from(self.stopped), state.ceiling)?;
        write!(f, "nq={} nc={} last={} ", state.queued, state.done, state.last)?;
        write!(f, "pnq={} plast={} povl={} ", state.prev_queued, state.prev_last, state.prev_over)?;
        write!(f, "low={} sst={}", state.lowest, state.hold_start)?;
        if stall.threshold() != 0 {
            let (head, [a, b, c, d]) = stall.history();
            write!(f, " stall_cnt={} stall_max={} ", stall.count(), stall.longest())?;
            write!(f, "reap={} head={head} h={a:016x}.{b:016x}.{c:016x}.{d:016x}", stall.reap_time())?;
        }
        Ok(())
    }
}

impl Line<'_> {
    fn number<T: FromStr>(&self, index: usize) -> Result<T, Error> {
        let word = self.words.get(index).copied().unwrap_or_default();
        word.parse().map_err(|_| {
            let kind = std::any::type_name::<T>();
            Error::new(
                &self.place,
                format_args!("`{word}` in field {} is no number that fits {kind}", index + 1),
            )
        })
    }
}

fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with('#')
}
