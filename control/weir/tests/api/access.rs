//! Who may do what: the owner over the unix socket, anybody who reads on this machine, whoever has the token.

use crate::bench::{Answer, PATIENCE, Weir, ask, config, read, weir};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const JSON: &str = "Content-Type: application/json";
const CHANGE: &str = "{\"down.bandwidth\": \"5Mbit\"}";

#[test]
fn the_unix_socket_is_its_owners() {
    let weir = Weir::start("modes", "");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(weir.socket().parent().unwrap()), 0o700);
    assert_eq!(mode(&weir.socket()), 0o600);
    assert!(weir.address.is_none(), "TCP is off unless it is asked for");
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "stat"]).arg(weir.socket());
    let nobody = nobody.output().unwrap();
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("Permission denied"), "{nobody:?}");
}

#[test]
fn on_loopback_all_may_read_and_the_token_of_the_day_changes() {
    let folder = Weir::folder("token");
    let file = folder.join("token");
    write(&file, "first-first-first\n", 0o600);
    let weir = Weir::start_in(&folder, "token", "listen = \"127.0.0.1:0\"\ntoken-file = \"{folder}/token\"");
    let with = |token: &str| format!("Authorization: Bearer {token}");
    let get = |headers: &[&str]| ask(weir.tcp(), "GET", "/v1/stats", headers, "");
    let patch =
        |headers: &[&str]| ask(weir.tcp(), "PATCH", "/v1/config", &[headers, &[JSON]].concat(), CHANGE);
    assert_eq!(get(&[]).status, 200);
    assert_eq!(get(&[&with("wrong-wrong-wrong")]).status, 401);
    assert_eq!(patch(&[]).status, 401);
    assert_eq!(patch(&[&with("wrong-wrong-wrong")]).status, 401);
    assert_eq!(weir.get("/v1/config")["generation"], 0, "nothing was changed by any of these");
    assert_eq!(patch(&[&with("first-first-first")]).status, 200);
    // Rotated as programs do it: a new file in the place of the old one.
    let next = folder.join("next");
    write(&next, "second-second-second", 0o600);
    std::fs::rename(&next, &file).unwrap();
    assert_eq!(patch(&[&with("first-first-first")]).status, 401);
    assert_eq!(patch(&[&with("second-second-second")]).status, 200);
    write(&file, "second-second-second", 0o640);
    assert_eq!(patch(&[&with("second-second-second")]).status, 401, "others could have read it");
    let events = weir.get("/v1/events");
    let change = events["events"].as_array().unwrap().iter().find(|event| event["kind"] == "change").unwrap();
    let by = change["by"].as_str().unwrap();
    assert!(by.starts_with("127.0.0.1:") && by.contains("with the token, set down.bandwidth 5Mbit"), "{by}");
}

#[test]
fn without_a_token_tcp_is_for_reading() {
    let weir = Weir::start("reading", "listen = \"[::1]:0\"\nallow-hosts = [\"shaper.example\"]");
    let patch = ask(weir.tcp(), "PATCH", "/v1/config", &[JSON], CHANGE);
    assert_eq!(patch.status, 403);
    assert!(patch.json()["error"].as_str().unwrap().contains("token-file"), "{patch:?}");
    assert_eq!(ask(weir.tcp(), "POST", "/v1/reload", &[], "").status, 403);
    for (host, status) in [
        ("Host: shaper.example:80", 200),
        ("Host: [::1]", 200),
        ("Host: evil.example", 403),
        ("Host: localhost.evil.example", 403),
    ] {
        assert_eq!(ask(weir.tcp(), "GET", "/v1/stats", &[host], "").status, status, "{host}");
    }
    assert_eq!(
        weir.ask("PATCH", "/v1/config", &[JSON, "Host: evil.example"], CHANGE).status,
        200,
        "the owner may"
    );
}

#[test]
fn beyond_loopback_there_is_tls_and_all_need_the_token() {
    let folder = Weir::folder("tls");
    write(&folder.join("token"), "token-token-token", 0o600);
    let first = certificate(&folder);
    let api = "listen = \"0.0.0.0:0\"\ntoken-file = \"{folder}/token\"\n\
               tls-cert = \"{folder}/cert.pem\"\ntls-key = \"{folder}/key.pem\"";
    let weir = Weir::start_in(&folder, "tls", api);
    let bearer = "Authorization: Bearer token-token-token";
    let get =
        |root: &CertificateDer<'static>, path: &str, headers: &[&str]| encrypted(&weir, root, path, headers);
    assert_eq!(get(&first, "/v1/stats", &[bearer]).unwrap().status, 200);
    assert_eq!(get(&first, "/v1/stats", &[]).unwrap().status, 401);
    assert_eq!(get(&first, "/metrics", &[]).unwrap().status, 401);
    for open in ["/", "/healthz", "/openapi.json"] {
        assert_eq!(get(&first, open, &[]).unwrap().status, 200, "{open}");
    }
    let mut plain = weir.tcp();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut said = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut said);
    assert!(!String::from_utf8_lossy(&said).contains("HTTP"), "{said:?}");
    let second = certificate(&folder);
    assert_eq!(get(&second, "/healthz", &[]).unwrap().status, 200, "renewed while it runs");
    assert!(get(&first, "/healthz", &[]).is_err(), "and the old one is gone");
    write(&folder.join("cert.pem"), "nonsense", 0o644);
    assert_eq!(get(&second, "/healthz", &[]).unwrap().status, 200, "the last one that was right stays");
}

