//! When a frame may leave, and how long it is on the wire: the rate limiter and the link-layer
//! overhead. Both serve every discipline; cake brings its own clocks and shares the overhead.
//!
//! A queue behind a limiter is served like this, `now` read once:
//!
//! ```
//! use shaper::{rate::{Limiter, Overhead}, time::{Duration, Instant}, units::Rate};
//! # let mut queue = vec![1514_u32, 60];
//! let now = Instant::ZERO;
//! let mut limiter = Limiter::new(Rate::from_bits_per_sec(100_000_000), Duration::from_millis(10))?;
//! limiter.idle_until(now); // before the enqueue that ends an idle time
//! while limiter.ready(now) {
//!     let Some(adjusted) = queue.pop() else { break }; // a dequeue that yields nothing costs nothing
//!     limiter.charge(now, adjusted);
//! }
//! assert_eq!(limiter.next(), Instant::from_nanos(4_800)); // 60 bytes at 100 Mbit/s
//! # Ok::<(), shaper::rate::RateError>(())
//! ```

mod limiter;
mod overhead;

pub use limiter::{Limiter, RateError, Stats};
pub use overhead::{Framing, Overhead, OverheadError};
