//! Changing a running instance: by its file, by one value, and back again after a time.
//!
//! All of a change is checked before anything is touched; what needs a restart is refused by name. Then
//! the line changes, or goes back, whole. Whatever happens is noted in the history.

use crate::api::desk::{Done, Refusal, Request, Setting, Why};
use crate::check::load;
use crate::events::{Event, Events, Kind};
use crate::observe::Instance;
use crate::plan::plan;
use crate::say::complain;
use crate::service::Notify;
use crate::signals::Signals;
use anyhow::{Context, Result, anyhow, bail};
use config::diff::{Difference, diff};
use config::model::{self, Config, Offload};
use config::schema::Change;
use engine::line::Line;
use engine::pool;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use toml::{Table, Value};

/// What runs, and what was changed.
#[derive(Debug)]
pub struct Live {
    file: PathBuf,
    /// What memory was allocated for.
    started: Config,
    current: Arc<Config>,
    secret: [u8; 16],
    events: Events,
    generation: u64,
    reverts: Vec<Revert>,
}

/// Values that are set back together.
#[derive(Debug)]
struct Revert {
    at: Instant,
    values: Vec<Held>,
}

/// A value that was set for a time.
#[derive(Debug)]
struct Held {
    path: Vec<String>,
    before: Option<Value>,
    set: Option<Value>,
}

/// What a change works on.
#[derive(Debug)]
pub struct Running<'a> {
    pub line: &'a mut Line,
    pub instance: &'a mut Instance,
    pub signals: &'a Signals,
    pub notify: &'a Notify,
}

impl Live {
    /// Runs by `config` of this file now.
    pub fn new(file: PathBuf, config: Config, secret: [u8; 16]) -> Self {
        let (started, current) = (config.clone(), Arc::new(config));
        let (events, reverts) = (Events::default(), Vec::new());
        Self { file, started, current, secret, events, generation: 0, reverts }
    }

    /// What runs now.
    pub fn config(&self) -> Arc<Config> {
        self.current.clone()
    }

    /// Which change that came with; 0 at the start.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What has happened.
    pub fn events(&self) -> Arc<VecDeque<Event>> {
        self.events.kept()
    }

    /// Notes something that nobody asked for.
    pub fn note(&mut self, kind: Kind, text: &str) {
        self.events.note(kind, self.generation, text);
    }

    /// Does what a client asks for.
    ///
    /// # Errors
    /// Why it was not done.
    pub fn carry_out(
        &mut self,
        running: &mut Running<'_>,
        request: &Request,
        who: &str,
    ) -> Result<Done, Refusal> {
        match request {
            Request::Reload { dry_run } => self.reload(running, &format!("{who}, reload"), *dry_run),
            Request::Set { settings, span, dry_run } => {
                self.set(running, settings, span.filter(|_| !dry_run), who, *dry_run)
            }
        }
    }

    /// Takes up the changed file.
    ///
    /// # Errors
    /// It is wrong, needs a restart, or the workers did not take it up.
    pub fn reload(&mut self, running: &mut Running<'_>, by: &str, dry_run: bool) -> Result<Done, Refusal> {
        let _reloading = (!dry_run).then(|| running.notify.reloading());
        let new = load(&self.file).map(|loaded| loaded.config);
        let done = self.change(running, new, by, dry_run)?;
        if !dry_run {
            // The file says what is to run from now on, also of values that were set for a time.
            self.reverts.clear();
        }
        Ok(done)
    }

