//! `sealcast writer | shipper | replica`: one role in this process, until SIGTERM or Ctrl-C.

use std::path::Path;

use sealcast_common::serve::{LogFormat, init_telemetry, load_section, shutdown_signal};
use tokio_util::sync::CancellationToken;

use crate::args::{Cli, Command, LogFormatArg};
use crate::output::{Failure, failed};

/// Exit code of a shipper that another one has fenced (`EX_TEMPFAIL`): do not restart it blindly.
pub(crate) const FENCED: u8 = 75;

/// Logs and metrics: roles say what they do, tools and the demo only what goes wrong.
pub(crate) fn init_logs(cli: &Cli) -> Result<(), Failure> {
    let role = matches!(
        cli.command,
        Command::Dev(_) | Command::Writer(_) | Command::Shipper(_) | Command::Replica(_)
    );
    let filter = cli.log.as_deref().unwrap_or(if role { "info" } else { "warn" });
    let format = match cli.log_format {
        LogFormatArg::Text => LogFormat::Text,
        LogFormatArg::Json => LogFormat::Json,
    };
    init_telemetry(format, filter).map_err(failed)
}

/// A token that SIGTERM and Ctrl-C cancel.
pub(crate) fn stop_on_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let signalled = stop.clone();
    tokio::spawn(async move {
        shutdown_signal().await;
        signalled.cancel();
    });
    stop
}

pub(crate) async fn writer(
    args: &sealcast_writer::Args,
    file: Option<&Path>,
) -> Result<u8, Failure> {
    let config = load_section("writer", file, args).map_err(failed)?;
    let seams = sealcast_writer::Seams::default();
    let handle = sealcast_writer::start(config, seams, stop_on_signal()).await.map_err(failed)?;
    handle.join().await.map_err(failed)?;
    Ok(0)
}

pub(crate) async fn shipper(
    args: &sealcast_shipper::Args,
    file: Option<&Path>,
) -> Result<u8, Failure> {
    let config = load_section("shipper", file, args).map_err(failed)?;
    let seams = sealcast_shipper::Seams::default();
    let handle = sealcast_shipper::start(config, seams, stop_on_signal()).await.map_err(failed)?;
    match handle.join().await.map_err(failed)? {
        sealcast_shipper::Ended::Stopped => Ok(0),
        sealcast_shipper::Ended::Fenced => Err(fenced()),
    }
}

pub(crate) fn fenced() -> Failure {
    Failure::new("the shipper was fenced: another shipper has taken over its stream")
        .hint("stop one of the two; this one changes nothing any more")
        .code(FENCED)
}

pub(crate) async fn replica(
    args: &sealcast_replica::Args,
    file: Option<&Path>,
) -> Result<u8, Failure> {
    let config = load_section("replica", file, args).map_err(failed)?;
    let seams = sealcast_replica::Seams::default();
    let handle = sealcast_replica::start(config, seams, stop_on_signal()).await.map_err(failed)?;
    handle.join().await.map_err(failed)?;
    Ok(0)
}
