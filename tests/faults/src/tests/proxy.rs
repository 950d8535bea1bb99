//! The line does what it is told, for connections that are open too.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::{Network, Proxy};

/// Echoes on every connection.
async fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = peer.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    address
}

async fn echoed(line: &mut TcpStream, text: &[u8]) -> std::io::Result<Vec<u8>> {
    line.write_all(text).await?;
    let mut answer = vec![0; text.len()];
    line.read_exact(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn a_line_is_slow_silent_cut_and_good_again() {
    let proxy = Proxy::start(echo().await).await.unwrap();
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(echoed(&mut line, b"one").await.unwrap(), b"one");
    for network in [Network::Slow(Duration::from_millis(1)), Network::Throttled(1_000_000)] {
        proxy.set(network);
        assert_eq!(echoed(&mut line, b"two").await.unwrap(), b"two");
    }
    proxy.set(Network::Silent);
    let waited = tokio::time::timeout(Duration::from_millis(20), echoed(&mut line, b"x")).await;
    assert!(waited.is_err(), "nothing may come back");
    proxy.set(Network::Good);
    let mut late = [0; 1];
    line.read_exact(&mut late).await.unwrap();
    assert_eq!(&late, b"x");
    proxy.set(Network::Cut);
    echoed(&mut line, b"three").await.unwrap_err();
    let cut = TcpStream::connect(proxy.address()).await;
    assert!(echoed(&mut cut.unwrap(), b"four").await.is_err());
    proxy.set(Network::Good);
    let mut line = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(echoed(&mut line, b"five").await.unwrap(), b"five");
    line.shutdown().await.unwrap();
    assert_eq!(line.read(&mut [0; 8]).await.unwrap(), 0, "the end passes too");
    assert_eq!(proxy.connections(), 3);
    assert_eq!(proxy.bytes(), 2 * (3 + 3 + 3 + 1 + 4));
}
