//! TLS of a server: rustls with ring; certificate and key are read again when they change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::CertificateText;
use crate::clock::{Clock, Micros};
use crate::limits::HANDSHAKE_MS_MAX;
use crate::serve::Health;
use crate::serve::watch::{Pace, Stamp};

/// The note under which a server speaks of its certificate.
const HEALTH: &str = "tls";

/// Why there is no TLS, and therefore no server.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM.
    #[error("tls file {file} cannot be used: {reason}")]
    File {
        /// Its path.
        file: String,
        /// The system's or the parser's word.
        reason: String,
    },
    /// Clients would refuse it, so that only those who check nothing would be served.
    #[error("tls certificate {file} is valid from {from} until {until}, not now; renew it")]
    Dates {
        /// Its path.
        file: String,
        /// The first moment.
        from: Micros,
        /// The first moment after it.
        until: Micros,
    },
    /// They do not belong together, or are of a kind that is not served.
    #[error("tls certificate {cert} and key {key} cannot be used together: {reason}")]
    Pair {
        /// The certificate's path.
        cert: String,
        /// The key's path.
        key: String,
        /// rustls' word.
        reason: String,
    },
}

/// What a listening socket needs to speak TLS, and nothing else.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// The same for PostgreSQL's protocol, whose newer clients insist on its name.
    postgres: TlsAcceptor,
    certificate: Arc<Certificate>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate.cert).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads certificate and key; what cannot be used is an error, never plain text.
    pub fn open(
        cert: PathBuf,
        key: PathBuf,
        clock: Arc<dyn Clock>,
        health: Health,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let (stamps, pair) = (stamps(&cert, &key), load(&cert, &key, &provider, clock.now())?);
        let pair_error = |error: rustls::Error| TlsError::Pair {
            cert: cert.display().to_string(),
            key: key.display().to_string(),
            reason: error.to_string(),
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(pair_error)?;
        let certificate = Arc::new(Certificate {
            cert,
            key,
            provider,
            pace: Pace::new(Arc::clone(&clock)),
            clock,
            health,
            current: RwLock::new((stamps, Arc::new(pair))),
        });
        let resolver = Arc::<Certificate>::clone(&certificate);
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        let postgres = TlsAcceptor::from(Arc::new(config.clone()));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), postgres, certificate })
    }

    /// The handshake. Whoever fails it, or takes too long, is gone.
    pub(super) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        shake(&self.acceptor, stream).await
    }

    /// The same where PostgreSQL's protocol follows; whether its name was agreed upon comes with it.
    pub(super) async fn accept_postgres(
        &self,
        stream: TcpStream,
    ) -> Option<(TlsStream<TcpStream>, bool)> {
        let stream = shake(&self.postgres, stream).await?;
        let named = stream.get_ref().1.alpn_protocol().is_some();
        Some((stream, named))
    }

    /// Looks at the files again if it is time to.
    pub(super) fn refresh(&self) {
        self.certificate.refresh();
    }
}

async fn shake(acceptor: &TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let patience = std::time::Duration::from_millis(HANDSHAKE_MS_MAX);
    let failure = match timeout(patience, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no handshake within {HANDSHAKE_MS_MAX} ms"),
    };
    metrics::counter!("sealcast_tls_handshakes_failed_total").increment(1);
    tracing::debug!(error = failure, "handshake failed");
    None
}

type Stamps = [Option<Stamp>; 2];

struct Certificate {
    cert: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    clock: Arc<dyn Clock>,
    pace: Pace,
    health: Health,
    current: RwLock<(Stamps, Arc<CertifiedKey>)>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate").field("cert", &self.cert).finish_non_exhaustive()
    }
}

impl Certificate {
    fn current(&self) -> (Stamps, Arc<CertifiedKey>) {
        match self.current.read() {
            Ok(current) => current.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }

    fn refresh(&self) {
        let (seen, old) = self.current();
        let now = stamps(&self.cert, &self.key);
        if !self.pace.is_due() || now == seen {
            return;
        }
        let (pair, result) = match load(&self.cert, &self.key, &self.provider, self.clock.now()) {
            Ok(pair) => {
                self.health.clear(HEALTH);
                tracing::info!(file = %self.cert.display(), "certificate read again");
                (Arc::new(pair), "ok")
            }
            // Between the two renames of a renewal they do not match: the old pair goes on.
            Err(error) => {
                self.health.note(HEALTH, format!("{error}: the pair read before is in force"));
                tracing::error!(%error, "certificate not read again");
                (old, "invalid")
            }
        };
        metrics::counter!("sealcast_tls_reloads_total", "result" => result).increment(1);
        match self.current.write() {
            Ok(mut current) => *current = (now, pair),
            Err(poisoned) => *poisoned.into_inner() = (now, pair),
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.refresh();
        Some(self.current().1)
    }
}

fn stamps(cert: &Path, key: &Path) -> Stamps {
    [Stamp::at(cert).ok(), Stamp::at(key).ok()]
}

fn load(
    cert: &Path,
    key: &Path,
    provider: &CryptoProvider,
    now: Micros,
) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain: Vec<CertificateDer<'static>> = chain.map_err(unusable(cert))?;
    let first = chain.first().ok_or_else(|| unusable(cert)("no certificate in it"))?;
    let text =
        CertificateText::of(first).ok_or_else(|| unusable(cert)("its dates are unreadable"))?;
    if !text.is_valid(now) {
        let file = cert.display().to_string();
        return Err(TlsError::Dates { file, from: text.from, until: text.until });
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(unusable(key))?;
    CertifiedKey::from_der(chain, secret, provider).map_err(|error| TlsError::Pair {
        cert: cert.display().to_string(),
        key: key.display().to_string(),
        reason: error.to_string(),
    })
}

fn unusable<E: ToString>(path: &Path) -> impl FnOnce(E) -> TlsError {
    let file = path.display().to_string();
    move |reason| TlsError::File { file, reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
