//! What a running weir shows over HTTP: the web page as people see it, in headless Chromium, and what Prometheus reads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod instance;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hwtests::browser::{Browser, View};
use hwtests::clock::Interrupt;
use hwtests::process::{Process, Signal, command, run};
use instance::{Weir, weir_binary};
use serde_json::{Value, json};

#[test]
fn it_shows_what_the_daemon_counts_and_follows_it() {
    let bed = Bed::new("numbers");
    let mut weir = bed.weir();
    let mut browser = bed.browser();
    browser.until("views.get('x/up')?.points.length >= 2").unwrap();
    for _ in 0..2 {
        // What stands on the page was counted between two other looks.
        let before = weir.show();
        for what in COUNTERS {
            let least = counter(&before, what);
            browser.until(&format!("{} > {least}", shown(what))).unwrap();
        }
        let seen = COUNTERS.map(|what| browser.value(&shown(what)).unwrap().as_u64().unwrap());
        let after = weir.show();
        for (what, seen) in COUNTERS.into_iter().zip(seen) {
            assert!(seen <= counter(&after, what), "{what}: {seen} on the page, {after:#}");
        }
    }
    // Figures are those of the points, and they are possible: 20 Mbit/s were set.
    browser.until("views.get('x/up').points.at(-1).rate > 0").unwrap();
    let figures = browser.value(FIGURES).unwrap();
    assert!(figures[0].as_f64().unwrap() < 40e6, "{figures}");
    assert_eq!(figures[1], figures[2]);
    browser.until("views.get('x/up').points.some((p) => p.waits.get(null)?.p99 > 0)").unwrap();
    let tins: Vec<_> = weir.show()["links"][0]["directions"][0]["tins"].as_array().unwrap().clone();
    for tin in tins {
        let name = tin["name"].as_str().unwrap();
        let row = format!(
            "[...document.querySelectorAll('[data-direction=up] tbody th')].filter((th) => th.textContent === {name:?}).length"
        );
        assert_eq!(browser.value(&row).unwrap(), 1, "{name}");
    }
    assert_eq!(browser.complaints(), [""; 0], "a policy was broken, or a script threw");

    browser.value("poll(), 0").unwrap();
    weir.end(Signal::TERM);
    browser
        .until("byId('state').className === 'lost' && byId('state').textContent.includes('no answer since')")
        .unwrap();
    weir = bed.weir();
    browser.until("byId('state').className === 'live'").unwrap();
    let pid = weir.show()["pid"].clone();
    browser
        .until(&format!("before.stats.pid === {pid} && views.get('x/up').points.at(-1).rate > 0"))
        .unwrap();
    weir.end(Signal::TERM);
}

#[test]
fn it_fits_a_phone_and_both_schemes_and_can_be_read_aloud() {
    let bed = Bed::new("looks");
    let weir = bed.weir();
    let mut browser = bed.browser();
    browser.until("views.get('x/up')?.points.length >= 2").unwrap();
    let mut backs = Vec::new();
    for (width, height) in [(390, 844), (320, 600), (1280, 900)] {
        for is_dark in [false, true] {
            browser.show_in(View { width, height, scale: 1.0, is_dark }).unwrap();
            browser.until(&format!("innerWidth === {width} && (drawAll(), true)")).unwrap();
            let wide = browser.value(TOO_WIDE).unwrap();
            assert_eq!(wide, json!([]), "at {width}x{height}");
            let faint = browser.value(FAINT).unwrap();
            assert_eq!(faint, json!([]), "too little contrast, dark: {is_dark}");
            backs.push(browser.value("getComputedStyle(document.body).backgroundColor").unwrap());
        }
    }
    assert_ne!(backs[0], backs[1], "light and dark differ");
    assert_eq!(browser.value(UNSPOKEN).unwrap(), json!([]));
    assert_eq!(browser.complaints(), [""; 0]);
    weir.end(Signal::TERM);
}