    /// Changes some values, for a time if one is given.
    fn set(
        &mut self,
        running: &mut Running<'_>,
        settings: &[Setting],
        span: Option<Duration>,
        who: &str,
        dry_run: bool,
    ) -> Result<Done, Refusal> {
        let words: Vec<_> = settings.iter().map(Setting::to_string).collect();
        let by = format!("{who}, set {}", words.join(", "));
        let until = span.map(|span| now().checked_add(span).with_context(|| format!("{span:?}: too long")));
        let until = until.transpose().map_err(|error| Refusal::wrong(&error))?;
        let mut values = Vec::new();
        let settings: Vec<_> = settings.iter().flat_map(in_keys).collect();
        let new = self.with(&settings, &mut values);
        let mut done = self.change(running, new, &by, dry_run)?;
        if !dry_run {
            self.hold(values, until);
        }
        if let Some(span) = span {
            let _ = write!(done.text, "\nto be set back in {} s", span.as_secs());
        }
        Ok(done)
    }

    /// What runs, with these values in place of the present ones, which go to `values`.
    fn with(&self, settings: &[Setting], values: &mut Vec<Held>) -> Result<Config> {
        let mut tree = self.current.to_tree();
        for Setting { path, value } in settings {
            forget_other_discipline(&mut tree, &self.resolve(path)?, value.as_ref());
        }
        for Setting { path, value } in settings {
            let path = self.resolve(path)?;
            let before = replace(&mut tree, &path, value.clone());
            let before = before.with_context(|| format!("{}: there is no such key", self.shown(&path)))?;
            values.push(Held { path, before, set: None });
        }
        parsed(&tree)
    }

    /// Remembers to set `values` back at a time, if one is given. Those that are set again are set back to what was there
    /// before the first time.
    fn hold(&mut self, mut values: Vec<Held>, until: Option<Instant>) {
        let now_set = self.current.to_tree();
        for value in &mut values {
            // As it is printed: "0.5Gbit" is "500Mbit" then.
            value.set = find(&now_set, &value.path).cloned();
            for revert in &mut self.reverts {
                let first = revert.values.iter().position(|held| held.path == value.path);
                if let Some(first) = first.map(|at| revert.values.remove(at)) {
                    value.before = first.before;
                }
            }
        }
        self.reverts.retain(|revert| !revert.values.is_empty());
        self.reverts.extend(until.map(|at| Revert { at, values }));
    }

    /// Sets back what was set for a time that is over.
    pub fn tend(&mut self, running: &mut Running<'_>) {
        let now = now();
        while let Some(at) = self.reverts.iter().position(|revert| revert.at <= now) {
            let mut values = self.reverts.remove(at).values;
            let mut tree = self.current.to_tree();
            // What somebody has changed since stays: they know better.
            values.retain(|held| find(&tree, &held.path) == held.set.as_ref());
            if values.is_empty() {
                continue;
            }
            let shown: Vec<_> = values.iter().map(|held| self.shown(&held.path)).collect();
            let by = format!("set {} for a time: its time is over", shown.join(", "));
            let new = values
                .iter()
                .try_for_each(|held| replace(&mut tree, &held.path, held.before.clone()).map(drop))
                .and_then(|()| parsed(&tree));
            if let Err(refusal) = self.change(running, new, &by, false) {
                complain(&format!("weir: {by}: {refusal}"));
                // What a worker was too late for is not given up.
                if refusal.why == Why::Failed {
                    self.reverts.push(Revert { at: now + TRY_AGAIN, values });
                }
            }
        }
    }

    /// Changes to `new`, or says what that would change; what comes of it is noted.
    fn change(
        &mut self,
        running: &mut Running<'_>,
        new: Result<Config>,
        by: &str,
        dry_run: bool,
    ) -> Result<Done, Refusal> {
        let done = new
            .map_err(|error| Refusal::wrong(&error))
            .and_then(|new| self.change_to(running, new, by, dry_run));
        if let (Err(refusal), false) = (&done, dry_run) {
            self.events.refused(self.generation, by, &refusal.text);
        }
        done
    }

