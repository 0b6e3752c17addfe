//! The keys of `[api]`.

use super::{Change, Key, Kind, Table};

/// `[api]`
pub static API: Table = Table {
    heading: "[api]",
    help: "HTTP over TCP: statistics, changes and the web page. The unix socket of an instance is always there.",
    keys: &[
        Key {
            name: "listen",
            kind: Kind::Address,
            default: "\"off\"",
            example: "\"127.0.0.1:9118\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "Where to listen; port 0: any free one. An address that other machines reach needs token-file, tls-cert and tls-key.",
        },
        Key {
            name: "token-file",
            kind: Kind::File,
            default: "\"none\"",
            example: "\"/etc/weir/token\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "Holds the bearer token that changes need, and everything needs from another machine: 16 to 512 characters, readable by its owner alone, read again when it changes.",
        },
        Key {
            name: "tls-cert",
            kind: Kind::File,
            default: "\"none\"",
            example: "\"/etc/weir/cert.pem\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "Certificate and those that vouch for it, in PEM; read again when it changes.",
        },
        Key {
            name: "tls-key",
            kind: Kind::File,
            default: "\"none\"",
            example: "\"/etc/weir/key.pem\"",
            change: Change::Restart,
            qdiscs: &[],
            help: "Private key of the certificate, in PEM, not readable by everybody.",
        },
        Key {
            name: "allow-hosts",
            kind: Kind::Hosts,
            default: "[]",
            example: "[\"shaper.example\"]",
            change: Change::Restart,
            qdiscs: &[],
            help: "Names that a browser may call this machine by, beside localhost and the address listened on; others are refused, so that no web page reaches weir under a name of its own.",
        },
    ],
    hints: &[
        ("address", "write listen = \"127.0.0.1:9118\""),
        ("port", "write listen = \"127.0.0.1:9118\""),
        ("bind", "write listen = \"127.0.0.1:9118\""),
        ("token", "write it into a file that its owner alone can read, and name that: token-file"),
        ("cert", "write tls-cert"),
        ("key", "write tls-key"),
    ],
};
