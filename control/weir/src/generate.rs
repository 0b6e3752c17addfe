//! `weir man` and `weir completions`: generated from the command line, so that they cannot say anything else.

use crate::cli::Cli;
use crate::say::say;
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;
use std::process::ExitCode;

/// Prints weir(1), or writes it and a page for each command into a folder.
///
/// # Errors
/// The folder or standard output takes no more.
pub fn man(folder: Option<&Path>) -> Result<ExitCode> {
    let command = Cli::command();
    match folder {
        Some(folder) => clap_mangen::generate_to(command, folder)
            .with_context(|| format!("cannot write pages into {}", folder.display()))?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            say(&String::from_utf8(page)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the completions for a shell.
///
/// # Errors
/// Standard output takes no more.
pub fn completions(shell: Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
    say(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
