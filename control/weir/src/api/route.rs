//! Which path is answered by what.

use super::desk::{Bell, Peer, Request, Setting, Snapshot};
use super::fault::Fault;
use super::parameters::{Parameters, asked};
use crate::ask::seconds;
use crate::events::Event;
use crate::observe;
use crate::page;
use crate::report::{PortReport, TxQueueReport, WorkerReport};
use crate::telemetry::delays::{ALL_TINS, Filter, Kind, Times, Window};
use crate::telemetry::{formats, metrics};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, patch, post};
use axum::{Extension, Router};
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{StatusCode, Uri};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use toml::Value;

/// Every path with what answers it. `openapi.json` has all of them.
fn routes() -> Vec<(&'static str, MethodRouter<Bell>)> {
    vec![
        ("/", get(page)),
        ("/healthz", get(healthz)),
        ("/metrics", get(prometheus)),
        ("/openapi.json", get(openapi)),
        ("/v1/config", get(config).merge(patch(change))),
        ("/v1/events", get(events)),
        ("/v1/flows", get(flows)),
        ("/v1/governor", get(governor)),
        ("/v1/histograms", get(histograms)),
        ("/v1/lcores", get(lcores)),
        ("/v1/ports", get(ports)),
        ("/v1/reload", post(reload)),
        ("/v1/stats", get(stats)),
    ]
}

/// All of them, for those that `bell` rings for.
pub fn router(bell: Bell) -> Router {
    let add = |router: Router<Bell>, (path, methods)| router.route(path, methods);
    routes()
        .into_iter()
        .fold(Router::new(), add)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .with_state(bell)
}

/// What is known now, for a handler's arguments.
pub async fn snapshot(bell: &Bell) -> Result<Arc<Snapshot>, Fault> {
    Ok(bell.snapshot().await?)
}

/// A document, indented: people read it as often as programs do.
///
/// # Errors
/// It cannot be written, which is a fault of weir.
pub fn json(document: &impl Serialize) -> Result<Response, Fault> {
    written(serde_json::to_vec_pretty(document))
}

fn written(document: serde_json::Result<Vec<u8>>) -> Result<Response, Fault> {
    let mut text =
        document.map_err(|error| Fault::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    text.push(b'\n');
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

/// What may be asked, in the words of OpenAPI 3.1.
async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn stats(State(bell): State<Bell>) -> Result<Response, Fault> {
    json(snapshot(&bell).await?.report())
}

/// Which histograms, and how they are written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HistogramOptions {
    window: Window,
    format: Option<String>,
    link: Option<String>,
    direction: Option<Direction>,
    tin: Option<String>,
    kind: Option<Kind>,
}

/// Which way packets go.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Up,
    Down,
}

impl Parameters for HistogramOptions {
    const TAKES: &[(&str, &str)] = &[
        ("window", "cumulative or interval"),
        ("format", "json, csv, hgrm or log"),
        ("link", "the name of a link"),
        ("direction", "up or down"),
        ("tin", "the name of a tin, or all"),
        ("kind", "sojourn, residence or total"),
    ];
}

async fn histograms(State(bell): State<Bell>, uri: Uri) -> Result<Response, Fault> {
    let HistogramOptions { window, format, link, direction, tin, kind } = asked(&uri)?;
    let snapshot = snapshot(&bell).await?;
    let direction = direction.map(|direction| match direction {
        Direction::Up => "up".to_owned(),
        Direction::Down => "down".to_owned(),
    });
    let filter = Filter { link, direction, tin, kind };
    known(&snapshot.times, &filter)?;
    let delays = match window {
        Window::Cumulative => snapshot.delays(&filter),
        Window::Interval => snapshot.recent.filtered(&filter),
    };
    let text = match format.as_deref() {
        // Indented, each of thousands of buckets would take four lines.
        None | Some("json") => return written(serde_json::to_vec(&delays)),
        Some("csv") => formats::csv(&delays, true),
        Some("hgrm") => formats::hgrm(&delays).map_err(|error| Fault::bad(format!("{error:#}")))?,
        Some("log") => {
            let lines = formats::log_lines(&delays, delays.start);
            let fault = |error| Fault::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}"));
            formats::log_head(delays.start) + &lines.map_err(fault)?
        }
        Some(other) => {
            return Err(Fault::bad(format!("format is json, csv, hgrm or log, not {:?}", clipped(other))));
        }
    };
    let kind = if format.as_deref() == Some("csv") { "text/csv" } else { "text/plain; charset=utf-8" };
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

