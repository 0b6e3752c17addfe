//! Who may do what over TCP. Over the unix socket only its owner comes in, who may do all.
//!
//! * From this machine anybody may read, and with the token change.
//! * From another machine everything needs the token, but for what tells nothing ([`OPEN`]).
//! * A token that is presented must be right, even where none is needed.
//! * A web page that has a name of its own lead here (DNS rebinding) is refused by that name.

use super::fault::Fault;
use super::files::{Files, secret};
use crate::say::complain;
use anyhow::{Context, Result, bail};
use config::model::Api;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, StatusCode};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use subtle::ConstantTimeEq;

/// What the requests of one listener must have.
#[derive(Debug)]
pub struct Guard {
    token: Option<Token>,
    /// Others than those on this machine can reach it.
    is_exposed: bool,
    /// Names beside those that stand for this machine; none: any name will do.
    hosts: Option<Vec<String>>,
}

/// A token that is read again when its file changes.
#[derive(Debug)]
struct Token {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    files: Files,
    /// None: the file is not as it must be, and nobody is let in by it.
    token: Option<Vec<u8>>,
}

impl Guard {
    /// As the configuration has it.
    ///
    /// # Errors
    /// The token file is not as it must be.
    pub fn new(api: &Api) -> Result<Self> {
        let is_exposed = api.listen.is_some_and(|address| !address.ip().is_loopback());
        let hosts = (!is_exposed || !api.allow_hosts.is_empty()).then(|| {
            let given = api.allow_hosts.iter().map(|host| host.to_ascii_lowercase());
            given.chain(api.listen.map(|address| address.ip().to_string())).collect()
        });
        let token = api.token_file.as_deref().map(Token::open).transpose()?;
        Ok(Self { token, is_exposed, hosts })
    }

    /// Lets a request pass.
    ///
    /// # Errors
    /// Why it may not.
    pub fn admit<B>(&self, request: &Request<B>) -> Result<(), Fault> {
        self.check_host(request)?;
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        let is_open = reads && (!self.is_exposed || OPEN.contains(&request.uri().path()));
        match (request.headers().get(AUTHORIZATION), &self.token) {
            (None, _) if is_open => Ok(()),
            (None, Some(_)) => Err(unauthorized("this needs the token: send Authorization: Bearer TOKEN")),
            (Some(given), Some(token)) if token.is(given) => Ok(()),
            (Some(_), Some(_)) => Err(unauthorized("the token is wrong")),
            (_, None) => Err(Fault::new(
                StatusCode::FORBIDDEN,
                "without a token this address is for reading: give token-file in [api], or use the unix socket",
            )),
        }
    }

    fn check_host<B>(&self, request: &Request<B>) -> Result<(), Fault> {
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let given = request.uri().authority().cloned().or_else(|| {
            let header = request.headers().get(HOST)?;
            Authority::try_from(header.as_bytes()).ok()
        });
        let given = given.ok_or_else(|| Fault::bad("which host is asked? Send one Host header"))?;
        let host = given.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let is_loopback = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        if is_loopback || hosts.contains(&host) {
            return Ok(());
        }
        Err(Fault::new(
            StatusCode::FORBIDDEN,
            format!("this is not {host}: if it is, write allow-hosts = [\"{host}\"] in [api]"),
        ))
    }
}

impl Token {
    fn open(path: &Path) -> Result<Self> {
        let files = Files::new(vec![path.to_owned()]);
        let token = Some(read(path)?);
        Ok(Self { path: path.to_owned(), known: Mutex::new(Known { files, token }) })
    }

    /// Compares in a time that does not tell how much of it is right.
    fn is(&self, header: &HeaderValue) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.files.have_changed() {
            known.token = read(&self.path)
                .inspect_err(|error| complain(&format!("weir: warning: no token is right: {error:#}")))
                .ok();
        }
        let given = header.as_bytes();
        let given =
            given.split_at_checked(SCHEME.len()).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME));
        match (given, &known.token) {
            (Some((_, given)), Some(token)) => given.trim_ascii().ct_eq(token).into(),
            _ => false,
        }
    }
}

/// The token in a file, which its owner alone may read.
fn read(path: &Path) -> Result<Vec<u8>> {
    let text = secret(path, 0o077).context("token-file")?;
    let token = text.trim_ascii();
    let is_fine = |byte: &u8| byte.is_ascii_graphic();
    if !(16..=512).contains(&token.len()) || !token.iter().all(is_fine) {
        bail!(
            "token-file: {}: a token is one word of 16 to 512 letters, digits and signs: openssl rand -hex 32",
            path.display()
        );
    }
    Ok(token.to_vec())
}

fn unauthorized(text: &str) -> Fault {
    Fault::new(StatusCode::UNAUTHORIZED, text)
}

/// What a browser needs before it can send a token, and what tells nothing but that weir is there.
const OPEN: [&str; 3] = ["/", "/healthz", "/openapi.json"];

