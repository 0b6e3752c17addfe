//! Where those who answer clients meet the control loop: a bounded channel that the loop empties once a tick.
//!
//! All who ask within one tick get the same [`Snapshot`]. The loop sends its answers without waiting, and
//! does nothing for those who have gone meanwhile.

use crate::events::Event;
use crate::observe;
use crate::observe::flows::Talking;
use crate::report::Report;
use crate::telemetry::delays::{Delays, Filter, Times, Window};
use config::model::Config;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use toml::Value;

/// All that is known of an instance at one time. It is shared by those who ask, and never changes. The control loop
/// takes what is cheap to take; what follows from it is worked out by whoever asks for it first, on their thread.
#[derive(Debug)]
pub struct Snapshot {
    /// When it was taken, in seconds since 1970.
    pub at: f64,
    /// When the instance began, likewise.
    pub started: f64,
    /// The statistics, without any percentile.
    pub counts: Report,
    /// Who sent most of late.
    pub talking: Vec<Talking>,
    /// How long packets took since the start, by direction.
    pub times: Vec<Times>,
    /// The same of the last complete window.
    pub recent: Arc<Delays>,
    /// What it runs by.
    pub config: Arc<Config>,
    /// Which change that came with; 0 at the start.
    pub generation: u64,
    /// What has happened, oldest first.
    pub events: Arc<VecDeque<Event>>,
    /// For [`Snapshot::report`].
    pub report: OnceLock<Report>,
}

/// Whoever is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// For the history: `root (pid 12)`.
    pub who: String,
    /// The connection, and which of its events tell that nobody is left to hear an answer.
    pub connection: Option<(Arc<OwnedFd>, PollFlags)>,
}

/// A change that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Take up the changed file.
    Reload {
        /// Only tell what would change.
        dry_run: bool,
    },
    /// Change some values, all or none.
    Set {
        /// The values, at least one.
        settings: Vec<Setting>,
        /// Set them back after this time.
        span: Option<Duration>,
        /// Only tell what would change.
        dry_run: bool,
    },
}

/// A value that is to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The key as people write it: `home.down.bandwidth`, `down.bandwidth`, `engine.poll`.
    pub path: String,
    /// Its value; none: its default.
    pub value: Option<Value>,
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Done {
    /// What runs now.
    pub generation: u64,
    /// Each key with its old and new value.
    pub changes: Vec<String>,
    /// The same for people.
    pub text: String,
}

/// Why nothing was done.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Whose fault it is.
    pub why: Why,
    /// The reason, for people.
    pub text: String,
}

/// Whose fault it is that nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// What was asked for is wrong.
    Wrong,
    /// It needs a restart.
    Restart,
    /// The workers did not take it up.
    Failed,
}

/// What the control loop can do for those who ask.
pub trait Clerk {
    /// All that is known now.
    fn snapshot(&mut self) -> Snapshot;

    /// Does what `who` asks for.
    ///
    /// # Errors
    /// Why it was not done.
    fn carry_out(&mut self, request: &Request, who: &str) -> Result<Done, Refusal>;
}

/// The control loop's side.
#[derive(Debug)]
pub struct Desk(mpsc::Receiver<Ask>);

/// The side of those who answer clients.
#[derive(Clone, Debug)]
pub struct Bell(mpsc::Sender<Ask>);

/// The control loop is busy for longer than a client waits, or has ended.
#[derive(Clone, Copy, Debug)]
pub struct NoAnswer;

#[derive(Debug)]
enum Ask {
    Snapshot(oneshot::Sender<Arc<Snapshot>>),
    Carry(Request, Peer, oneshot::Sender<Result<Done, Refusal>>),
}

/// A desk and the bell to ring there.
pub fn desk() -> (Desk, Bell) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Desk(receiver), Bell(sender))
}

