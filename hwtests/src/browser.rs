//! Headless Chromium on one page, driven over its remote debugging pipe (Chrome DevTools Protocol).
//!
//! Commands and answers are JSON documents that end in NUL, on the browser's file descriptors 3 and 4, which a
//! shell makes of its standard input and output: no port, no other library. It runs without its own sandbox, as
//! root has to: it is shown nothing but pages of this machine.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::clock::{nap, now};
use crate::process::{background, require};

/// A running browser and its one page; both go when dropped.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    last_id: u64,
    session: Option<String>,
    complaints: Vec<String>,
    profile: PathBuf,
}

/// What the page is shown in.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// CSS pixels.
    pub width: u32,
    /// CSS pixels.
    pub height: u32,
    /// Pixels of a picture for each CSS pixel.
    pub scale: f64,
    /// The scheme that the user prefers.
    pub is_dark: bool,
}

impl Browser {
    /// Starts Chromium with an empty page and a profile of its own below `folder`.
    ///
    /// # Errors
    /// It is not installed, or does not answer.
    pub fn start(folder: &Path) -> Result<Self> {
        require(&[(CHROMIUM, CHROMIUM)])?;
        let profile = folder.join("browser");
        fs::create_dir_all(&profile).with_context(|| format!("cannot create {}", profile.display()))?;
        let mut shell = background("sh");
        shell.args(["-c", PIPE, "sh", CHROMIUM]).args(SWITCHES);
        shell.arg(format!("--user-data-dir={}", profile.display()));
        let mut child = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {CHROMIUM}"))?;
        let commands = child.stdin.take().context("no pipe to the browser")?;
        let output = child.stdout.take().context("no pipe from the browser")?;
        let (sender, answers) = channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Some(message) = message.ok().and_then(|text| serde_json::from_slice(&text).ok()) else {
                    return;
                };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (last_id, session, complaints) = (0, None, Vec::new());
        let mut browser = Self { child, commands, answers, last_id, session, complaints, profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach)?["sessionId"].as_str().map(str::to_owned);
        browser.session = Some(session.context("the browser opened no page")?);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}))?;
        }
        Ok(browser)
    }

    /// Goes to `url` and waits until it is there, its scripts have run for the first time; what they make of it is for
    /// [`Self::until`] to say.
    ///
    /// # Errors
    /// Nobody answers there.
    pub fn open(&mut self, url: &str) -> Result<()> {
        let opened = self.call("Page.navigate", json!({ "url": url }))?;
        ensure!(opened.get("errorText").is_none(), "cannot open {url}: {}", opened["errorText"]);
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")
    }

    /// What an expression is worth on the page, as JSON.
    ///
    /// # Errors
    /// It throws.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked)?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            bail!("{expression}: {thrown}");
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true, as long as a stalled machine may take.
    ///
    /// # Errors
    /// It throws, or is not in time.
    pub fn until(&mut self, expression: &str) -> Result<()> {
        let end = now() + PATIENCE;
        while self.value(&format!("Boolean({expression})"))? != true {
            if now() >= end {
                let text = self.value("document.body.innerText")?;
                bail!("{expression} did not become true within {PATIENCE:?}; the page: {text}");
            }
            nap(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Shows the page like this from now on.
    ///
    /// # Errors
    /// The browser refuses.
    pub fn show_in(&mut self, view: View) -> Result<()> {
        let View { width, height, scale, is_dark } = view;
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", metrics)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }))?;
        Ok(())
    }

    /// A picture (PNG) of what is in view.
    ///
    /// # Errors
    /// The browser refuses.
    pub fn picture(&mut self) -> Result<Vec<u8>> {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        base64(picture["data"].as_str().unwrap_or_default()).context("the browser made no picture")
    }

    /// What the browser has complained of so far: scripts that threw, things that a policy forbids, requests that failed.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).context("the browser is gone")?;
        let end = now() + PATIENCE;
        loop {
            let mut message = match self.answers.recv_timeout(end.saturating_duration_since(now())) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => bail!("{method}: no answer within {PATIENCE:?}"),
                Err(RecvTimeoutError::Disconnected) => bail!("{method}: the browser has ended"),
            };
            if message["id"] == self.last_id {
                ensure!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return Ok(message["result"].take());
            }
            self.note(&message);
        }
    }

    /// Keeps what is a complaint.
    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => &params["exceptionDetails"],
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => &params["entry"]["text"],
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => &params["args"],
            _ => return,
        };
        self.complaints.push(complaint.to_string());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its helpers are in its group and go with it; nothing of the profile is worth an orderly end.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}

/// RFC 4648, the standard alphabet.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes).filter(|bytes| !bytes.is_empty())
}

/// Binary and Debian package.
const CHROMIUM: &str = "chromium-headless-shell";
/// Puts our ends of the pipes where the browser looks for them.
const PIPE: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;
const SWITCHES: [&str; 8] = [
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
];
/// A start from a cold disk on a busy machine takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (text, bytes) in [("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(base64("-_8="), None);
        assert_eq!(base64("+/8=").unwrap(), [0xfb, 0xff]);
    }

    #[test]
    fn a_page_is_opened_asked_and_drawn() {
        let folder = std::env::temp_dir().join(format!("browser-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut browser = Browser::start(&folder).unwrap();
        browser.show_in(View { width: 390, height: 844, scale: 1.0, is_dark: true }).unwrap();
        let head = "<meta name=viewport content=width=device-width><title>x</title>";
        browser.open(&format!("data:text/html,{head}<script>var y = 7; missing()</script>")).unwrap();
        browser.until("document.title == 'x'").unwrap();
        assert_eq!(browser.value("[y, innerWidth]").unwrap(), json!([7, 390]));
        assert_eq!(browser.value("matchMedia('(prefers-color-scheme: dark)').matches").unwrap(), true);
        assert!(browser.value("throw 1").is_err());
        assert!(
            browser.complaints().iter().any(|said| said.contains("missing")),
            "{:?}",
            browser.complaints()
        );
        assert!(browser.picture().unwrap().starts_with(b"\x89PNG"));
        drop(browser);
        assert!(!folder.join("browser").exists());
        fs::remove_dir(&folder).unwrap();
    }
}
