//! `sealcast writer | shipper | replica | witness`: one role in this process, until SIGTERM or Ctrl-C.

use std::path::Path;

use sealcast_common::serve::{init_telemetry, shutdown_signal};
use tokio_util::sync::CancellationToken;

use crate::args::{Cli, Command};
use crate::output::{Failure, failed};

/// Logs and metrics: roles say what they do, tools and the demo only what goes wrong.
pub(crate) fn init_logs(cli: &Cli) -> Result<(), Failure> {
    let role = matches!(
        cli.command,
        Command::Dev(_)
            | Command::Writer(_)
            | Command::Shipper(_)
            | Command::Replica(_)
            | Command::Witness(_)
            | Command::Signer(_)
    );
    let filter = cli.log.as_deref().unwrap_or(if role { "info" } else { "warn" });
    init_telemetry(cli.log_format, filter).map_err(failed)
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
    let config = sealcast_writer::Config::load(file, args).map_err(failed)?;
    let seams = sealcast_writer::Seams::default();
    let handle = sealcast_writer::start(config, seams, stop_on_signal()).await;
    let handle = handle.map_err(|error| writer_failure(&error))?;
    handle.join().await.map_err(failed)?;
    Ok(0)
}

/// Why the writer does not start, and what to do.
pub(crate) fn writer_failure(error: &sealcast_writer::StartError) -> Failure {
    let failure = failed(error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

pub(crate) async fn shipper(
    args: &sealcast_shipper::Args,
    file: Option<&Path>,
) -> Result<u8, Failure> {
    let config = sealcast_shipper::Config::load(file, args).map_err(failed)?;
    let seams = sealcast_shipper::Seams::default();
    let handle = sealcast_shipper::start(config, seams, stop_on_signal()).await.map_err(failed)?;
    shipper_ended(&handle.join().await.map_err(failed)?)
}

/// Exit code 0, what was left behind by `--once`, or the fence.
pub(crate) fn shipper_ended(ended: &sealcast_shipper::Ended) -> Result<u8, Failure> {
    match ended {
        sealcast_shipper::Ended::Fenced => {
            let hint = "stop one of the two; this one changes nothing any more";
            let what = "the shipper was fenced: another shipper has taken over its stream";
            Err(Failure::new(what).hint(hint).code(ended.exit_code()))
        }
        other => Ok(other.exit_code()),
    }
}

pub(crate) async fn replica(
    args: &sealcast_replica::Args,
    file: Option<&Path>,
) -> Result<u8, Failure> {
    let config = sealcast_replica::Config::load(file, args).map_err(failed)?;
    let seams = sealcast_replica::Seams::default();
    let handle = sealcast_replica::start(config, seams, stop_on_signal()).await.map_err(failed)?;
    handle.join().await.map_err(failed)?;
    Ok(0)
}

pub(crate) async fn witness(
    args: &sealcast_witness::Args,
    file: Option<&Path>,
) -> Result<u8, Failure> {
    let config = sealcast_witness::Config::load(file, args).map_err(failed)?;
    let seams = sealcast_witness::Seams::default();
    let handle = sealcast_witness::start(config, seams, stop_on_signal()).await.map_err(failed)?;
    handle.join().await.map_err(failed)?;
    Ok(0)
}
