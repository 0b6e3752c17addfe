//! Who sends: unanswered sources and TCP senders, with the receivers that answer them.
//!
//! None of them knows the network. They are asked for packets ([`Sender::poll`]), told of answers
//! and of time ([`Sender::on_ack`], [`Sender::on_time`]), and say when they want to be told again
//! ([`Sender::wants`]).

pub mod congestion;
pub mod cubic;
pub mod receiver;
pub mod reno;
pub mod rtt;
pub mod socket;
pub mod source;
pub mod tcp;

pub use congestion::Congestion;
pub use cubic::Cubic;
pub use receiver::Receiver;
pub use reno::Reno;
pub use socket::{SmallQueue, Socket, Train, Tso};
pub use source::Source;
pub use tcp::{Supply, Tcp};

use super::packet::{Ack, Body};
use shaper::time::Instant;

/// Who sends.
#[derive(Debug)]
pub enum Sender {
    /// Datagrams by the clock, whatever becomes of them: paced, sparse, on and off, a flood.
    Source(Source),
    /// A TCP stream.
    Tcp(Box<Tcp>),
}

impl Sender {
    /// The next frame that may be sent at `now`: its length in bytes, and what it is about.
    pub fn poll(&mut self, now: Instant) -> Option<(u32, Body)> {
        match self {
            Self::Source(source) => source.poll(now).map(|len| (len, Body::Datagram)),
            Self::Tcp(tcp) => tcp.poll(now),
        }
    }

    /// An answer has come.
    pub fn on_ack(&mut self, now: Instant, ack: &Ack) {
        if let Self::Tcp(tcp) = self {
            tcp.on_ack(now, ack);
        }
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Instant) {
        if let Self::Tcp(tcp) = self {
            tcp.on_time(now);
        }
    }

    /// When to be told of time again, and polled.
    pub fn wants(&self) -> Option<Instant> {
        match self {
            Self::Source(source) => Some(source.next()),
            Self::Tcp(tcp) => tcp.wants(),
        }
    }
}