impl Desk {
    /// Has `clerk` do what was asked for since the last call, a bounded part of it.
    pub fn serve(&mut self, clerk: &mut impl Clerk) {
        let mut curious = Vec::new();
        for _ in 0..WAITING {
            match self.0.try_recv() {
                Ok(Ask::Snapshot(reply)) => curious.push(reply),
                // Whoever was told that it takes too long must not find it done later, nor who gave up while this
                // process was stopped: their request was read when they had gone.
                Ok(Ask::Carry(_, _, reply)) if reply.is_closed() => {}
                Ok(Ask::Carry(_, peer, reply)) if peer.has_gone() => drop(reply.send(Err(Refusal::gone()))),
                Ok(Ask::Carry(request, peer, reply)) => {
                    let _ = reply.send(clerk.carry_out(&request, &peer.who));
                }
                Err(_) => break,
            }
        }
        curious.retain(|reply| !reply.is_closed());
        if !curious.is_empty() {
            let snapshot = Arc::new(clerk.snapshot());
            curious.into_iter().for_each(|reply| drop(reply.send(snapshot.clone())));
        }
    }
}

impl Snapshot {
    /// The statistics with their percentiles.
    pub fn report(&self) -> &Report {
        self.report.get_or_init(|| observe::with_percentiles(self.counts.clone(), &self.times))
    }

    /// The histograms that `filter` wants, since the start.
    pub fn delays(&self, filter: &Filter) -> Delays {
        Delays {
            at: self.at,
            start: self.started,
            window: Window::Cumulative,
            window_s: self.at - self.started,
            histograms: self.times.iter().flat_map(|times| times.filtered(filter)).collect(),
        }
    }
}

impl Bell {
    /// All that is known.
    ///
    /// # Errors
    /// The control loop does not answer.
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>, NoAnswer> {
        self.ring(SNAPSHOT_WITHIN, Ask::Snapshot).await
    }

    /// Has `request` carried out for `peer`, unless they go before it is begun.
    ///
    /// # Errors
    /// The control loop does not answer.
    pub async fn carry_out(&self, request: Request, peer: &Peer) -> Result<Result<Done, Refusal>, NoAnswer> {
        self.ring(CHANGE_WITHIN, |reply| Ask::Carry(request, peer.clone(), reply)).await
    }

    async fn ring<T>(
        &self,
        patience: Duration,
        ask: impl FnOnce(oneshot::Sender<T>) -> Ask,
    ) -> Result<T, NoAnswer> {
        let answer = async {
            let (reply, answer) = oneshot::channel();
            self.0.send(ask(reply)).await.map_err(|_| NoAnswer)?;
            answer.await.map_err(|_| NoAnswer)
        };
        timeout(patience, answer).await.unwrap_or(Err(NoAnswer))
    }
}

impl Peer {
    /// Whether the other end is known to be closed, and nobody is left to hear the answer.
    fn has_gone(&self) -> bool {
        let Some((connection, gone)) = &self.connection else { return false };
        let mut looked = [PollFd::new(connection.as_fd(), *gone)];
        let found = poll(&mut looked, PollTimeout::ZERO).is_ok();
        // None: an event that nix has no name for, which is the POLLRDHUP that was asked for.
        found && looked[0].revents().is_none_or(|seen| seen.intersects(*gone))
    }

    /// On a unix socket one that is closed is told from one whose client has only done with asking.
    pub fn closed_unix() -> PollFlags {
        PollFlags::POLLHUP
    }

    /// Over TCP both look alike until an answer is sent. A change is not worth the doubt.
    pub fn closed_tcp() -> PollFlags {
        PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::from_bits_retain(nix::libc::POLLRDHUP)
    }
}

impl Refusal {
    /// What was asked for is wrong.
    pub fn wrong(error: &anyhow::Error) -> Self {
        Self { why: Why::Wrong, text: format!("{error:#}") }
    }

    /// Whoever asked has hung up; over TCP they may hear it yet.
    fn gone() -> Self {
        let text = "the connection was closed before the change was begun, and nothing was changed: keep it open \
                    until the answer has come";
        Self { why: Why::Failed, text: text.to_owned() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(Value::String(text)) => write!(f, "{} {text}", self.path),
            Some(value) => write!(f, "{} {value}", self.path),
            None => write!(f, "{} to its default", self.path),
        }
    }
}

/// Asks that wait for a tick, and what one tick does at most. More have to wait at the bell.
const WAITING: usize = 64;

/// How long an asker waits for statistics: many ticks.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(4);