/// Refuses a link and a tin that no histogram is of, with those that there are.
fn known(times: &[Times], filter: &Filter) -> Result<(), Fault> {
    if times.is_empty() {
        return Ok(());
    }
    let links: BTreeSet<_> = times.iter().map(|times| times.link.as_str()).collect();
    let named = times.iter().flat_map(|times| &times.tins).map(|(name, _)| *name);
    let tins: BTreeSet<_> = std::iter::once(ALL_TINS).chain(named).collect();
    for (what, wanted, there) in [("link", &filter.link, links), ("tin", &filter.tin, tins)] {
        let Some(wanted) = wanted.as_deref().filter(|wanted| !there.contains(wanted)) else { continue };
        let there: Vec<_> = there.into_iter().collect();
        let text = format!("there is no {what} {:?}; there are {}", clipped(wanted), there.join(", "));
        return Err(Fault::new(StatusCode::NOT_FOUND, text));
    }
    Ok(())
}

/// Alive is who still answers, and whose workers have sent their statistics or were waited for.
async fn healthz(State(bell): State<Bell>) -> Result<Response, Fault> {
    snapshot(&bell).await?;
    Ok("ok\n".into_response())
}

/// For browsers.
async fn page() -> Response {
    (page::HEADERS, page::HTML).into_response()
}

/// For Prometheus.
async fn prometheus(State(bell): State<Bell>) -> Result<Response, Fault> {
    let snapshot = snapshot(&bell).await?;
    let delays: Vec<_> = snapshot.times.iter().flat_map(Times::by_tin).collect();
    let text = metrics::text(&snapshot.counts, &delays);
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

#[derive(Serialize)]
struct Ports<'a> {
    at: f64,
    ports: Vec<Port<'a>>,
}

#[derive(Serialize)]
struct Port<'a> {
    link: &'a str,
    side: &'static str,
    port: &'a PortReport,
}

async fn ports(State(bell): State<Bell>) -> Result<Response, Fault> {
    let snapshot = snapshot(&bell).await?;
    let sides = snapshot.report().links.iter().flat_map(|link| {
        [("a", &link.a), ("b", &link.b)].map(|(side, port)| Port { link: &link.name, side, port })
    });
    json(&Ports { at: snapshot.at, ports: sides.collect() })
}

#[derive(Serialize)]
struct Lcores<'a> {
    at: f64,
    lcores: &'a [WorkerReport],
}

async fn lcores(State(bell): State<Bell>) -> Result<Response, Fault> {
    let snapshot = snapshot(&bell).await?;
    json(&Lcores { at: snapshot.at, lcores: &snapshot.counts.workers })
}

/// Who sent most of late.
async fn flows(State(bell): State<Bell>) -> Result<Response, Fault> {
    let snapshot = snapshot(&bell).await?;
    json(&observe::flows::flows(snapshot.at, &snapshot.talking))
}

#[derive(Serialize)]
struct Governors<'a> {
    at: f64,
    governors: Vec<Governor<'a>>,
}

/// What is known of the transmit ring that a direction ends in.
#[derive(Serialize)]
struct Governor<'a> {
    link: &'a str,
    direction: &'static str,
    port: &'a str,
    tx_queue: &'a TxQueueReport,
}

async fn governor(State(bell): State<Bell>) -> Result<Response, Fault> {
    let snapshot = snapshot(&bell).await?;
    let links = &snapshot.report().links;
    let ways = links.iter().flat_map(|link| [(link, "up", &link.b), (link, "down", &link.a)]);
    let governors = ways.flat_map(|(link, direction, port)| {
        let of = move |tx_queue| Governor { link: &link.name, direction, port: &port.device, tx_queue };
        port.tx_queues.iter().map(of)
    });
    json(&Governors { at: snapshot.at, governors: governors.collect() })
}

