//! Threads under the real clock, and when each of them was away.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use engine::clock::Clock;
use shaper::time::{Duration, Instant};

use super::{Card, Span};

/// When a polling thread was away from its work.
#[derive(Debug, Default)]
pub struct Gaps {
    last: Option<Instant>,
    spans: Vec<Span>,
}

impl Gaps {
    /// The thread polls at `now`.
    pub fn poll(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now)
            && now.since(last) > NOTICED
        {
            self.spans.push(last..now);
        }
    }

    /// Forgets the gaps so far.
    pub fn clear(&mut self) {
        self.spans.clear();
    }

    /// The gaps, in order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// All of them together.
    pub fn total(&self) -> Duration {
        self.spans.iter().fold(Duration::ZERO, |sum, gap| sum + gap.end.since(gap.start))
    }

    /// The times at which one of two threads was away, or both, in order and apart.
    pub fn either(&self, other: &Self) -> Vec<Span> {
        let mut all = [self.spans(), other.spans()].concat();
        all.sort_unstable_by_key(|gap| gap.start);
        let mut merged: Vec<Span> = Vec::with_capacity(all.len());
        for gap in all {
            match merged.last_mut() {
                Some(last) if gap.start <= last.end => last.end = last.end.max(gap.end),
                _ => merged.push(gap),
            }
        }
        merged
    }
}

/// Steps the card until `stop`; returns it with the gaps of this thread. What happens before `from` is not measured.
///
/// # Errors
/// As [`Card::step`].
pub fn run(mut card: Card, mut clock: Clock, from: Instant, stop: &AtomicBool) -> Result<(Card, Gaps)> {
    let mut gaps = Gaps::default();
    let mut measured = false;
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        if !measured && now >= from {
            measured = true;
            card.measure(now);
            gaps.clear();
        }
        gaps.poll(now);
        card.step(now)?;
    }
    Ok((card, gaps))
}

/// A longer time between two polls is a gap: a turn takes some 10 µs, a timer tick on a shared core up to 50.
const NOTICED: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_of_two_threads_are_merged() {
        let at = |micros: u64| Instant::from_nanos(micros * 1_000);
        let gaps = |polls: &[u64]| {
            let mut gaps = Gaps::default();
            polls.iter().for_each(|micros| gaps.poll(at(*micros)));
            gaps
        };
        let (one, two) = (gaps(&[0, 50, 150, 200, 600]), gaps(&[0, 120, 140, 700, 710, 900]));
        assert_eq!(one.spans(), [at(50)..at(150), at(200)..at(600)]);
        assert_eq!(one.total(), Duration::from_micros(500));
        assert_eq!(one.either(&two), [at(0)..at(700), at(710)..at(900)]);
    }
}