/// How long one waits for a change: longer than the control loop waits for its workers.
const CHANGE_WITHIN: Duration = Duration::from_secs(12);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    /// Counts what it is asked.
    #[derive(Default)]
    struct Counting {
        snapshots: u32,
        carried: Vec<String>,
    }

    impl Clerk for Counting {
        fn snapshot(&mut self) -> Snapshot {
            self.snapshots += 1;
            let config =
                config::parse("test", "[[link]]\nname = \"x\"\na = \"net_null0\"\nb = \"net_null1\"\n");
            Snapshot {
                at: 0.0,
                started: 0.0,
                counts: Report::default(),
                talking: Vec::new(),
                times: Vec::new(),
                recent: Arc::default(),
                config: Arc::new(config.unwrap().config),
                generation: 0,
                events: Arc::default(),
                report: OnceLock::new(),
            }
        }

        fn carry_out(&mut self, _: &Request, who: &str) -> Result<Done, Refusal> {
            self.carried.push(who.to_owned());
            Ok(Done { generation: 1, changes: Vec::new(), text: String::new() })
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn all_who_ask_within_a_tick_get_the_same_snapshot() {
        block_on(async {
            let (mut desk, bell) = desk();
            let mut clerk = Counting::default();
            let asked: Vec<_> = (0..10)
                .map(|_| {
                    let bell = bell.clone();
                    tokio::spawn(async move { bell.snapshot().await.unwrap() })
                })
                .collect();
            tokio::task::yield_now().await;
            desk.serve(&mut clerk);
            assert_eq!(clerk.snapshots, 1);
            let mut seen = Vec::new();
            for answer in asked {
                seen.push(answer.await.unwrap());
            }
            assert!(seen.iter().all(|snapshot| Arc::ptr_eq(snapshot, &seen[0])));
            desk.serve(&mut clerk);
            assert_eq!(clerk.snapshots, 1, "nobody asked again");
        });
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_not_done() {
        block_on(async {
            let (mut desk, bell) = desk();
            let mut clerk = Counting::default();
            for (who, waits) in [("gone", false), ("here", true)] {
                let asking = bell.clone();
                let asked = tokio::spawn(async move {
                    let peer = Peer { who: who.to_owned(), connection: None };
                    asking.carry_out(Request::Reload { dry_run: false }, &peer).await.unwrap().unwrap()
                });
                tokio::task::yield_now().await;
                if !waits {
                    asked.abort();
                    tokio::task::yield_now().await;
                }
                desk.serve(&mut clerk);
                assert_eq!(asked.await.is_ok(), waits);
            }
            assert_eq!(clerk.carried, ["here"]);
            drop(desk);
            assert!(bell.snapshot().await.is_err(), "the loop has ended");
        });
    }

    #[test]
    fn who_has_hung_up_before_it_was_read_gets_nothing_done() {
        let unix = |closes: Option<Shutdown>| {
            let (theirs, ours) = UnixStream::pair().unwrap();
            if let Some(how) = closes {
                theirs.shutdown(how).unwrap();
            }
            let kept = (closes != Some(Shutdown::Both)).then_some(OwnedFd::from(theirs));
            (kept, OwnedFd::from(ours), Peer::closed_unix())
        };
        let tcp = |closes: Option<Shutdown>| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let ours = listener.accept().unwrap().0;
            if let Some(how) = closes {
                theirs.shutdown(how).unwrap();
            }
            let kept = (closes != Some(Shutdown::Both)).then_some(OwnedFd::from(theirs));
            (kept, OwnedFd::from(ours), Peer::closed_tcp())
        };
        let (half, whole) = (Some(Shutdown::Write), Some(Shutdown::Both));
        block_on(async {
            let (mut desk, bell) = desk();
            let mut clerk = Counting::default();
            for (who, is_done, (_theirs, ours, gone)) in [
                ("gone", false, unix(whole)),
                ("done with asking", true, unix(half)),
                ("here", true, unix(None)),
                ("gone from TCP", false, tcp(whole)),
                ("perhaps gone from TCP", false, tcp(half)),
                ("here by TCP", true, tcp(None)),
            ] {
                let peer = Peer { who: who.to_owned(), connection: Some((Arc::new(ours), gone)) };
                let asking = bell.clone();
                let asked = tokio::spawn(async move {
                    asking.carry_out(Request::Reload { dry_run: false }, &peer).await.unwrap().is_ok()
                });
                tokio::task::yield_now().await;
                desk.serve(&mut clerk);
                assert_eq!(asked.await.unwrap(), is_done, "{who}");
            }
            assert_eq!(clerk.carried, ["done with asking", "here", "here by TCP"]);
        });
    }
}