#[derive(Serialize)]
struct Running<'a> {
    generation: u64,
    file: &'a str,
    config: toml::Table,
}

async fn config(State(bell): State<Bell>) -> Result<Response, Fault> {
    let snapshot = snapshot(&bell).await?;
    let Snapshot { generation, counts, config, .. } = &*snapshot;
    json(&Running { generation: *generation, file: &counts.config, config: config.to_tree() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    /// Only what came after the event of this number.
    #[serde(default)]
    after: u64,
}

impl Parameters for Since {
    const TAKES: &[(&str, &str)] = &[("after", "the number of an event, from 0")];
}

/// What has happened.
#[derive(Serialize, Deserialize)]
pub struct Events {
    /// Oldest first.
    pub events: Vec<Event>,
}

async fn events(State(bell): State<Bell>, uri: Uri) -> Result<Response, Fault> {
    let Since { after } = asked(&uri)?;
    let snapshot = snapshot(&bell).await?;
    json(&Events { events: snapshot.events.iter().filter(|event| event.id > after).cloned().collect() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ReloadOptions {
    #[serde(default)]
    dry_run: bool,
}

impl Parameters for ReloadOptions {
    const TAKES: &[(&str, &str)] = &[("dry-run", "true or false")];
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ChangeOptions {
    #[serde(default)]
    dry_run: bool,
    r#for: Option<String>,
}

impl Parameters for ChangeOptions {
    const TAKES: &[(&str, &str)] = &[("dry-run", "true or false"), ("for", "a time from 1s to 720h")];
}

/// What came of a change.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Changed {
    /// What runs now.
    pub generation: u64,
    /// Whether it was only told.
    pub dry_run: bool,
    /// Each key with its old and new value.
    pub changes: Vec<String>,
    /// The same for people.
    pub text: String,
}

async fn reload(
    State(bell): State<Bell>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
) -> Result<Response, Fault> {
    let ReloadOptions { dry_run } = asked(&uri)?;
    carry_out(&bell, Request::Reload { dry_run }, dry_run, &peer).await
}

async fn change(
    State(bell): State<Bell>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Fault> {
    let ChangeOptions { dry_run, r#for } = asked(&uri)?;
    let span = r#for.map(|text| seconds(&text)).transpose();
    let span = span.map_err(|error| Fault::bad(format!("for: {error}")))?;
    let settings = settings(&headers, &whole(body).await?)?;
    let request = Request::Set { settings, span: span.map(Duration::from_secs), dry_run };
    carry_out(&bell, request, dry_run, &peer).await
}

async fn carry_out(bell: &Bell, request: Request, dry_run: bool, peer: &Peer) -> Result<Response, Fault> {
    let done = bell.carry_out(request, peer).await??;
    json(&Changed { generation: done.generation, dry_run, changes: done.changes, text: done.text })
}

/// All of a body, unless it is too long; one that says so beforehand is not waited for.
async fn whole(body: Body) -> Result<Bytes, Fault> {
    let too_long = || Fault::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {BODY} bytes"));
    if body.size_hint().lower() > BODY as u64 {
        return Err(too_long());
    }
    let limited = Limited::new(body, BODY).collect().await;
    limited.map(Collected::to_bytes).map_err(|error| match error.is::<LengthLimitError>() {
        true => too_long(),
        false => Fault::bad(format!("the body ended early: {error}")),
    })
}

/// The values of a JSON object, whose keys are paths or tables of such.
fn settings(headers: &HeaderMap, body: &[u8]) -> Result<Vec<Setting>, Fault> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !["application/json", "application/merge-patch+json"].contains(&kind) {
        return Err(Fault::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("a change is application/json, not {kind:?}: send that as its Content-Type"),
        ));
    }
    let object: serde_json::Map<_, _> = serde_json::from_slice(body).map_err(|error| {
        Fault::bad(format!(
            "not a JSON object of values, such as {{\"down.bandwidth\": \"80Mbit\"}}: {error}"
        ))
    })?;
    let mut settings = Vec::new();
    flatten("", object, &mut settings)?;
    if settings.is_empty() {
        return Err(Fault::bad("there is nothing to change: give a key and its value"));
    }
    Ok(settings)
}

fn flatten(
    path: &str,
    object: serde_json::Map<String, serde_json::Value>,
    settings: &mut Vec<Setting>,
) -> Result<(), Fault> {
    for (key, value) in object {
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        let value = match value {
            serde_json::Value::Object(below) if below.is_empty() => {
                return Err(Fault::bad(format!(
                    "{path} = {{}} changes nothing: give a value, a table with keys, or null for the default"
                )));
            }
            serde_json::Value::Object(below) => {
                flatten(&path, below, settings)?;
                continue;
            }
            serde_json::Value::Null => None,
            value => Some(
                Value::try_from(value)
                    .map_err(|error| Fault::bad(format!("{path}: TOML has no such value: {error}")))?,
            ),
        };
        settings.push(Setting { path, value });
    }
    Ok(())
}

async fn no_such_path(uri: Uri) -> Fault {
    let paths: Vec<_> = routes().into_iter().map(|(path, _)| path).collect();
    Fault::new(
        StatusCode::NOT_FOUND,
        format!("there is no {}; there are {}", clipped(uri.path()), paths.join(", ")),
    )
}

async fn no_such_method(method: hyper::Method, uri: Uri) -> Fault {
    let (method, path) = (clipped(method.as_str()), uri.path());
    let text = format!("{path} takes no {method}; it takes {}", methods(path).join(", "));
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

/// What may be asked of a path, as it is documented.
fn methods(path: &str) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap_or_default();
    let of_path = document.get("paths").and_then(|paths| paths.get(path)?.as_object());
    of_path.into_iter().flatten().map(|(method, _)| method.to_uppercase()).collect()
}

/// Enough of what somebody sent to know it again.
pub fn clipped(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Bytes of a request's body at most.
const BODY: usize = 64 << 10;

const OPENAPI: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_documented_and_no_other() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let documented: Vec<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
        let mut served: Vec<_> = routes().into_iter().map(|(path, _)| path.to_owned()).collect();
        served.sort();
        assert_eq!(documented, served);
    }

    #[test]
    fn the_methods_of_a_path_are_known() {
        assert_eq!(methods("/v1/config"), ["GET", "PATCH"]);
        assert_eq!(methods("/v1/reload"), ["POST"]);
    }

    fn settings_of(kind: &str, body: &str) -> Result<Vec<String>, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, kind.parse().unwrap());
        match settings(&headers, body.as_bytes()) {
            Ok(settings) => Ok(settings.iter().map(Setting::to_string).collect()),
            Err(fault) => Err(fault.status().as_u16()),
        }
    }

    #[test]
    fn values_come_nested_or_dotted_and_null_is_the_default() {
        let json = "application/json; charset=utf-8";
        let body = r#"{"home.lan": {"down": {"rtt": null, "ecn": false}}, "up.limit": 100, "up.rule": [{"dscp": 46}]}"#;
        let expected = [
            "home.lan.down.ecn false",
            "home.lan.down.rtt to its default",
            "up.limit 100",
            "up.rule [{ dscp = 46 }]",
        ];
        assert_eq!(settings_of(json, body).unwrap(), expected);
        for (kind, body, status) in [
            ("text/plain", "{}", 415),
            (json, "", 400),
            (json, "{", 400),
            (json, "[]", 400),
            (json, "{}", 400),
            (json, r#"{"down": {}}"#, 400),
            (json, r#"{"down.rule": [null]}"#, 400),
            (json, r#"{"down.limit": 18446744073709551615}"#, 400),
            (json, &"[".repeat(10_000), 400),
            (json, &r#"{"a":"#.repeat(10_000), 400),
        ] {
            assert_eq!(settings_of(kind, body), Err(status), "{kind}: {body:.40}");
        }
    }

    #[test]
    fn an_empty_table_is_named() {
        let body = serde_json::from_str(r#"{"down": {"bandwidth": {}}}"#).unwrap();
        let fault = flatten("", body, &mut Vec::new()).unwrap_err();
        assert!(format!("{fault:?}").contains("down.bandwidth = {}"), "{fault:?}");
    }
}
