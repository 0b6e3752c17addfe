//! Round-trip time and the retransmission timeout: RFC 6298 with Linux's bounds.

use shaper::time::Duration;

/// The estimate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    smoothed: Option<u64>,
    deviation: u64,
}

impl Rtt {
    /// A round took `sample`.
    pub fn add(&mut self, sample: Duration) {
        let sample = sample.as_nanos();
        match &mut self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.deviation = sample / 2;
            }
            Some(smoothed) => {
                self.deviation = (3 * self.deviation + smoothed.abs_diff(sample)) / 4;
                *smoothed = (7 * *smoothed + sample) / 8;
            }
        }
    }

    /// The average; zero before the first sample.
    pub fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed.unwrap_or(0))
    }

    /// How long to wait for an answer.
    pub fn timeout(&self) -> Duration {
        let Some(smoothed) = self.smoothed else { return FIRST_TIMEOUT };
        Duration::from_nanos(smoothed + (4 * self.deviation).max(LEAST_TIMEOUT.as_nanos()))
    }
}

const FIRST_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Linux's TCP_RTO_MIN; it is a bound on the deviation's part.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
