//! What weir is busy with, told when it takes long: a start is silent otherwise.

use crate::say::complain;
use anyhow::{Context, Result};
use std::fmt::Display;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Tells of steps that take longer than [`PATIENCE`], each once, until it is dropped.
#[derive(Debug)]
pub struct Progress(Sender<String>);

impl Progress {
    /// For the instance `name`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(name: &str) -> Result<Self> {
        let (sender, steps) = channel();
        let name = name.to_owned();
        std::thread::Builder::new()
            .name("weir-progress".to_owned())
            .spawn(move || tell(&steps, PATIENCE, |step| complain(&format!("weir {name}: {step} ..."))))
            .context("cannot start the thread that tells of progress")?;
        Ok(Self(sender))
    }

    /// The next step begins.
    pub fn step(&self, step: &impl Display) {
        // Nobody is left to tell if the thread is gone.
        let _ = self.0.send(step.to_string());
    }
}

fn tell(steps: &Receiver<String>, patience: Duration, mut say: impl FnMut(String)) {
    let mut untold = None;
    loop {
        match steps.recv_timeout(patience) {
            Ok(step) => untold = Some(step),
            Err(RecvTimeoutError::Timeout) => untold.take().into_iter().for_each(&mut say),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What nobody wonders about yet.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn only_a_step_that_lasts_is_told_and_only_once() {
        let (sender, steps) = channel();
        let sender = RefCell::new(Some(sender));
        let next = |step: &str| sender.borrow().as_ref().unwrap().send(step.to_owned()).unwrap();
        next("quick");
        next("slow");
        let mut told = Vec::new();
        tell(&steps, Duration::ZERO, |step| {
            match told.len() {
                0 => next("quick"),
                _ => drop(sender.take()),
            }
            if told.is_empty() {
                next("slower");
            }
            told.push(step);
        });
        assert_eq!(told, ["slow", "slower"]);
    }
}