#[test]
fn what_lets_strangers_in_is_refused_before_anything_is_opened() {
    let folder = Weir::folder("refused");
    let file = folder.join("weir.toml");
    write(&folder.join("open"), "token-token-token", 0o644);
    write(&folder.join("short"), "token", 0o600);
    write(&folder.join("fine"), "token-token-token", 0o600);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("listen = \"{}\"", taken.local_addr().unwrap());
    let local = "listen = \"127.0.0.1:0\"\n";
    let said = |command: &str, status: i32, api: &str| {
        std::fs::write(&file, config(&api.replace("{folder}", folder.to_str().unwrap()))).unwrap();
        let output = weir(&[command, file.to_str().unwrap()]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{api}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    // A service is not started again with a file that is wrong (EX_CONFIG).
    for (command, status) in [("check", 1), ("run", 78)] {
        for listen in ["0.0.0.0:9118", "[::]:9118", "192.0.2.1:9118"] {
            let refused = said(command, status, &format!("listen = \"{listen}\""));
            assert!(
                refused.contains("reached from other machines") && refused.contains("tls-key"),
                "{refused}"
            );
            let half =
                said(command, status, &format!("listen = \"{listen}\"\ntoken-file = \"{{folder}}/fine\""));
            assert!(half.contains("lacks tls-cert, tls-key"), "{half}");
        }
    }
    for (api, words) in [
        (format!("{local}token-file = \"{{folder}}/open\""), ["open to others (mode 0644)", "chmod 0600"]),
        (format!("{local}token-file = \"{{folder}}/short\""), ["16 to 512", "openssl rand"]),
        (format!("{local}token-file = \"{{folder}}/none\""), ["token-file", "cannot be opened"]),
        (format!("{local}token-file = \"/dev/zero\""), ["token-file", "no ordinary file"]),
        (format!("{local}tls-cert = \"{{folder}}/fine\"\ntls-key = \"{{folder}}/fine\""), ["PEM", "fine"]),
        (taken, ["cannot listen on 127.0.0.1", "another instance"]),
    ] {
        let refused = said("run", 1, &api);
        assert!(words.iter().all(|word| refused.contains(word)), "{api}: {refused}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn whoever_asks_in_vain_is_told_why() {
    let weir = Weir::start("vain", "");
    let stderr = |output: std::process::Output| {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for command in ["show", "reload", "history"] {
        let none = stderr(crate::bench::weir(&[command, "api-no-such"]).output().unwrap());
        assert!(none.contains("no instance named \"api-no-such\"") && none.contains(&weir.name), "{none}");
    }
    let refused = stderr(weir.tell(&["set", "down.bandwith", "5Mbit"]));
    assert!(refused.starts_with("weir: ") && refused.contains("did you mean bandwidth?"), "{refused}");
    let pid = weir.pid().to_string();
    Command::new("kill").args(["-STOP", &pid]).status().unwrap();
    let stopped = stderr(weir.tell(&["show"]));
    Command::new("kill").args(["-CONT", &pid]).status().unwrap();
    assert!(stopped.contains("does not answer within 5s: is its process stopped?"), "{stopped}");
    assert!(weir.tell(&["show"]).status.success());
    let other = Weir::start("vain-other", "");
    let several = stderr(crate::bench::weir(&["show"]).output().unwrap());
    assert!(several.contains("several instances") && several.contains(&other.name), "{several}");
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A new certificate of `localhost` and its key, as files in `folder`.
fn certificate(folder: &Path) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    write(&folder.join("key.pem"), &signing_key.serialize_pem(), 0o600);
    write(&folder.join("cert.pem"), &cert.pem(), 0o644);
    cert.der().clone()
}

/// Asks by TLS, trusting `root` alone.
fn encrypted(
    weir: &Weir,
    root: &CertificateDer<'static>,
    path: &str,
    headers: &[&str],
) -> std::io::Result<Answer> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let port = weir.address.unwrap().port();
    let tcp = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(client, tcp);
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")?;
    Ok(read(stream))
}
