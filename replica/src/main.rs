//! The replica as a program of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use sealcast_common::serve::{LogFormat, init_telemetry, shutdown_signal};
use sealcast_replica::{Args, Config, Seams, start};
use tokio_util::sync::CancellationToken;

/// Follows an object store, verifies what arrives, and answers SQL over it.
#[derive(Debug, Parser)]
#[command(name = "sealcast-replica", version)]
struct Cli {
    /// Configuration file with a section [replica]
    #[arg(long, env = "SEALCAST_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log lines: text or json
    #[arg(long, env = "SEALCAST_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// What is logged, such as info or sealcast_replica=debug
    #[arg(long, env = "SEALCAST_LOG", default_value = "info")]
    log: String,
    #[command(flatten)]
    args: Args,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "replica failed");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<(), Box<dyn std::error::Error>> {
    // A bad filter is reported by a good one.
    init_telemetry(cli.log_format, &cli.log)
        .or_else(|reason| init_telemetry(cli.log_format, "info").and(Err(reason)))?;
    let config = Config::load(cli.config.as_deref(), &cli.args)?;
    let stop = CancellationToken::new();
    let replica = start(config, Seams::default(), stop.clone()).await?;
    let ended = replica.join();
    tokio::pin!(ended);
    tokio::select! {
        ended = &mut ended => { ended?; }
        () = shutdown_signal() => {
            stop.cancel();
            ended.await?;
        }
    }
    Ok(())
}
