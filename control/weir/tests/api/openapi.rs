//! `openapi.json` and the server say the same: each path, method and status, and each answer by its schema,
//! judged by a validator that knows nothing of weir.

use crate::bench::{Answer, Weir, ask, read};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

#[test]
fn every_answer_is_as_documented() {
    let token = "openapi-openapi-openapi";
    let folder = Weir::folder("openapi");
    let file = folder.join("token");
    std::fs::write(&file, token).unwrap();
    std::process::Command::new("chmod").arg("600").arg(&file).status().unwrap();
    let api = "listen = \"127.0.0.1:0\"\ntoken-file = \"{folder}/token\"";
    let weir = Weir::start_in(&folder, "openapi", api);
    let mut contract = Contract { document: weir.get("/openapi.json"), seen: BTreeSet::new() };
    let json = "Content-Type: application/json";
    let rate = |rate: &str| json!({ "down": { "bandwidth": rate } }).to_string();
    // In an order in which each finds what it needs: changes first, so that there are events.
    for (method, path, headers, body, status) in [
        ("PATCH", "/v1/config", &[json][..], rate("5Mbit"), 200),
        ("PATCH", "/v1/config?dry-run=true", &[json], rate("6Mbit"), 200),
        ("PATCH", "/v1/config?for=1h", &["Content-Type: application/merge-patch+json"], rate("7Mbit"), 200),
        ("PATCH", "/v1/config", &[json], "[]".to_owned(), 400),
        ("PATCH", "/v1/config?for=soon", &[json], rate("5Mbit"), 400),
        ("PATCH", "/v1/config?when=now", &[json], rate("5Mbit"), 400),
        ("PATCH", "/v1/config", &[], rate("5Mbit"), 415),
        ("PATCH", "/v1/config", &[json], rate("5Mbps and more"), 422),
        ("PATCH", "/v1/config", &[json], json!({ "down.limit": 2000 }).to_string(), 409),
        ("PATCH", "/v1/config", &[json], format!("{{\"x\": \"{}\"}}", "x".repeat(70_000)), 413),
        ("POST", "/v1/reload?dry-run=true", &[], String::new(), 200),
        ("POST", "/v1/reload?dry-run=perhaps", &[], String::new(), 400),
        ("GET", "/v1/events?after=none", &[], String::new(), 400),
        ("GET", "/v1/events?after=1", &[], String::new(), 200),
        ("GET", "/v1/histograms?window=interval&direction=up&kind=total", &[], String::new(), 200),
        ("GET", "/v1/histograms?format=csv", &[], String::new(), 200),
        ("GET", "/v1/histograms?format=log", &[], String::new(), 200),
        (
            "GET",
            "/v1/histograms?format=hgrm&link=idle&direction=up&tin=all&kind=sojourn",
            &[],
            String::new(),
            200,
        ),
        ("GET", "/v1/histograms?format=xml", &[], String::new(), 400),
        ("GET", "/v1/histograms?direction=side", &[], String::new(), 400),
        ("GET", "/v1/histograms?kind=wait", &[], String::new(), 400),
        ("GET", "/v1/histograms?tin=Vioce", &[], String::new(), 404),
        ("GET", "/v1/histograms?link=work&window=interval", &[], String::new(), 404),
    ] {
        contract.hold(method, path, status, &weir.ask(method, path, headers, &body));
    }
    let file = weir.folder.join("weir.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for (limit, status) in [("2000", 409), ("few", 422), ("999", 200)] {
        std::fs::write(&file, text.replace("up.limit = 1000", &format!("up.limit = {limit}"))).unwrap();
        contract.hold("POST", "/v1/reload", status, &weir.ask("POST", "/v1/reload", &[], ""));
    }
    let events = weir.get("/v1/events").to_string();
    assert!(events.contains("idle.up.limit: 1000 -> 999"), "{events}");

    contract.try_stuck(&weir);
    for path in contract.paths() {
        contract.try_methods(&weir, &path);
        contract.try_strangers(&weir, &path, token);
    }
    let nothing = weir.ask("GET", "/v1/nothing", &[], "");
    assert_eq!(nothing.status, 404);
    contract.judge(&json!({ "$ref": "#/components/schemas/Error" }), &nothing.json(), "/v1/nothing");
    contract.assert_all_seen();
}

/// The document, and which (method, path, status) of it were seen.
struct Contract {
    document: Value,
    seen: BTreeSet<(String, String, u16)>,
}

impl Contract {
    fn paths(&self) -> Vec<String> {
        self.document["paths"].as_object().unwrap().keys().cloned().collect()
    }

    /// The documented response, references followed.
    fn response(&self, method: &str, path: &str, status: u16) -> Value {
        let responses = &self.document["paths"][path][method.to_lowercase()]["responses"];
        let response = &responses[status.to_string()];
        assert!(!response.is_null(), "{method} {path}: {status} is not documented");
        match response["$ref"].as_str() {
            Some(reference) => self.document.pointer(reference.trim_start_matches('#')).unwrap().clone(),
            None => response.clone(),
        }
    }

