//! Binding, serving and stopping an HTTP server, in plain text or by TLS.

mod certificate;
mod raw;
mod tls;

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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::{Access, AccessError, Strangers, guard};

pub use certificate::CertificateText;
pub use raw::{Duplex, Knock, serve_raw};
pub use tls::{Tls, TlsError};

/// Longer than load balancers keep idle connections, so that they close first.
const PATIENCE: Duration = Duration::from_secs(75);
/// After a failed accept, so that a lack of files does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often tokens and certificates are looked at while nobody asks.
const RELOAD_EVERY: Duration = Duration::from_secs(5);

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
    /// Its tokens or its certificate, or the lack of them.
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// A listening socket, and its locks.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    tls: Option<Tls>,
    access: Access,
    strangers: Strangers,
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
    let strangers = Strangers { metrics: true, routes: false };
    Ok(Bound { listener, tls: None, access: Access::open(), strangers, address })
}

impl Bound {
    /// Every connection speaks TLS, if given; every request passes the guard of `access`.
    #[must_use]
    pub(super) fn locked(self, access: Access, tls: Option<Tls>, strangers: Strangers) -> Self {
        Bound { tls, access, strangers, ..self }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Reads tokens and certificates again when they change, and folds what was measured, also while
    /// nobody asks.
    async fn reload(&self) {
        loop {
            tokio::time::sleep(RELOAD_EVERY).await;
            self.access.refresh();
            super::telemetry::upkeep();
            if let Some(tls) = &self.tls {
                tls.refresh();
            }
        }
    }
}

/// What clients may hold of a server without asking anything.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Connections at one time; more wait in the system's queue.
    connections: usize,
    /// How long a request's head may take, and a connection may be idle.
    patience: Duration,
}

/// Serves until `stop` is cancelled, then lets running requests end for at most `drain`. No router
/// is served without the guard.
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
    let router = guard(router, bound.access.clone(), bound.strangers);
    let (tls, ending) = (bound.tls.clone(), stop.clone());
    let open = move |stream| open(stream, tls.clone(), router.clone(), ending.clone(), bounds);
    accept(bound, stop, drain, bounds.connections, open).await;
}

/// Gives every connection to `open` until `stop` is cancelled, then lets those that are open end for
/// at most `drain`.
async fn accept<F>(
    bound: Bound,
    stop: CancellationToken,
    drain: Duration,
    connections: usize,
    open: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (tasks, places) = (TaskTracker::new(), Arc::new(Semaphore::new(connections)));
    let accept = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match bound.listener.accept().await {
                Ok((stream, _peer)) => {
                    let opened = open(stream);
                    tasks.spawn(async move {
                        opened.await;
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
        () = bound.reload() => {}
        () = stop.cancelled() => {}
    }
    drop(bound);
    tasks.close();
    let _over = tokio::time::timeout(drain, tasks.wait()).await;
}

/// A connection from its first byte: with TLS, nothing is read or said before the handshake.
async fn open(
    stream: TcpStream,
    tls: Option<Tls>,
    router: Router,
    stop: CancellationToken,
    bounds: Bounds,
) {
    let Some(tls) = tls else { return connection(stream, router, stop, bounds).await };
    if let Some(Some(stream)) = stop.run_until_cancelled(tls.accept(stream)).await {
        connection(stream, router, stop, bounds).await;
    }
}

/// One connection, to its end: closed by the client, idle for too long, or drained.
async fn connection<S>(stream: S, router: Router, stop: CancellationToken, bounds: Bounds)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
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
