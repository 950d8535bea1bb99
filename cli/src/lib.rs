//! The `sealcast` command: every role, and the tools of operators, developers and auditors.
//!
//! Reading order: `args` (what can be typed), `commands` (one file each), `client` (HTTP),
//! [`import`] (log files → events), [`verify`] (offline verdicts), `export` (for strangers),
//! `bench`, `output` (what is printed).

mod args;
#[cfg(feature = "roles")]
mod attack;
#[cfg(feature = "roles")]
mod bench;
mod client;
mod commands;
#[cfg(feature = "roles")]
pub mod demo;
#[cfg(feature = "roles")]
mod doctor;
mod export;
pub mod import;
mod output;
#[cfg(feature = "roles")]
mod settings;
pub mod verify;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use output::Failure;

/// Exit code for "this was tampered with, or the work failed".
const FAILED: u8 = 1;

/// Parses the command line, runs the command, gives the process's exit code.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(dispatch(cli));
            // A blocking thread that still waits (a prompt, a slow store) must not hold the exit.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(Failure::new(format!("the async runtime cannot start: {error}"))),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}

async fn dispatch(cli: Cli) -> Result<u8, Failure> {
    #[cfg(feature = "roles")]
    commands::roles::init_logs(&cli)?;
    match cli.command {
        #[cfg(feature = "roles")]
        Command::Demo(args) => commands::demo::run(args).await,
        #[cfg(feature = "roles")]
        Command::Dev(args) => commands::dev::run(args, cli.config.as_deref()).await,
        #[cfg(feature = "roles")]
        Command::Writer(args) => commands::roles::writer(&args, cli.config.as_deref()).await,
        #[cfg(feature = "roles")]
        Command::Shipper(args) => commands::roles::shipper(&args, cli.config.as_deref()).await,
        #[cfg(feature = "roles")]
        Command::Replica(args) => commands::roles::replica(&args, cli.config.as_deref()).await,
        #[cfg(feature = "roles")]
        Command::Witness(args) => commands::roles::witness(&args, cli.config.as_deref()).await,
        #[cfg(feature = "roles")]
        Command::Signer(args) => commands::signer::run(args).await,
        Command::Import(args) => commands::import::run(args).await,
        Command::Sql(args) => commands::sql::run(args).await,
        Command::Flush(args) => commands::flush::run(args).await,
        #[cfg(feature = "roles")]
        Command::AttackDemo(args) => commands::attack::run(args).await,
        Command::Verify(args) => commands::verify::run(args).await,
        Command::ExportLog(args) => Box::pin(commands::export_log::run(args)).await,
        Command::Prove(args) => Box::pin(commands::prove::run(args)).await,
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Store(command) => commands::store::run(command).await,
        Command::Keys(command) => commands::keys::run(&command),
        Command::Token(command) => commands::token::run(&command),
        #[cfg(feature = "roles")]
        Command::Config(command) => commands::config::run(&command, cli.config.as_deref()),
        #[cfg(feature = "roles")]
        Command::Doctor(args) => Box::pin(commands::doctor::run(args, cli.config.as_deref())).await,
        Command::Health(args) => commands::health::run(args).await,
        Command::Completions { shell } => commands::completions::completions(shell),
        Command::Man(args) => commands::completions::man(&args),
        #[cfg(feature = "roles")]
        Command::Bench(args) => Box::pin(bench::run(args)).await,
    }
}
