//! `[api]`: an address that others can reach needs all that keeps strangers out.

use toml::Spanned;

use crate::error::{At, Concern, Findings, Mistake};
use crate::file;
use crate::model::Api;

/// The keys together.
pub(super) fn api(file: file::Api, findings: &mut Findings<'_>) -> Api {
    let path = |key: &Option<Spanned<file::Path>>| key.as_ref().and_then(|path| path.get_ref().0.clone());
    let api = Api {
        listen: file.listen.as_ref().and_then(|listen| listen.get_ref().0),
        token_file: path(&file.token_file),
        tls_cert: path(&file.tls_cert),
        tls_key: path(&file.tls_key),
        allow_hosts: file.allow_hosts.as_ref().map(|hosts| hosts.get_ref().clone()).unwrap_or_default(),
    };
    match (&file.listen, api.listen) {
        (Some(listen), Some(address)) if !address.ip().is_loopback() => exposed(&api, listen, findings),
        (_, Some(_)) => halves(&file, &api, findings),
        (_, None) => without_effect(&file, findings),
    }
    api
}

/// Others can reach it.
fn exposed(api: &Api, listen: &Spanned<file::Listen>, findings: &mut Findings<'_>) {
    let given = [("token-file", &api.token_file), ("tls-cert", &api.tls_cert), ("tls-key", &api.tls_key)];
    let lacking: Vec<_> = given.iter().filter(|(_, file)| file.is_none()).map(|(key, _)| *key).collect();
    if !lacking.is_empty() {
        let at = At::value(API, "listen", listen.span());
        let remedy = "give what is missing, or listen on 127.0.0.1 and come in by ssh -L";
        findings.error(at, Mistake::Exposed(lacking.join(", ")), String::new(), remedy);
    }
}

/// A certificate without its key, or the other way round.
fn halves(file: &file::Api, api: &Api, findings: &mut Findings<'_>) {
    let (half, key, other) = match (&api.tls_cert, &api.tls_key) {
        (Some(_), None) => (&file.tls_cert, "tls-cert", "tls-key"),
        (None, Some(_)) => (&file.tls_key, "tls-key", "tls-cert"),
        _ => return,
    };
    if let Some(half) = half {
        let remedy = format!("give {other} too, or neither");
        findings.error(At::value(API, key, half.span()), Mistake::Without(other), String::new(), remedy);
    }
}

/// What is given for nothing while nobody listens.
fn without_effect(file: &file::Api, findings: &mut Findings<'_>) {
    let files = [("token-file", &file.token_file), ("tls-cert", &file.tls_cert), ("tls-key", &file.tls_key)];
    let files = files.into_iter().filter_map(|(key, file)| {
        let file = file.as_ref().filter(|file| file.get_ref().0.is_some())?;
        Some((key, file.span()))
    });
    let hosts = file.allow_hosts.as_ref().filter(|hosts| !hosts.get_ref().is_empty());
    for (key, span) in files.chain(hosts.map(|hosts| ("allow-hosts", hosts.span()))) {
        let remedy = "write listen = \"127.0.0.1:9118\", or remove it";
        findings.warn(At::value(API, key, span), Concern::WithoutListen, remedy);
    }
}

const API: &str = "api";
