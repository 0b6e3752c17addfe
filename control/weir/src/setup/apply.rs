//! `--apply`: what was announced, step by step, each with the way back.

use super::finding::{Finding, Step};
use super::host::Host;
use crate::pci::Whose;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fmt;
use std::process::Command;

/// What was done.
#[derive(Debug, Default, Serialize)]
pub struct Done {
    /// Steps in order.
    pub done: Vec<String>,
    /// Shell commands that take them back, the last step first.
    pub undo: Vec<String>,
    /// What could not be done, and why.
    pub failed: Vec<String>,
}

/// Does the steps of all findings. After one that fails, the rest of its finding is left out.
pub fn apply(host: &Host, findings: &[Finding]) -> Done {
    let mut done = Done::default();
    for finding in findings {
        for step in &finding.steps {
            if let Err(error) = carry_out(host, step) {
                done.failed.push(format!("{step}: {error:#}"));
                break;
            }
            done.done.push(step.to_string());
            done.undo.extend(step.undo());
        }
    }
    done.undo.reverse();
    done
}

fn carry_out(host: &Host, step: &Step) -> Result<()> {
    match step {
        Step::Write { path, text, .. } => {
            let place = host.path(path);
            std::fs::write(&place, text).with_context(|| format!("cannot write {}", place.display()))?;
            // The kernel takes less where it has no more, without an error.
            let now = host.read(path).unwrap_or_default();
            ensure!(now == *text, "the kernel made it {now}");
            Ok(())
        }
        Step::Load { module } => {
            let status = Command::new("modprobe").arg(module).status().context("cannot run modprobe")?;
            ensure!(
                status.success(),
                "modprobe {module} failed: the kernel has no such module, or this is not root"
            );
            Ok(())
        }
        Step::Bind { port, from, to } => {
            let bus = host.bus();
            // Where `on-stop = "bridge"` finds it.
            if let Some(from) = from {
                bus.remember(port, Whose::Kernel, from)?;
            }
            bus.bind(port, Some(to))
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        if self.done.is_empty() && self.failed.is_empty() {
            return writeln!(f, "nothing to apply");
        }
        self.done.iter().try_for_each(|step| writeln!(f, "done: {step}"))?;
        self.failed.iter().try_for_each(|step| writeln!(f, "FAILED: {step}"))?;
        if !self.undo.is_empty() {
            writeln!(f, "\nto undo, as root:")?;
        }
        self.undo.iter().try_for_each(|command| writeln!(f, "  {command}"))
    }
}