#[test]
fn it_asks_for_a_token_keeps_it_for_the_tab_and_rests_while_hidden() {
    let bed = Bed::new("token");
    let weir = bed.weir();
    let mut browser = bed.browser();
    browser.until("before !== null").unwrap();
    // As another machine would be asked; whether a token is right, weir says.
    browser
        .value(
            "clearTimeout(timer), window.asked = [], window.real = fetch, fetch = async (path, options) => {
                asked.push(options.headers.Authorization ?? null);
                return asked.at(-1) ? real(path, options) : new Response('{}', { status: 401 });
            }, poll()",
        )
        .unwrap();
    browser.until("!byId('ask').hidden && document.activeElement.id === 'token'").unwrap();
    for (token, state) in [("another-token-of-weir", "'lost'"), (TOKEN, "'live'")] {
        browser.value(&format!("byId('token').value = {token:?}, byId('ask').requestSubmit()")).unwrap();
        browser
            .until(&format!("asked.includes('Bearer {token}') && byId('state').className === {state}"))
            .unwrap();
    }
    assert_eq!(browser.value("[byId('ask').hidden, byId('token').value]").unwrap(), json!([true, ""]));
    assert_eq!(
        browser.value("[sessionStorage['weir-token'], localStorage.length]").unwrap(),
        json!([TOKEN, 0])
    );
    // A hidden tab asks nothing, and asks at once when it is looked at again.
    let hide = |hidden| {
        format!(
            "Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }}), \
             asked.length = 0, document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    browser.value(&hide(true)).unwrap();
    assert_eq!(browser.value("poll().then(() => asked.length)").unwrap(), 0);
    browser.value(&hide(false)).unwrap();
    browser.until("asked.length > 0").unwrap();
    weir.end(Signal::TERM);
}

#[test]
fn prometheus_reads_what_the_daemon_counts() {
    let bed = Bed::new("metrics");
    let weir = bed.weir();
    let mut browser = bed.browser();
    browser.until("views.get('x/up')?.points.length >= 1").unwrap();
    let before = weir.show();
    let (head, text) = bed.get("/metrics");
    let after = weir.show();
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let sample = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse::<f64>().unwrap() as u64
    };
    let sent = sample("weir_sent_packets_total{link=\"x\",direction=\"up\"}");
    let (least, most) = (counter(&before, "sent-packets"), counter(&after, "sent-packets"));
    assert!((least..=most).contains(&sent), "{sent} of {least} to {most}");
    // net_null's frames are no IP, and none of them is in two tins.
    let waited = |tin: &str| {
        sample(&format!("weir_sojourn_seconds_count{{link=\"x\",direction=\"up\",tin=\"{tin}\"}}"))
    };
    let waited: u64 = ["Bulk", "Best Effort", "Video", "Voice"].into_iter().map(waited).sum();
    assert!((least..=most).contains(&waited), "{waited} of {least} to {most}");
    let file = bed.folder.join("metrics.txt");
    fs::write(&file, &text).unwrap();
    run(Command::new("sh").args(["-c", "promtool check metrics <\"$0\"", file.to_str().unwrap()])).unwrap();
    let (head, page) = bed.get("/");
    assert!(
        head.contains("content-security-policy: default-src 'none'") && page.starts_with("<!doctype html>"),
        "{head}"
    );
    weir.end(Signal::TERM);
}

/// Percentiles are computed on the page, from counts: once more by hand.
#[test]
fn its_percentiles_are_those_of_what_came_in_between() {
    let bed = Bed::new("sums");
    let weir = bed.weir();
    let mut browser = bed.browser();
    browser.until("before !== null").unwrap();
    let now = "[[1000, 60], [2000, 548], [9000, 10], [70000, 1]]";
    let then = "[[1000, 10], [2000, 100]]";
    let found = browser.value(&format!("quantiles(difference({now}, {then}))")).unwrap();
    // 50 of 1 us, 448 of 2 us, 10 of 9 us, 1 of 70 us: 509.
    assert_eq!(found, json!({ "p50": 2, "p99": 9, "p999": 70 }));
    assert_eq!(browser.value(&format!("quantiles(difference({now}, {now}))")).unwrap(), Value::Null);
    assert_eq!(
        browser.value("sum([[[1, 2], [5, 1]], [[3, 4], [5, 2]]])").unwrap(),
        json!([[1, 2], [3, 4], [5, 3]])
    );
    weir.end(Signal::TERM);
}

/// A folder, a name and a port of one test.
struct Bed {
    name: String,
    folder: PathBuf,
    port: u16,
    interrupt: Interrupt,
}

