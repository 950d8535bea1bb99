//! The writer as a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use sealcast_common::serve::{LogFormat, init_telemetry, shutdown_signal};
use sealcast_writer::{Args, Config, Seams, start};
use tokio_util::sync::CancellationToken;

/// Takes events by HTTP, makes them durable, seals them into segments.
#[derive(Debug, Parser)]
#[command(name = "sealcast-writer", version)]
struct Command {
    /// Settings file (TOML, section [writer])
    #[arg(long, env = "SEALCAST_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log lines: text or json
    #[arg(long, env = "SEALCAST_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Log filter, such as `info` or `sealcast_writer=debug,warn`
    #[arg(long, env = "SEALCAST_LOG", default_value = "info")]
    log: String,
    #[command(flatten)]
    args: Args,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Command::parse();
    match run(&command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            tracing::error!(reason, "writer failed");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: &Command) -> Result<(), String> {
    let format = command.log_format;
    // A bad filter is reported by a good one.
    init_telemetry(format, &command.log)
        .or_else(|reason| init_telemetry(format, "info").and(Err(reason)))?;
    let config = Config::load(command.config.as_deref(), &command.args);
    let config = config.map_err(|error| error.to_string())?;
    let stop = CancellationToken::new();
    let handle = start(config, Seams::default(), stop.clone()).await.map_err(|error| {
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{error}{hint}")
    })?;
    let ended = handle.join();
    tokio::pin!(ended);
    let ended = tokio::select! {
        ended = &mut ended => ended,
        () = shutdown_signal() => {
            stop.cancel();
            ended.await
        }
    };
    ended.map(|_| ()).map_err(|error| error.to_string())
}