/// RFC 6750, section 2.1.
const SCHEME: &[u8] = b"Bearer ";

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const TOKEN: &str = "0123456789abcdef";

    /// A file of one test, gone with it.
    struct File(PathBuf);

    impl File {
        fn new(test: &str, text: &str) -> Self {
            let file = Self(std::env::temp_dir().join(format!("weir-guard-{test}-{}", std::process::id())));
            file.write(text, 0o600);
            file
        }

        fn write(&self, text: &str, mode: u32) {
            std::fs::write(&self.0, text).unwrap();
            std::fs::set_permissions(&self.0, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn guard(listen: &str, token: Option<&File>, hosts: &[&str]) -> Guard {
        Guard::new(&Api {
            listen: Some(listen.parse().unwrap()),
            token_file: token.map(|file| file.0.clone()),
            allow_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            ..Api::default()
        })
        .unwrap()
    }

    fn status(guard: &Guard, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        match guard.admit(&request.body(()).unwrap()) {
            Ok(()) => 200,
            Err(fault) => fault.status().as_u16(),
        }
    }

    #[test]
    fn on_this_machine_all_may_read_and_the_token_changes() {
        let file = File::new("local", TOKEN);
        let host = ("host", "localhost:9118");
        let bearer = format!("Bearer {TOKEN}");
        let with = guard("127.0.0.1:9118", Some(&file), &[]);
        assert_eq!(status(&with, "GET", "/v1/stats", &[host]), 200);
        assert_eq!(status(&with, "HEAD", "/v1/stats", &[host]), 200);
        for method in ["PATCH", "POST", "PUT", "DELETE", "OPTIONS", "ODD"] {
            assert_eq!(status(&with, method, "/v1/config", &[host]), 401, "{method}");
            assert_eq!(status(&with, method, "/v1/config", &[host, ("authorization", &bearer)]), 200);
        }
        let without = guard("127.0.0.1:9118", None, &[]);
        assert_eq!(status(&without, "GET", "/v1/stats", &[host]), 200);
        assert_eq!(status(&without, "PATCH", "/v1/config", &[host]), 403);
        assert_eq!(status(&without, "PATCH", "/v1/config", &[host, ("authorization", &bearer)]), 403);
    }

    #[test]
    fn a_token_that_is_presented_must_be_right() {
        let file = File::new("wrong", &format!("  {TOKEN}\n"));
        let guard = guard("[::1]:9118", Some(&file), &[]);
        let longer = format!("Bearer {TOKEN}0");
        let lower = format!("bearer {TOKEN}");
        let basic = format!("Basic {TOKEN}");
        for (given, expected) in [
            (lower.as_str(), 200),
            (&longer, 401),
            (&basic, 401),
            ("Bearer 0123456789abcdeF", 401),
            ("Bearer 0123456789abcde", 401),
            ("Bearer ", 401),
            ("Bearer", 401),
            ("", 401),
            (TOKEN, 401),
        ] {
            let headers = [("host", "[::1]:9118"), ("authorization", given)];
            assert_eq!(status(&guard, "GET", "/v1/stats", &headers), expected, "{given:?}");
        }
    }

    #[test]
    fn from_elsewhere_everything_needs_it_but_what_tells_nothing() {
        let file = File::new("remote", TOKEN);
        let guard = guard("0.0.0.0:9118", Some(&file), &[]);
        let bearer = format!("Bearer {TOKEN}");
        for path in ["/v1/stats", "/metrics", "/v1/config", "/nothing", "//", "/healthz/"] {
            assert_eq!(status(&guard, "GET", path, &[]), 401, "{path}");
            assert_eq!(status(&guard, "GET", path, &[("authorization", &bearer)]), 200, "{path}");
        }
        for path in OPEN {
            assert_eq!(status(&guard, "GET", path, &[]), 200, "{path}");
            assert_eq!(status(&guard, "POST", path, &[]), 401, "{path}");
        }
    }

    #[test]
    fn a_token_that_was_rotated_is_the_one_and_a_bad_file_lets_nobody_in() {
        let file = File::new("rotated", TOKEN);
        let guard = guard("127.0.0.1:9118", Some(&file), &[]);
        let with = |token: &str| {
            let bearer = format!("Bearer {token}");
            status(&guard, "PATCH", "/v1/config", &[("host", "localhost"), ("authorization", &bearer)])
        };
        let next = "fedcba9876543210-";
        assert_eq!((with(TOKEN), with(next)), (200, 401));
        file.write(next, 0o600);
        assert_eq!((with(TOKEN), with(next)), (401, 200));
        for (text, mode) in
            [(next, 0o644), (next, 0o620), ("short", 0o600), ("", 0o600), ("two words of many", 0o600)]
        {
            file.write(text, mode);
            assert_eq!((with(text), with(next)), (401, 401), "{text:?} {mode:o}");
            assert!(Token::open(&file.0).is_err());
        }
        file.write(TOKEN, 0o400);
        assert_eq!(with(TOKEN), 200);
        std::fs::remove_file(&file.0).unwrap();
        assert_eq!(with(TOKEN), 401);
    }

    #[test]
    fn a_name_that_is_not_this_machines_is_refused() {
        let local = guard("127.0.0.1:9118", None, &["Shaper.example", "2001:db8::1"]);
        let of = |guard: &Guard, host: &str| status(guard, "GET", "/", &[("host", host)]);
        for host in [
            "localhost",
            "LOCALHOST:9118",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:80",
            "shaper.example:9118",
            "[2001:db8::1]",
        ] {
            assert_eq!(of(&local, host), 200, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "0.0.0.0",
            "192.0.2.1",
            "shaper.example.",
            "127.0.0.1.nip.io",
        ] {
            assert_eq!(of(&local, host), 403, "{host}");
        }
        for host in ["", "a b"] {
            assert_eq!(of(&local, host), 400, "{host}");
        }
        assert_eq!(status(&local, "GET", "/", &[]), 400);
        assert_eq!(status(&local, "GET", "http://evil.example/", &[("host", "localhost")]), 403);
        let file = File::new("name", TOKEN);
        assert_eq!(of(&guard("0.0.0.0:9118", Some(&file), &[]), "anything.example"), 200);
        let named = guard("0.0.0.0:9118", Some(&file), &["shaper.example"]);
        assert_eq!((of(&named, "anything.example"), of(&named, "shaper.example")), (403, 200));
    }
}