impl Bed {
    fn new(test: &str) -> Self {
        let name = format!("page-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(format!("weir-{name}"));
        fs::create_dir_all(&folder).unwrap();
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(folder.join("token")).unwrap();
        file.write_all(TOKEN.as_bytes()).unwrap();
        // Free now; nothing else on this machine takes ports at random but for outgoing connections.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { name, folder, port, interrupt: Interrupt::install().unwrap() }
    }

    fn weir(&self) -> Weir {
        let file = self.folder.join("weir.toml");
        let config = CONFIG.replace("PORT", &self.port.to_string());
        fs::write(&file, config.replace("FOLDER", &self.folder.display().to_string())).unwrap();
        let mut start = command(weir_binary());
        start.arg("run").arg(&file).args(["--name", &self.name]);
        let mut process = Process::spawn("weir", &mut start, None).unwrap();
        process.wait_for("ready", Duration::from_secs(30), &self.interrupt).unwrap();
        Weir { name: self.name.clone(), process }
    }

    /// Head and body of an answer.
    fn get(&self, path: &str) -> (String, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
        (head.to_ascii_lowercase(), body.to_owned())
    }

    fn browser(&self) -> Browser {
        let mut browser = Browser::start(&self.folder).unwrap();
        browser.open(&format!("http://127.0.0.1:{}/", self.port)).unwrap();
        browser
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn counter(show: &Value, what: &str) -> u64 {
    let (thing, unit) = what.rsplit_once('-').unwrap();
    show["links"][0]["directions"][0][thing][unit].as_u64().unwrap()
}

/// The same on the page.
fn shown(what: &str) -> String {
    format!("+document.querySelector('[data-link=x][data-direction=up] [data-is={what}]').value")
}

/// Rise as long as net_null hands out packets, which it always does, and more of them than are let through.
const COUNTERS: [&str; 3] = ["sent-bytes", "sent-packets", "dropped-packets"];

const TOKEN: &str = "the-right-token-of-weir";

const CONFIG: &str = r#"
[api]
listen = "127.0.0.1:PORT"
token-file = "FOLDER/token"

[[link]]
name = "x"
a = "net_null0"
b = "net_null1,no-rx=1"
up = { qdisc = "cake", diffserv = "diffserv4", bandwidth = "20Mbit" }
down = { bandwidth = "50Mbit" }
"#;

/// The rate of the last point, what that should look like, and what stands on the page.
const FIGURES: &str = r#"
(() => {
  const rate = views.get("x/up").points.at(-1).rate;
  return [rate, bits(rate), document.querySelector("[data-direction=up] [data-is=rate]").textContent];
})()
"#;

/// Everything visible that reaches beyond the window.
const TOO_WIDE: &str = r#"
[...document.querySelectorAll("body *")].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.width && box.height && (box.right > innerWidth + 0.5 || box.left < -0.5) && getComputedStyle(e).clipPath === "none"
    && !e.closest("thead");
}).map((e) => `${e.tagName} ${e.className.baseVal ?? e.className} ${e.getBoundingClientRect().right}`)
  .concat(document.documentElement.scrollWidth > innerWidth ? ["the document scrolls"] : [])
"#;

/// Texts whose contrast with what lies behind them is below 4.5 (WCAG 2.1, AA).
const FAINT: &str = r#"
(() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const back = getComputedStyle(e).backgroundColor;
      if (parts(back)[3] !== 0) return back;
    }
  };
  const own = (e) => [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.querySelectorAll("body *")].filter((e) => own(e) && e.getClientRects().length).map((e) => {
    const style = getComputedStyle(e), text = light(e.closest("svg") ? style.fill : style.color), back = light(behind(e));
    return [e.textContent.slice(0, 40), (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05)];
  }).filter(([, contrast]) => contrast < 4.5);
})()
"#;

/// What a screen reader could not name.
const UNSPOKEN: &str = r#"
[...document.querySelectorAll("svg.plot:not([hidden])")].filter((e) => !/\d/.test(e.getAttribute("aria-label")))
  .concat([...document.querySelectorAll("input, select")].filter((e) => !e.labels.length))
  .concat([...document.querySelectorAll("table")].filter((e) => !e.caption || !e.querySelector("tbody th[scope=row]")))
  .concat(document.documentElement.lang ? [] : [document.documentElement])
  .map((e) => e.outerHTML.slice(0, 200))
"#;