    fn change_to(
        &mut self,
        running: &mut Running<'_>,
        new: Config,
        by: &str,
        dry_run: bool,
    ) -> Result<Done, Refusal> {
        let differences = diff(&self.current, &new);
        self.possible(&differences, &new)?;
        let changes: Vec<_> = differences.iter().map(Difference::to_string).collect();
        let lines = |intro: String| changes.iter().fold(intro, |text, change| format!("{text}\n  {change}"));
        let text = if changes.is_empty() {
            format!("nothing differs from what runs (generation {})", self.generation)
        } else if dry_run {
            lines("this would change, without a restart:".to_owned())
        } else {
            self.apply(running, &new)
                .map_err(|error| Refusal { why: Why::Failed, text: format!("{error:#}") })?;
            self.current = Arc::new(new.clone());
            running.instance.follow(new);
            self.events.changed(self.generation, by, changes.clone());
            let lcores: Vec<_> =
                running.line.workers().iter().map(|worker| worker.lcore.to_string()).collect();
            lines(format!("generation {} (lcore {}):", self.generation, lcores.join(", ")))
        };
        Ok(Done { generation: self.generation, changes, text })
    }

    /// Refuses what needs a restart, by name.
    fn possible(&self, differences: &[Difference], new: &Config) -> Result<(), Refusal> {
        let refused: Vec<_> = differences
            .iter()
            .filter_map(|difference| {
                Some(format!("\n  {difference}{}", self.needs_restart(difference, new)?))
            })
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        let text = format!("this needs a restart, and nothing was changed:{}", refused.concat());
        Err(Refusal { why: Why::Restart, text })
    }

    /// Has the line change, and waits until all workers have.
    fn apply(&mut self, running: &mut Running<'_>, new: &Config) -> Result<()> {
        let generation = self.generation + 1;
        running.line.change(generation, plan(new, self.secret))?;
        for _ in 0..PATIENCE_MS {
            match running.line.changed() {
                Some(Ok(())) => {
                    self.generation = generation;
                    return Ok(());
                }
                Some(Err(error)) => return Err(anyhow!(error).context("all workers go back")),
                None => pause(running.signals),
            }
        }
        match running.line.give_up_change() {
            Some(error) => Err(anyhow!(error).context("all workers go back")),
            None => bail!("the change was not taken up in time"),
        }
    }

    /// Why this cannot be changed while weir runs.
    fn needs_restart(&self, difference: &Difference, new: &Config) -> Option<&'static str> {
        let links = || self.started.links.iter().zip(&new.links);
        let is_at = |link: &model::Link, way: &str, key: &str| {
            difference.path == format!("{}.{way}.{key}", link.name)
        };
        match difference.change {
            Change::Restart => Some(""),
            Change::Lower => {
                let is_raised =
                    |way: &str, was: &Option<model::Direction>, new: &Option<model::Direction>| {
                        let slots = |direction: &Option<model::Direction>| {
                            direction.as_ref().map_or(0, |direction| pool::slots(&direction.qdisc))
                        };
                        let key = difference.path.rsplit('.').next().unwrap_or_default();
                        links().any(|(link, _)| is_at(link, way, key)) && slots(new) > slots(was)
                    };
                links()
                    .any(|(was, new)| {
                        is_raised("up", &was.up, &new.up) || is_raised("down", &was.down, &new.down)
                    })
                    .then_some(" (more than memory was allocated for at start)")
            }
            Change::Live => {
                // The port that packets come in by.
                let lacks_memory = |link: &model::Link| {
                    is_at(link, "up", "gro") && link.a.lro == Offload::Off
                        || is_at(link, "down", "gro") && link.b.lro == Offload::Off
                };
                self.started
                    .links
                    .iter()
                    .any(lacks_memory)
                    .then_some(" (the port's lro is off, and so it has no memory for super-packets)")
            }
        }
    }

    /// A path as people write it, as one into the tree; the link may be left out while there is one.
    fn resolve(&self, path: &str) -> Result<Vec<String>> {
        let words: Vec<_> = path.split('.').collect();
        if words.iter().any(|word| word.is_empty()) {
            bail!("{path:?}: a key is missing: write for example down.bandwidth; `weir keys` lists all");
        }
        let links = &self.current.links;
        let (index, rest) = match (words.as_slice(), links.as_slice()) {
            ([table @ ("engine" | "eal" | "api"), rest @ ..], _) if !rest.is_empty() => {
                return Ok([*table].iter().chain(rest).map(|word| (*word).to_owned()).collect());
            }
            // A link's name may have dots.
            (_, links) => match links.iter().position(|link| path.starts_with(&format!("{}.", link.name))) {
                Some(index) => (index, path.get(links[index].name.len() + 1..).unwrap_or_default()),
                None if links.len() == 1 => (0, path),
                None => {
                    let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
                    bail!("{path}: begin with the name of a link: {}", names.join(", "))
                }
            },
        };
        let words = rest.split('.').map(str::to_owned);
        Ok(["link".to_owned(), index.to_string()].into_iter().chain(words).collect())
    }

    fn shown(&self, path: &[String]) -> String {
        match path {
            [link, index, rest @ ..] if link == "link" => {
                let name = index.parse().ok().and_then(|index: usize| self.current.links.get(index));
                format!("{}.{}", name.map_or("", |link| &link.name), rest.join("."))
            }
            path => path.join("."),
        }
    }
}

