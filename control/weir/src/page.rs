//! `GET /`: the page for people, one file without anything from elsewhere.
//!
//! It asks `/v1/stats` and `/v1/histograms` every 2 s while somebody looks at it, and holds the last
//! minutes itself: the daemon remembers nothing for it. It holds no secret and asks for the token itself,
//! so that it is given to anybody.

/// The page.
pub const HTML: &str = include_str!("page/index.html");

/// What goes with it. The policy lets nothing run, and nothing be shown, but the style and the script whose
/// hashes it names: whatever the name of a link or a device may contain.
pub const HEADERS: [(&str, &str); 5] = [
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-cache"),
];

const POLICY: &str = "default-src 'none'; connect-src 'self'; img-src data:; \
    style-src 'sha256-7/VnN45ohVigAkjDgfg/yfwM+ZkZQ3b7b2x+44dBCwI='; \
    script-src 'sha256-hg9hhll0lgDKPjhXav/FER99/HR3Jytt0oLcJkFXbyw='; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    #[test]
    fn the_policy_names_the_hash_of_style_and_script() {
        for (tag, directive) in [("style", "style-src"), ("script", "script-src")] {
            let hash = hash_of(between(HTML, &format!("<{tag}>"), &format!("</{tag}>")));
            let named = between(POLICY, &format!("{directive} 'sha256-"), "'");
            assert_eq!(named, hash, "put this hash of <{tag}> into POLICY");
        }
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        assert_eq!(HTML.matches("<script").count() + HTML.matches("<style").count(), 2);
        for elsewhere in ["http://", "https://", "src=", "@import", "url(", " style=", " onclick", "eval("] {
            let allowed = HTML.matches("xmlns='http://www.w3.org/2000/svg'").count();
            let found = HTML.matches(elsewhere).count() - if elsewhere == "http://" { allowed } else { 0 };
            assert_eq!(found, 0, "{elsewhere}");
        }
        assert!(HTML.len() < 50_000, "{} bytes", HTML.len());
    }

    /// The text between two others, of which there is one pair.
    fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
        let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start}"));
        rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
    }

    /// SHA-256 in base64, as a browser makes it, by the tools of coreutils.
    fn hash_of(text: &str) -> String {
        let digest = piped("sha256sum", &[], text.as_bytes());
        let digest: Vec<u8> =
            (0..32).map(|byte| u8::from_str_radix(&digest[2 * byte..2 * byte + 2], 16).unwrap()).collect();
        piped("base64", &["--wrap=0"], &digest)
    }

    fn piped(program: &str, args: &[&str], input: &[u8]) -> String {
        let mut command = Command::new(program);
        let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }
}
