//! `sealcast-shipper`: the shipper as a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use sealcast_common::serve::{LogFormat, init_telemetry, shutdown_signal};
use sealcast_shipper::{Args, Config, Seams, start};
use tokio_util::sync::CancellationToken;

/// Ships what a writer has sealed to the object store.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    args: Args,
    /// Configuration file (TOML)
    #[arg(long, env = "SEALCAST_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// How log lines look: text or json
    #[arg(long, env = "SEALCAST_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Which log lines are written, such as info or sealcast_shipper=debug
    #[arg(long, env = "SEALCAST_LOG", default_value = "info")]
    log: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(error) = init_telemetry(cli.log_format, &cli.log) {
        // To be able to say so at all.
        let _installed = init_telemetry(cli.log_format, "info");
        return refuse(&error);
    }
    run(&cli).await.unwrap_or_else(|error| refuse(&*error))
}

async fn run(cli: &Cli) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let config = Config::load(cli.config.as_deref(), &cli.args)?;
    let stop = CancellationToken::new();
    let handle = start(config, Seams::default(), stop.clone()).await?;
    let ended = handle.join();
    tokio::pin!(ended);
    let ended = tokio::select! {
        ended = &mut ended => ended?,
        () = shutdown_signal() => {
            stop.cancel();
            ended.await?
        }
    };
    Ok(ExitCode::from(ended.exit_code()))
}

fn refuse(error: &(impl ToString + ?Sized)) -> ExitCode {
    tracing::error!(error = error.to_string(), "shipper failed");
    ExitCode::FAILURE
}
