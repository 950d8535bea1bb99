//! Protocols that are not HTTP, behind the same door: the same tokens, certificate, bounds and drain.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{Bound, Tls, accept, connections_max};
use crate::serve::access::Access;

/// An idle connection's client is asked after so long, and then so often.
const IDLE: Duration = Duration::from_secs(60);
const PROBE_PAUSE: Duration = Duration::from_secs(15);

/// A stream in both directions, plain or by TLS.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// A connection of which nothing has been read yet.
#[derive(Debug)]
pub struct Knock {
    /// As accepted.
    pub stream: TcpStream,
    /// Who is let in.
    pub access: Access,
    tls: Option<Tls>,
}

impl Knock {
    /// Whether only TLS is spoken here.
    pub fn is_locked(&self) -> bool {
        self.tls.is_some()
    }

    /// The handshake of a client of PostgreSQL's protocol, and whether it named that protocol.
    /// `None`: it failed, or TLS is not set up; the connection is gone.
    pub async fn secure(self) -> Option<(Box<dyn Duplex>, bool)> {
        let (stream, named) = self.tls?.accept_postgres(self.stream).await?;
        Some((Box::new(stream), named))
    }
}

/// Idle connections hold places, and a client may be gone without a word: it is asked.
fn keep_alive(stream: &TcpStream) {
    use rustix::net::sockopt;
    let asked = sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, IDLE))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, PROBE_PAUSE));
    if let Err(error) = asked {
        tracing::debug!(%error, "connection will not be asked whether it is alive");
    }
}

/// Gives every connection to `open` until `stop` is cancelled, then lets those that are open end for
/// at most `drain`, as HTTP's server does. What is read and said before a handshake is `open`'s to get right.
pub async fn serve_raw<F>(
    bound: Bound,
    stop: CancellationToken,
    drain: Duration,
    open: impl Fn(Knock) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (access, tls) = (bound.access.clone(), bound.tls.clone());
    let open = |stream| {
        keep_alive(&stream);
        open(Knock { stream, access: access.clone(), tls: tls.clone() })
    };
    accept(bound, stop, drain, connections_max(), open).await;
}
