//! `sealcast completions SHELL` and `sealcast man`: made from the same words as the help.

use clap::CommandFactory as _;
use clap_complete::Shell;
use sealcast_common::durable::{Durable as _, RealFiles};

use crate::args::{Cli, ManArgs};
use crate::output::{Failure, failed, line, raw};

/// A script for `shell`.
pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    raw(&script(shell)).map_err(failed)?;
    Ok(0)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sealcast", &mut script);
    script
}

/// The page of `sealcast` itself, or a page for each command into a folder.
pub(crate) fn man(args: &ManArgs) -> Result<u8, Failure> {
    let Some(out) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(failed)?;
        raw(&page).map_err(failed)?;
        return Ok(0);
    };
    RealFiles.create_dir(out).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), out).map_err(failed)?;
    line(format!("pages are in {}", out.display()));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn commands() -> Vec<String> {
        Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
    }

    #[test]
    fn every_command_and_every_option_has_help() {
        fn walk(command: &mut clap::Command) {
            let name = command.get_name().to_owned();
            assert!(command.get_about().is_some(), "{name} says nothing of itself");
            for argument in command.get_arguments() {
                let told = argument.get_help().is_some() || argument.is_hide_set();
                assert!(told, "{name}: {} says nothing of itself", argument.get_id());
            }
            assert!(command.render_long_help().to_string().contains("Usage: "), "{name}");
            command.get_subcommands_mut().for_each(walk);
        }
        let mut command = Cli::command();
        // Fills in what clap adds, and checks that all of it fits together.
        command.build();
        walk(&mut command);
    }

    #[test]
    fn every_shell_completes_every_command() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).unwrap();
            for command in commands() {
                assert!(script.contains(&command), "{shell}: {command}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        man(&ManArgs { out: Some(dir.path().to_owned()) }).unwrap();
        for command in commands() {
            let page = dir.path().join(format!("sealcast-{command}.1"));
            assert!(std::fs::read_to_string(&page).unwrap().contains("NAME"), "{command}");
        }
    }
}
