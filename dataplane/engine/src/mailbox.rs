//! The only way between control and packet path: two bounded queues of owned messages.
//!
//! Control puts a [`Command`], the worker takes one at a burst boundary. A statistics page is a
//! command too: it travels empty to the worker and comes back filled, as a change comes back with what it
//! has replaced, so the worker never allocates, never waits, and shares nothing. The queues are lock-free arrays; an empty one costs
//! the worker two loads a turn.

use crate::change::Change;
use crate::page::Page;
use crossbeam_queue::ArrayQueue;
use shaper::gso::Split;
use shaper::units::Rate;
use std::sync::Arc;

/// What control asks of a worker.
#[derive(Debug)]
pub enum Command {
    /// Fill this page and send it back.
    Report(Box<Page>),
    /// The egress link of a direction went up or down.
    Link {
        /// Index of the direction within the worker.
        direction: usize,
        /// Whether the link is up now.
        up: bool,
    },
    /// The egress link of a direction has another speed.
    Speed {
        /// Index of the direction within the worker.
        direction: usize,
        /// Its speed, if the driver knows one.
        speed: Option<Rate>,
    },
    /// Super-packets of a direction shall be cut another way.
    Split {
        /// Index of the direction within the worker.
        direction: usize,
        /// How from now on, for those that wait too.
        split: Split,
    },
    /// Change settings, and send the box back once that is done. No other command is taken before.
    Apply(Box<Change>),
    /// Stop receiving, send what is due, then return.
    Stop,
}

/// The control side.
#[derive(Clone, Debug)]
pub struct Control {
    commands: Arc<ArrayQueue<Command>>,
    pages: Arc<ArrayQueue<Box<Page>>>,
    changes: Arc<ArrayQueue<Box<Change>>>,
}

/// The worker's side.
#[derive(Debug)]
pub struct Mailbox {
    commands: Arc<ArrayQueue<Command>>,
    pages: Arc<ArrayQueue<Box<Page>>>,
    changes: Arc<ArrayQueue<Box<Change>>>,
}

/// A connected pair.
pub fn pair() -> (Control, Mailbox) {
    let commands = Arc::new(ArrayQueue::new(DEPTH));
    let pages = Arc::new(ArrayQueue::new(DEPTH));
    let changes = Arc::new(ArrayQueue::new(DEPTH));
    let control = Control { commands: commands.clone(), pages: pages.clone(), changes: changes.clone() };
    (control, Mailbox { commands, pages, changes })
}

impl Control {
    /// Sends a command.
    ///
    /// # Errors
    /// The command itself when the worker has not taken the last [`DEPTH`] ones: it is stuck.
    pub fn send(&self, command: Command) -> Result<(), Command> {
        self.commands.push(command)
    }

    /// A page that has come back.
    pub fn page(&self) -> Option<Box<Page>> {
        self.pages.pop()
    }

    /// A change that has been carried out.
    pub fn changed(&self) -> Option<Box<Change>> {
        self.changes.pop()
    }
}

impl Mailbox {
    /// The next command.
    #[inline]
    pub fn take(&self) -> Option<Command> {
        self.commands.pop()
    }

    /// Sends a filled page back. When control has not fetched the last [`DEPTH`] ones the page is
    /// returned to the caller, who owns it.
    pub fn give(&self, page: Box<Page>) -> Option<Box<Page>> {
        self.pages.push(page).err()
    }

    /// Sends back a change that has been carried out, or likewise returns it.
    pub fn done(&self, change: Box<Change>) -> Option<Box<Change>> {
        self.changes.push(change).err()
    }
}

/// Messages under way in one direction. Control has one page under way at a time and one command
/// per direction and link change; 64 is never filled by a worker that turns.
pub const DEPTH: usize = 64;
