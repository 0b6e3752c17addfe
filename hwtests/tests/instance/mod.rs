//! A running `weir` under test, asked as its owner asks it.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hwtests::clock::{nap, now};
use hwtests::process::{Process, Signal, run};
use serde_json::Value;

pub struct Weir {
    pub name: String,
    pub process: Process,
}

impl Weir {
    pub fn show(&self) -> Value {
        let text = run(Command::new(weir_binary()).args(["show", "--json", &self.name])).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Runs `weir` with these arguments: what it printed, or complained of.
    pub fn tell(&self, args: &[&str]) -> Result<String, String> {
        let said = Command::new(weir_binary()).args(args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if said.status.success() { Ok(text(&said.stdout)) } else { Err(text(&said.stderr)) }
    }

    pub fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let end = now() + Duration::from_secs(30);
        while !holds(&self.show()) {
            assert!(now() < end, "{what} did not happen: {:#}", self.show());
            nap(Duration::from_millis(20));
        }
    }

    /// Stops it as an operator would; what it said.
    pub fn end(self, signal: Signal) -> String {
        let (status, lines) = self.process.stop(signal, Duration::from_secs(20)).unwrap();
        let said = lines.join("\n");
        assert!(status.success(), "{status}: {said}");
        said
    }
}

/// The binary that the same build made.
pub fn weir_binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.ancestors().nth(2).unwrap().join("weir");
    assert!(binary.exists(), "{} is missing: build it first with `cargo build -p weir`", binary.display());
    binary
}
