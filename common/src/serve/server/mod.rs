//! Binding, serving and stopping an HTTP server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longer than load balancers keep idle connections, so that they close first.
const PATIENCE: Duration = Duration::from_secs(75);
/// After a failed accept, so that a lack of files does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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

/// What clients may hold of a server without asking anything.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Connections at one time; more wait in the system's queue.
    connections: usize,
    /// How long a request's head may take, and a connection may be idle.
    patience: Duration,
}

/// Serves until `stop` is cancelled, then lets running requests end for at most `drain`.
pub async fn serve(bound: Bound, router: Router, stop: CancellationToken, drain: Duration) {
    let bounds = Bounds { connections: connections_max(), patience: PATIENCE };
    serve_within(bound, router, stop, drain, bounds).await;
}

async fn serve_within(
    bound: Bound,
    router: Router,
    stop: CancellationToken,
    drain: Duration,
    bounds: Bounds,
) {
    let (tasks, places) = (TaskTracker::new(), Arc::new(Semaphore::new(bounds.connections)));
    let accept = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match bound.listener.accept().await {
                Ok((stream, _peer)) => {
                    let connection = connection(stream, router.clone(), stop.clone(), bounds);
                    tasks.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                // A client that left while it waited, or too many open files: not the server's end.
                Err(error) => {
                    tracing::debug!(%error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = stop.cancelled() => {}
    }
    drop(bound);
    tasks.close();
    let _over = tokio::time::timeout(drain, tasks.wait()).await;
}

/// One connection, to its end: closed by the client, idle for too long, or drained.
async fn connection(stream: TcpStream, router: Router, stop: CancellationToken, bounds: Bounds) {
    let asked = CancellationToken::new();
    let (first, inner) = (asked.clone(), TowerToHyperService::new(router));
    let service = service_fn(move |request: Request<Incoming>| {
        first.cancel();
        inner.call(request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(bounds.patience);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(bounds.patience);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    // The protocol itself bounds heads only after its first bytes have told its version.
    let silent = async {
        tokio::time::sleep(bounds.patience).await;
        if asked.is_cancelled() {
            std::future::pending::<()>().await;
        }
    };
    tokio::pin!(serving, silent);
    tokio::select! {
        _ended = serving.as_mut() => return,
        () = silent => return,
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    let _ended = serving.await;
}

/// A quarter of the files that the process may open: three servers in one process leave one for
/// the data, and a client that only connects never makes a log or a segment fail.
fn connections_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let files = files.and_then(|line| line.split_whitespace().next()?.parse().ok());
    (files.unwrap_or(1_024) / 4).clamp(8, 16_384)
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

#[cfg(test)]
mod tests;
