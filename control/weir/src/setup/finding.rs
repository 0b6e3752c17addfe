//! One thing about the machine, and how it is told.

use serde::{Serialize, Serializer};
use std::fmt;

/// One thing about the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    /// What it is about.
    pub about: String,
    /// What is.
    pub is: String,
    /// What would be better; empty where it is right.
    pub better: String,
    /// Why, in a line.
    pub why: &'static str,
    /// What `--apply` does, in order.
    #[serde(rename = "apply")]
    pub steps: Vec<Step>,
    /// What remains to be done by hand; empty if nothing.
    pub by_hand: String,
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Right,
    /// weir runs; better could be had.
    Better,
    /// weir does not run like this.
    Wrong,
}

/// Something that can be undone while the machine runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file of the kernel is written; `before` is what it said.
    Write { path: String, text: String, before: String },
    /// A kernel module is loaded.
    Load { module: &'static str },
    /// A PCI port is given from one driver to another.
    Bind { port: String, from: Option<String>, to: &'static str },
}

impl Finding {
    /// It is as it should be.
    pub fn right(about: impl Into<String>, is: impl Into<String>) -> Self {
        Self::new(Level::Right, about, is, String::new(), "")
    }

    /// Better could be had.
    pub fn better(
        about: impl Into<String>,
        is: impl Into<String>,
        better: impl Into<String>,
        why: &'static str,
    ) -> Self {
        Self::new(Level::Better, about, is, better, why)
    }

    /// weir does not run like this.
    pub fn wrong(
        about: impl Into<String>,
        is: impl Into<String>,
        better: impl Into<String>,
        why: &'static str,
    ) -> Self {
        Self::new(Level::Wrong, about, is, better, why)
    }

    fn new(
        level: Level,
        about: impl Into<String>,
        is: impl Into<String>,
        better: impl Into<String>,
        why: &'static str,
    ) -> Self {
        let (about, is, better) = (about.into(), is.into(), better.into());
        Self { level, about, is, better, why, steps: Vec::new(), by_hand: String::new() }
    }

    /// What a person has to do.
    #[must_use]
    pub fn by_hand(mut self, text: impl Into<String>) -> Self {
        self.by_hand = text.into();
        self
    }

    /// What `--apply` does.
    #[must_use]
    pub fn steps(mut self, steps: Vec<Step>) -> Self {
        self.steps = steps;
        self
    }

    /// Whether weir does not run like this.
    pub fn is_wrong(&self) -> bool {
        self.level == Level::Wrong
    }
}

impl Step {
    /// A shell command that takes it back; nothing where there is nothing to take back.
    pub fn undo(&self) -> Option<String> {
        match self {
            Self::Write { path, before, .. } => Some(format!("echo {before} > {path}")),
            Self::Load { .. } => None,
            Self::Bind { port, from, to } => {
                let away = format!(
                    "echo {port} > /sys/bus/pci/drivers/{to}/unbind; echo > /sys/bus/pci/devices/{port}/driver_override"
                );
                Some(match from {
                    Some(from) => format!("{away}; echo {port} > /sys/bus/pci/drivers/{from}/bind"),
                    None => away,
                })
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { path, text, .. } => write!(f, "echo {text} > {path}"),
            Self::Load { module } => write!(f, "modprobe {module}"),
            Self::Bind { port, from, to } => {
                let from = from.as_deref().unwrap_or("no driver");
                write!(f, "give {port} from {from} to {to}")
            }
        }
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Right => "right ",
            Level::Better => "better",
            Level::Wrong => "WRONG ",
        };
        writeln!(f, "{level}  {}: {}", self.about, self.is)?;
        for (name, text) in [("better", self.better.as_str()), ("why", self.why)] {
            if !text.is_empty() {
                writeln!(f, "          {name}: {text}")?;
            }
        }
        self.steps.iter().try_for_each(|step| writeln!(f, "          --apply: {step}"))?;
        if !self.by_hand.is_empty() {
            writeln!(f, "          by hand: {}", self.by_hand)?;
        }
        Ok(())
    }
}