/// Nobody sees this text, so that no place in it is told.
fn parsed(tree: &Table) -> Result<Config> {
    Ok(config::parse("", &toml::to_string(tree)?)?.config)
}

/// A line of tc as the keys that it speaks for, each with its value or back to its default; so they are set back
/// one by one too. What cannot be read stays as it is, and what is wrong with it is told as of a file.
fn in_keys(setting: &Setting) -> Vec<Setting> {
    let line = match (setting.path.rsplit_once('.'), &setting.value) {
        (Some((way, TC)), Some(Value::String(line))) => {
            config::tc::settings(line).ok().map(|keys| (way, keys))
        }
        _ => None,
    };
    let Some((way, keys)) = line else { return vec![setting.clone()] };
    let setting = |(key, value)| Setting { path: format!("{way}.{key}"), value };
    keys.into_iter().map(setting).collect()
}

/// Another qdisc has other keys: those of the present one, which are written out with their defaults, would each be
/// a mistake beside the new one, when what there is to say is that it needs a restart; or beside a line of tc, when
/// it is that which cannot be read.
fn forget_other_discipline(tree: &mut Table, path: &[String], value: Option<&Value>) {
    let [link, index, way, key] = path else { return };
    if ![QDISC, TC].contains(&key.as_str()) || value.is_none() || find(tree, path) == value {
        return;
    }
    let links = tree.get_mut(link).and_then(Value::as_array_mut);
    let link = links.zip(index.parse::<usize>().ok()).and_then(|(links, index)| links.get_mut(index));
    if let Some(direction) = link.and_then(|link| link.get_mut(way)).and_then(Value::as_table_mut) {
        direction.clear();
    }
}

fn find<'a>(tree: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(tree.get(first)?, |value, word| match value {
        Value::Array(items) => items.get(word.parse::<usize>().ok()?),
        value => value.get(word),
    })
}

/// Puts `value` at `path`, or removes what is there; gives back what was.
fn replace(tree: &mut Table, path: &[String], value: Option<Value>) -> Result<Option<Value>> {
    let Some((key, way)) = path.split_last() else { bail!("give the name of a key") };
    let mut at = &mut *tree;
    let mut way = way.iter();
    while let Some(word) = way.next() {
        let below = match at.get_mut(word) {
            Some(Value::Array(items)) => {
                let index = way.next().and_then(|index| index.parse::<usize>().ok());
                index.and_then(|index| items.get_mut(index))
            }
            below => below,
        };
        match below {
            Some(Value::Table(table)) => at = table,
            _ => bail!("{word} is no table; `weir keys` lists all keys"),
        }
    }
    Ok(match value {
        Some(value) => at.insert(key.clone(), value),
        None => at.remove(key),
    })
}

