//! TLS through real sockets: handshakes, plain text at the door, pairs that do not open it, renewal.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as ClientStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::ManualClock;
use crate::durable::{RealFiles, replace_secret};
use crate::seams::Seams;
use crate::serve::access::AccessConfig;
use crate::serve::serve;

/// 2026-06-01.
const NOW: i64 = 1_780_272_000_000_000;

/// Certificate and key, PEM.
struct Pair {
    cert: String,
    key: String,
}

/// A certificate that signs itself, valid from one year to another.
fn pair(from: i32, until: i32) -> Pair {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    Pair { cert: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

struct Kit {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    health: Health,
}

impl Kit {
    fn new(cert: &str, key: &str) -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        let kit = Kit { dir: tempfile::tempdir().unwrap(), clock, health: Health::default() };
        kit.write(cert, key);
        kit
    }

    fn write(&self, cert: &str, key: &str) {
        for (name, text) in [("cert.pem", cert), ("key.pem", key)] {
            replace_secret(&RealFiles, &self.dir.path().join(name), text.as_bytes()).unwrap();
        }
    }

    fn config(&self) -> AccessConfig {
        let path = |name: &str| Some(self.dir.path().join(name));
        AccessConfig { tls_cert: path("cert.pem"), tls_key: path("key.pem"), ..Default::default() }
    }

    async fn bind(&self) -> Result<crate::serve::Bound, crate::serve::ServeError> {
        let clock = Arc::<ManualClock>::clone(&self.clock);
        let seams = Seams { clock, ..Seams::default() };
        self.config().bind("127.0.0.1:0", &seams, &self.health).await
    }

    async fn start(&self) -> (SocketAddr, CancellationToken) {
        let bound = self.bind().await.unwrap();
        assert_eq!(bound.scheme(), "https");
        let (address, stop) = (bound.address, CancellationToken::new());
        let router = Router::new().route("/", get(|| async { "inside" }));
        tokio::spawn(serve(bound, router, stop.clone(), Duration::ZERO));
        (address, stop)
    }

    fn notes(&self) -> String {
        format!("{:?}", self.health)
    }
}

/// A connection of somebody who believes `cert` and nothing else.
async fn connect(address: SocketAddr, cert: &str) -> std::io::Result<ClientStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

async fn ask(stream: &mut ClientStream<TcpStream>) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    while !answer.ends_with("inside") {
        let mut buffer = [0; 1_024];
        let read = stream.read(&mut buffer).await.unwrap();
        assert_ne!(read, 0, "{answer}");
        answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_handshake_opens_the_port() {
    let own = pair(2020, 2060);
    let kit = Kit::new(&own.cert, &own.key);
    let (address, stop) = kit.start().await;
    let mut stream = connect(address, &own.cert).await.unwrap();
    assert!(ask(&mut stream).await.starts_with("HTTP/1.1 200"));
    // Who believes somebody else does not go on, and hurts nobody.
    assert!(connect(address, &pair(2020, 2060).cert).await.is_err());
    for text in ["GET / HTTP/1.1\r\nhost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\0"] {
        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(text.as_bytes()).await.unwrap();
        let _half = plain.shutdown().await;
        let mut answer = Vec::new();
        let _end = plain.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(!answer.contains("HTTP") && !answer.contains("inside"), "{text:?}: {answer}");
    }
    assert!(ask(&mut stream).await.ends_with("inside"));
    stop.cancel();
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_opens_nothing() {
    let good = pair(2020, 2060);
    let (old, early) = (pair(2020, 2025), pair(2030, 2060));
    let cases = [
        (&old.cert, &old.key, "not now; renew it"),
        (&early.cert, &early.key, "not now; renew it"),
        (&good.cert, &old.key, "cannot be used together"),
        (&good.key, &good.key, "cert.pem cannot be used"),
        (&good.cert, &good.cert, "key.pem cannot be used"),
        (&String::new(), &good.key, "no certificate in it"),
        (&"hush".to_owned(), &good.key, "cert.pem cannot be used"),
        (&good.cert, &"hush".to_owned(), "key.pem cannot be used"),
    ];
    for (cert, key, words) in cases {
        let told = Kit::new(cert, key).bind().await.unwrap_err().to_string();
        assert!(told.contains(words) && !told.contains("hush"), "{words}: {told}");
        assert!(!told.contains("PRIVATE KEY"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_taken_and_drops_nobody() {
    let (first, second) = (pair(2020, 2060), pair(2020, 2060));
    let kit = Kit::new(&first.cert, &first.key);
    let (address, stop) = kit.start().await;
    let mut old = connect(address, &first.cert).await.unwrap();
    assert!(ask(&mut old).await.ends_with("inside"));
    // Half of a renewal, then an expired one: the pair that was good goes on, and it is told.
    let expired = pair(2020, 2025);
    for (cert, key) in [(&second.cert, &first.key), (&expired.cert, &expired.key)] {
        kit.write(cert, key);
        kit.clock.advance(1_000_000);
        let mut stream = connect(address, &first.cert).await.unwrap();
        assert!(ask(&mut stream).await.ends_with("inside"));
        assert!(kit.notes().contains("the pair read before is in force"), "{}", kit.notes());
        assert!(kit.health.reasons().is_empty());
    }
    kit.write(&second.cert, &second.key);
    kit.clock.advance(1_000_000);
    let mut new = connect(address, &second.cert).await.unwrap();
    assert!(ask(&mut new).await.ends_with("inside"));
    assert!(connect(address, &first.cert).await.is_err());
    assert!(!kit.notes().contains("in force"), "{}", kit.notes());
    assert!(ask(&mut old).await.ends_with("inside"), "the old connection goes on");
    stop.cancel();
}
