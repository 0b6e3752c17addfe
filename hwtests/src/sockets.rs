//! `ss -tin`: what the kernel's TCP thinks of its connections (`tcp_info`), second by second.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::netns::Netns;
use crate::process::run;

/// A connection as its sender sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Socket {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Smoothed round trip, ms.
    pub rtt_ms: f64,
    /// Segments sent again, since the beginning.
    pub retransmits: u64,
    /// Bytes of payload acknowledged, since the beginning.
    pub acked: u64,
}

/// Looks at the connections from `netns` to TCP ports of `ports`, by their own port.
///
/// # Errors
/// `ss` fails.
pub fn look(netns: &Netns, ports: std::ops::Range<u16>) -> Result<BTreeMap<u16, Socket>> {
    let mut ss = netns.command("ss");
    ss.args(["-tinH", "state", "established", "dport", "ge"]).arg(format!(":{}", ports.start));
    ss.args(["and", "dport", "lt"]).arg(format!(":{}", ports.end));
    Ok(parse(&run(&mut ss)?))
}

/// [`look`] as one would type it.
pub const TYPED: &str = "ss -tin state established (each second)";

/// A line with the addresses, an indented one with the rest.
fn parse(text: &str) -> BTreeMap<u16, Socket> {
    let mut sockets = BTreeMap::new();
    let mut port = None;
    for line in text.lines() {
        if !line.starts_with(char::is_whitespace) {
            let local = line.split_whitespace().nth(2);
            port = local.and_then(|local| local.rsplit_once(':')?.1.parse().ok());
        } else if let Some(port) = port.take() {
            sockets.insert(port, socket(line));
        }
    }
    sockets
}

/// What is not said is nothing, as it is of retransmissions before the first.
fn socket(line: &str) -> Socket {
    let field = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key));
    let number = |key| field(key).and_then(|value| value.parse().ok()).unwrap_or(0);
    let rtt = field("rtt:").and_then(|value| value.split('/').next()?.parse().ok());
    let again = field("retrans:").and_then(|value| value.rsplit('/').next()?.parse().ok());
    Socket {
        cwnd: number("cwnd:") * number("mss:"),
        rtt_ms: rtt.unwrap_or(0.0),
        retransmits: again.unwrap_or(0),
        acked: number("bytes_acked:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_two_lines() {
        let text = "0      854247  192.0.2.1:41000 192.0.2.2:5201\n\
            \t cubic wscale:10,10 rto:204 rtt:0.317/0.267 mss:1448 pmtu:1500 cwnd:24 ssthresh:8 bytes_sent:9049 \
            bytes_retrans:2896 bytes_acked:9000 segs_out:14744 retrans:1/2 minrtt:0.004\n\
            0      0       192.0.2.1:36180 192.0.2.2:5201\n\
            \t cubic rtt:0.029/0.017 mss:1448 cwnd:10 bytes_acked:165\n";
        let busy = Socket { cwnd: 24 * 1_448, rtt_ms: 0.317, retransmits: 2, acked: 9_000 };
        let idle = Socket { cwnd: 14_480, rtt_ms: 0.029, retransmits: 0, acked: 165 };
        assert_eq!(parse(text), BTreeMap::from([(41_000, busy), (36_180, idle)]));
        assert!(parse("").is_empty());
    }
}
