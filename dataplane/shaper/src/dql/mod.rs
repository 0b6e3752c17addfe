//! Dynamic byte limits in front of a device queue: just enough for the device never to run dry.
//!
//! * [`Dql`]: the algorithm as Linux has it, one decision per completion.
//! * [`Governor`]: what a poll-mode driver needs around it: decisions per window of time, a floor
//!   for late completions, and the difference between a late device and a late lcore.

mod governor;
mod limit;
mod pipe;
mod polls;
mod stall;

pub use governor::{Governor, Params, Stats};
pub use limit::{Dql, Excess, State, TooLarge};
pub use stall::Stall;
