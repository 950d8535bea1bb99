//! `sealcast signer`: keys in a process and a user of their own, until SIGTERM or Ctrl-C.

use sealcast_common::integrity::{Keyring, SignerServer, own_uid};
use sealcast_common::seams::Seams;

use super::roles::stop_on_signal;
use crate::args::SignerArgs;
use crate::output::{Failure, failed, line};

pub(crate) async fn run(args: SignerArgs) -> Result<u8, Failure> {
    let keyring = Keyring::open(&args.dir, args.new_keys, Seams::default()).map_err(failed)?;
    for origin in &args.create {
        line(keyring.create(origin).map_err(failed)?);
    }
    let allowed = if args.allow_uid.is_empty() { vec![own_uid()] } else { args.allow_uid };
    let stop = stop_on_signal();
    let server = SignerServer::bind(keyring, &args.socket, allowed.clone()).map_err(failed)?;
    let running = server.start().map_err(failed)?;
    let (dir, socket) = (args.dir.display(), args.socket.display());
    tracing::info!(%dir, %socket, ?allowed, "signer started");
    stop.cancelled().await;
    // Waits for the requests that run.
    tokio::task::spawn_blocking(move || drop(running)).await.map_err(failed)?;
    tracing::info!("signer stopped");
    Ok(0)
}
