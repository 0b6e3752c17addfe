//! Standard output and standard error of a command, either of which may be closed or full.

use anyhow::{Context, Result};
use std::io::{ErrorKind, Write, stderr, stdout};
use textwrap::{Options, WordSeparator, WordSplitter};

/// Prints to standard output. A reader that has seen enough (`weir show | head -1`) is no error.
///
/// # Errors
/// Standard output takes no more, for example because its disk is full.
pub fn say(text: &str) -> Result<()> {
    say_more(text).map(drop)
}

/// The same for who would go on: whether somebody still reads.
///
/// # Errors
/// As [`say`].
pub fn say_more(text: &str) -> Result<bool> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Breaks lines longer than [`WIDTH`] at blanks; what follows is indented by two more, behind a `#` if there is one.
pub fn wrapped(text: &str) -> String {
    text.lines().map(|line| wrapped_line(line) + "\n").collect()
}

fn wrapped_line(line: &str) -> String {
    let text = line.trim_start_matches('#').trim_start_matches(' ');
    let (indent, _) = line.split_at(line.len() - text.len());
    let options = Options::new(WIDTH).initial_indent(indent).break_words(false);
    let hang = format!("{indent}  ");
    let options = options.subsequent_indent(&hang).word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(text, options.word_separator(WordSeparator::AsciiSpace))
}

/// Prints a line to standard error; nobody can be told when that fails (`eprintln!` would panic).
pub fn complain(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

/// Columns that text for people keeps to.
const WIDTH: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_at_blanks_and_nothing_is_lost() {
        let words = "many words of a line ".repeat(15);
        for (line, hang) in
            [(words.clone(), "  "), (format!("  {words}"), "    "), (format!("#   {words}"), "#     ")]
        {
            let broken = wrapped(&line);
            assert!(broken.lines().all(|line| line.len() <= WIDTH), "{broken}");
            assert!(
                broken
                    .lines()
                    .skip(1)
                    .all(|line| line.starts_with(&format!("{hang}m")) || !line.contains("  m"))
            );
            let joined =
                broken.lines().map(|line| line.trim_matches([' ', '#'])).collect::<Vec<_>>().join(" ");
            assert_eq!(joined, words.trim(), "{broken}");
            assert!(broken.lines().nth(1).unwrap().starts_with(hang), "{broken}");
        }
        let name = "\u{fc}".repeat(150);
        assert_eq!(
            wrapped(&format!("  {name}\n\nshort\n")),
            format!("  {name}\n\nshort\n"),
            "no blank to break at"
        );
        assert_eq!(wrapped(&format!("  {name} end")), format!("  {name}\n    end\n"));
        assert_eq!(wrapped(&"x".repeat(WIDTH)), "x".repeat(WIDTH) + "\n");
    }
}