/// A millisecond, also when asked to stop meanwhile: the change is finished first.
fn pause(signals: &Signals) {
    if signals.wait(Duration::from_millis(1)) {
        #[allow(clippy::disallowed_methods, reason = "control waits for workers")]
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[allow(clippy::disallowed_methods, reason = "an operator's time, no packet's")]
fn now() -> Instant {
    Instant::now()
}

/// The key that decides which others there are.
const QDISC: &str = "qdisc";

/// The key that stands for a discipline and its keys.
const TC: &str = "tc";

/// After what time values are set back that could not be.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// How long workers may take: packets by the hundred thousand move in some milliseconds, and a worker may be
/// descheduled for as long as the kernel likes.
const PATIENCE_MS: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "[[link]]\nname = \"home.lan\"\na = \"net_null0\"\nb = \"net_null1\"\n";

    fn live(text: &str) -> Live {
        Live::new(PathBuf::from("test.toml"), config(text), [0; 16])
    }

    fn config(text: &str) -> Config {
        config::parse("test.toml", text).unwrap().config
    }

    /// What `weir set` would make of the configuration.
    fn set(live: &Live, path: &str, value: impl Into<Value>) -> Result<Vec<String>> {
        let setting = Setting { path: path.to_owned(), value: Some(value.into()) };
        let new = live.with(&in_keys(&setting), &mut Vec::new())?;
        Ok(diff(&live.current, &new).iter().map(Difference::to_string).collect())
    }

    #[test]
    fn a_value_is_set_with_or_without_its_link() {
        let live = live(HOME);
        let rate = ["home.lan.down.bandwidth: \"unlimited\" -> \"500Mbit\""];
        assert_eq!(set(&live, "down.bandwidth", "500Mbit").unwrap(), rate);
        assert_eq!(set(&live, "home.lan.down.bandwidth", "0.5Gbit").unwrap(), rate);
        assert_eq!(set(&live, "down.ecn", false).unwrap(), ["home.lan.down.ecn: true -> false"]);
        assert_eq!(set(&live, "engine.poll", "busy").unwrap(), ["engine.poll: \"adaptive\" -> \"busy\""]);
        let hold = ["home.lan.link-down-hold: \"100ms\" -> \"2s\""];
        assert_eq!(set(&live, "link-down-hold", "2s").unwrap(), hold);
    }

    #[test]
    fn what_is_wrong_is_told_as_of_a_file() {
        let live = live(HOME);
        for (path, value, said) in [
            ("down.bandwith", "5Mbit", "bandwidth"),
            ("down.bandwidth", "5", "the unit is missing"),
            ("down.bandwidth", "1bit", "64Kbit"),
            ("sideways.bandwidth", "5Mbit", "no table"),
            ("down.rtt", "5ms", "qdisc"),
            ("down.target.more", "5ms", "no table"),
            ("sideways.bandwidth", "5Mbit", "home.lan.sideways.bandwidth: there is no such key"),
            ("down.", "5Mbit", "a key is missing"),
            ("..", "5Mbit", "a key is missing"),
        ] {
            let error = format!("{:#}", set(&live, path, value).unwrap_err());
            assert!(error.contains(said), "{path} {value}: {error}");
            assert!(!error.contains(":1:") && !error.starts_with(':'), "a place in no file: {error}");
        }
        let two = HOME.replace("home.lan", "work").replace("null0", "null2").replace("null1", "null3");
        let error = set(&self::live(&format!("{HOME}{two}")), "down.bandwidth", "5Mbit").unwrap_err();
        assert!(error.to_string().contains("home.lan, work"), "{error}");
    }

    #[test]
    fn a_line_of_tc_is_set_key_by_key_and_says_what_is_wrong_with_it() {
        let cake = format!("{HOME}down = {{ tc = \"cake bandwidth 95Mbit diffserv4 wash\" }}\n");
        let live = live(&cake);
        let changed = [
            "home.lan.down.bandwidth: \"95Mbit\" -> \"80Mbit\"",
            "home.lan.down.diffserv: \"diffserv4\" -> \"diffserv3\"",
            "home.lan.down.wash: true -> false",
            "home.lan.down.overhead: \"raw\" -> 18",
        ];
        let mut said = set(&live, "down.tc", "cake bandwidth 80Mbit overhead 18").unwrap();
        said.sort();
        let mut changed = changed.map(str::to_owned).to_vec();
        changed.sort();
        assert_eq!(said, changed);
        let other = set(&live, "down.tc", "fq_codel limit 100").unwrap();
        assert_eq!(other, ["home.lan.down.qdisc: \"cake\" -> \"fq_codel\""]);
        for (line, told) in [
            ("cake bandwith 5Mbit", "did you mean \"bandwidth\"?"),
            ("cake bandwidth", "its value is missing"),
            ("cake bandwidth 5xbit", "a rate from \"64Kbit\" to \"400Gbit\""),
            ("cake bandwidth 1bit", "a rate from \"64Kbit\" to \"400Gbit\""),
            ("cake mpu 9999", "from 0 to 256"),
            ("tbf rate 5Mbit", "does not begin with one of cake, fq_codel, pfifo, fifo"),
            ("", "does not begin with one of"),
            ("cake nat", "connection tracking"),
        ] {
            let error = format!("{:#}", set(&live, "home.lan.down.tc", line).unwrap_err());
            let whole = ["down", "accepted: ", "help: ", told].iter().all(|part| error.contains(part));
            assert!(whole && !error.contains("already"), "{line}: {error}");
        }
        let number = format!("{:#}", set(&live, "down.tc", 5).unwrap_err());
        assert!(number.contains("tc = 5") && !number.contains("already"), "{number}");
    }

    #[test]
    fn another_discipline_is_one_difference_and_needs_a_restart() {
        let live = live(HOME);
        let other = ["home.lan.down.qdisc: \"fq_codel\" -> \"cake\""];
        assert_eq!(set(&live, "down.qdisc", "cake").unwrap(), other);
        assert_eq!(refused(&live, &format!("{HOME}down = {{ qdisc = \"cake\" }}\n")), other);
        assert_eq!(set(&live, "down.qdisc", "fq_codel").unwrap(), [""; 0], "nothing else is forgotten");
        let error = format!("{:#}", set(&live, "down.qdisc", "cakke").unwrap_err());
        assert!(error.contains("cakke") && !error.contains("catch-up"), "{error}");
    }

    /// Each difference of `new` that needs a restart, with the reason.
    fn refused(live: &Live, new: &str) -> Vec<String> {
        let new = config(new);
        let refused = |found: &Difference| Some(format!("{found}{}", live.needs_restart(found, &new)?));
        diff(&live.current, &new).iter().filter_map(refused).collect()
    }

    #[test]
    fn limits_may_fall_and_rise_again_to_what_they_were() {
        let with = |limit: u32| format!("{HOME}down = {{ limit = {limit} }}\n");
        let mut live = live(&with(1_000));
        assert_eq!(refused(&live, &with(500)), [""; 0]);
        live.current = Arc::new(config(&with(500)));
        assert_eq!(refused(&live, &with(1_000)), [""; 0]);
        let [said] = refused(&live, &with(1_001)).try_into().unwrap();
        assert!(said.starts_with("home.lan.down.limit: 500 -> 1001 (more than memory"), "{said}");
    }

    #[test]
    fn merging_needs_memory_that_a_port_without_lro_has_not() {
        let port =
            |lro| HOME.replace("\"net_null0\"", &format!("{{ device = \"net_null0\", lro = \"{lro}\" }}"));
        let merging = |lro| format!("{}up = {{ gro = true }}\n", port(lro));
        assert_eq!(refused(&live(&port("auto")), &merging("auto")), [""; 0]);
        assert_eq!(refused(&live(&port("off")), &merging("off")).len(), 1);
    }
}