    /// The answer has this status, which is documented, and its media type and schema.
    fn hold(&mut self, method: &str, target: &str, status: u16, answer: &Answer) {
        let path = target.split('?').next().unwrap();
        assert_eq!(answer.status, status, "{method} {target}: {answer:?}");
        let response = self.response(method, path, status);
        let content = response["content"].as_object().unwrap();
        let media = answer.header("content-type").unwrap().split(';').next().unwrap().to_owned();
        let documented = content.get(&media).unwrap_or_else(|| panic!("{method} {target}: {media}"));
        let length: usize = answer.header("content-length").unwrap().parse().unwrap();
        assert_eq!(length, answer.body.len());
        if media == "application/json" {
            self.judge(&documented["schema"], &answer.json(), target);
        } else {
            assert!(!answer.body.is_empty(), "{target}");
        }
        self.seen.insert((method.to_owned(), path.to_owned(), status));
    }

    fn judge(&self, schema: &Value, instance: &Value, what: &str) {
        let mut root = schema.clone();
        root["components"] = self.document["components"].clone();
        let validator = jsonschema::draft202012::new(&root).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(instance)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{what}: {errors:#?}");
    }

    /// GET where documented is answered; what is not documented is refused, with all that is in Allow.
    fn try_methods(&mut self, weir: &Weir, path: &str) {
        let documented: BTreeSet<_> = self.document["paths"][path]
            .as_object()
            .unwrap()
            .keys()
            .map(|method| method.to_uppercase())
            .collect();
        for method in METHODS {
            if documented.contains(method) {
                if method == "GET" {
                    self.hold(method, path, 200, &weir.ask(method, path, &[], ""));
                }
                continue;
            }
            let answer = weir.ask(method, path, &[], "");
            assert_eq!(answer.status, 405, "{method} {path} is not documented: {answer:?}");
            let allowed: BTreeSet<_> = answer
                .header("allow")
                .unwrap()
                .split(',')
                .map(str::to_owned)
                .filter(|m| m != "HEAD")
                .collect();
            assert_eq!(allowed, documented, "{method} {path}");
            self.judge(&json!({ "$ref": "#/components/responses/MethodNotAllowed/content/application~1json/schema" }), &answer.json(), path);
        }
    }

    /// While the control loop stands still, and other threads do not: all that wait for it are told so in time, and what
    /// they asked for is not done later. A body that never comes is given up.
    fn try_stuck(&mut self, weir: &Weir) {
        let before = weir.get("/v1/config");
        let control = Pid::from_raw(i32::try_from(weir.pid()).unwrap());
        ptrace::seize(control, ptrace::Options::empty()).unwrap();
        ptrace::interrupt(control).unwrap();
        waitpid(control, Some(WaitPidFlag::__WALL)).unwrap();
        let kind = "Content-Type: application/json";
        let mut asked = Vec::new();
        for (path, methods) in self.document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
                let waits = !self.response_is_null(&method, path, 503);
                let body = if method == "PATCH" { r#"{"down.bandwidth": "9Mbit"}"# } else { "" };
                let length = format!("Content-Length: {}", body.len());
                let headers = if body.is_empty() { vec![] } else { vec![kind, &length] };
                asked.extend(
                    waits.then(|| {
                        (method.clone(), path.clone(), 503, weir.send(&method, path, &headers, body))
                    }),
                );
            }
        }
        let never = weir.send("PATCH", "/v1/config", &[kind, "Content-Length: 9"], "");
        asked.push(("PATCH".to_owned(), "/v1/config".to_owned(), 408, never));
        for (method, path, status, stream) in asked {
            self.hold(&method, &path, status, &read(stream));
        }
        ptrace::detach(control, None).unwrap();
        let after = weir.get("/v1/config");
        assert_eq!(after, before, "what was given up was done all the same");
    }

    fn response_is_null(&self, method: &str, path: &str, status: u16) -> bool {
        self.document["paths"][path][method.to_lowercase()]["responses"][status.to_string()].is_null()
    }

    /// Over TCP: another's name, a wrong token, none for a change.
    fn try_strangers(&mut self, weir: &Weir, path: &str, token: &str) {
        let methods: Vec<_> = self.document["paths"][path].as_object().unwrap().keys().cloned().collect();
        for method in methods {
            let method = method.to_uppercase();
            let strange = ask(weir.tcp(), &method, path, &["Host: evil.example"], "");
            self.hold(&method, path, 403, &strange);
            let wrong =
                ask(weir.tcp(), &method, path, &["Authorization: Bearer wrong-wrong-wrong-wrong"], "");
            assert_eq!(wrong.header("www-authenticate"), Some("Bearer"));
            self.hold(&method, path, 401, &wrong);
            if method != "GET" {
                self.hold(&method, path, 401, &ask(weir.tcp(), &method, path, &[], ""));
            } else {
                let bearer = format!("Authorization: Bearer {token}");
                self.hold(&method, path, 200, &ask(weir.tcp(), &method, path, &[&bearer], ""));
                self.hold(&method, path, 200, &ask(weir.tcp(), &method, path, &[], ""));
                self.hold(&method, path, 400, &ask(weir.tcp(), &method, path, &["Host: "], ""));
            }
        }
    }

    /// All that is documented was seen.
    fn assert_all_seen(&self) {
        let mut unseen = Vec::new();
        for (path, methods) in self.document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                for status in operation["responses"].as_object().unwrap().keys() {
                    let seen = (method.to_uppercase(), path.clone(), status.parse().unwrap());
                    if !self.seen.contains(&seen) {
                        unseen.push(seen);
                    }
                }
            }
        }
        assert!(unseen.is_empty(), "documented and never seen: {unseen:?}");
    }
}
