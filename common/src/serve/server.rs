//! Binding, serving and stopping an HTTP server.

use std::future::IntoFuture as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("address {address} cannot be listened on: {reason}")]
    Bind {
        /// As configured.
        address: String,
        /// The system's word.
        reason: String,
    },
    /// The server stopped by itself.
    #[error("http server failed: {0}")]
    Serve(std::io::Error),
}

/// A listening socket.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    /// The real address, also when port 0 was asked for.
    pub address: SocketAddr,
}

/// Listens on `address`, such as `127.0.0.1:7070`.
pub async fn bind(address: &str) -> Result<Bound, ServeError> {
    let failed = |reason: std::io::Error| ServeError::Bind {
        address: address.to_owned(),
        reason: reason.to_string(),
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, address })
}

/// Serves until `stop` is cancelled, then lets running requests end for at most `drain`.
pub async fn serve(
    bound: Bound,
    router: Router,
    stop: CancellationToken,
    drain: Duration,
) -> Result<(), ServeError> {
    let graceful = stop.clone();
    let server = axum::serve(bound.listener, router)
        .with_graceful_shutdown(async move { graceful.cancelled().await });
    let server = server.into_future();
    let deadline = async {
        stop.cancelled().await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        served = server => served.map_err(ServeError::Serve),
        () = deadline => Ok(()),
    }
}

/// Completes on SIGTERM or Ctrl-C.
pub async fn shutdown_signal() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _stopped = interrupt.await;
}
