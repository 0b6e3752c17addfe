//! The control side: samples put together to windows of time.

use crate::counters::Tally;
use crate::talkers::table::{Entry, Table};
use crate::talkers::{SIDES, Sample, Side};
use shaper::flow::key::FlowKey;
use shaper::time::{Duration, Instant};
use std::collections::HashMap;
use std::sync::Arc;

/// Follows one direction.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    open: Window,
    last: Option<Arc<Window>>,
    /// When the last sample ended, and what had been sent by then.
    seen: Option<(Instant, Tally)>,
}

/// What was seen in a span of time: a second, or as long as nobody asked.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Its length.
    pub span: Duration,
    /// What was sent in it, exactly.
    pub sent: Tally,
    /// The coarsest step in bytes that was sampled by.
    pub step: u32,
    talkers: [HashMap<FlowKey, Talker>; SIDES],
}

/// A flow or a host in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Talker {
    /// Its bytes, estimated.
    pub bytes: u64,
    /// By how much that may be wrong: 95 of 100 estimates are closer. Two standard deviations of the
    /// sampling, `2 sqrt(step bytes)`, and what places in the table were taken over with.
    pub error: u64,
    /// Packets that were looked at.
    pub samples: u64,
    /// How long these waited, on average.
    pub mean: Duration,
    /// The longest.
    pub longest: Duration,
    over: u64,
    waited: Duration,
}

impl Watch {
    /// Takes in a sample that ended `at`, when `sent` had been sent since the start.
    pub fn add(&mut self, sample: &Sample, at: Instant, sent: Tally) {
        let (began, before) = self.seen.replace((at, sent)).unwrap_or_default();
        let open = &mut self.open;
        open.span += at.since(began);
        open.sent.packets += sent.packets.saturating_sub(before.packets);
        open.sent.bytes += sent.bytes.saturating_sub(before.bytes);
        open.step = open.step.max(sample.step);
        for (talkers, table) in open.talkers.iter_mut().zip(&sample.tables) {
            take_in(talkers, table);
        }
        if open.span >= LENGTH {
            self.last = Some(Arc::new(core::mem::take(open)));
        }
    }

    /// The last window that is complete.
    pub fn last(&self) -> Option<&Arc<Window>> {
        self.last.as_ref()
    }
}

impl Window {
    /// The `most` largest of a kind, the largest first.
    pub fn top(&self, side: Side, most: usize) -> Vec<(FlowKey, Talker)> {
        let Some(talkers) = self.talkers.get(side as usize) else { return Vec::new() };
        let mut all: Vec<_> = talkers.iter().map(|(key, talker)| (*key, self.judge(talker))).collect();
        all.sort_by_key(|(_, talker)| std::cmp::Reverse(talker.bytes));
        all.truncate(most);
        all
    }

    fn judge(&self, talker: &Talker) -> Talker {
        let sampling = 2.0 * (f64::from(self.step) * talker.bytes as f64).sqrt();
        Talker {
            error: talker.over + sampling as u64,
            mean: Duration::from_nanos(talker.waited.as_nanos().checked_div(talker.samples).unwrap_or(0)),
            ..*talker
        }
    }
}

fn take_in(talkers: &mut HashMap<FlowKey, Talker>, table: &Table) {
    for Entry { key, bytes, over, samples, waited, longest } in table.entries().copied() {
        let talker = talkers.entry(key).or_default();
        talker.bytes += bytes;
        talker.over += over;
        talker.samples += samples;
        talker.waited += waited;
        talker.longest = talker.longest.max(longest);
    }
    if talkers.len() > KEPT {
        let mut all: Vec<_> = talkers.drain().collect();
        all.sort_by_key(|(_, talker)| std::cmp::Reverse(talker.bytes));
        all.truncate(KEPT / 2);
        talkers.extend(all);
    }
}

/// Shorter spans are put together.
const LENGTH: Duration = Duration::from_millis(900);

/// Most keys of a kind in a window.
const KEPT: usize = 4_096;
