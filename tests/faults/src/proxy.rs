//! A TCP proxy on loopback: delays, slow lines, cut lines, and lines on which nothing comes back.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The state of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Everything passes at once.
    #[default]
    Good,
    /// Everything passes, each piece so much later.
    Slow(Duration),
    /// So many bytes a second in each direction.
    Throttled(u64),
    /// Connections are reset, new ones too.
    Cut,
    /// Connections stay open and nothing passes: a peer that has vanished without a word.
    Silent,
}

/// A running proxy; it ends with everything on it when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    network: watch::Sender<Network>,
    counts: Arc<Counts>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    bytes: AtomicU64,
}

impl Proxy {
    /// Listens on a port of its own and forwards to `target`.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (network, line) = watch::channel(Network::Good);
        let counts = Arc::new(Counts::default());
        let accepting = tokio::spawn(accept(listener, target, line, Arc::clone(&counts)));
        Ok(Proxy { address, network, counts, accepting })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the line, for open connections too.
    pub fn set(&self, network: Network) {
        self.network.send_replace(network);
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// Bytes forwarded so far, in both directions.
    pub fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.send_replace(Network::Cut);
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    line: watch::Receiver<Network>,
    counts: Arc<Counts>,
) {
    let mut open = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        counts.connections.fetch_add(1, Ordering::SeqCst);
        while open.try_join_next().is_some() {}
        open.spawn(carry(client, target, line.clone(), Arc::clone(&counts)));
    }
}

/// One connection, until one side ends or the line is cut.
async fn carry(
    mut client: TcpStream,
    target: SocketAddr,
    mut line: watch::Receiver<Network>,
    counts: Arc<Counts>,
) {
    if *line.borrow() == Network::Cut {
        return reset(client);
    }
    let Ok(mut server) = TcpStream::connect(target).await else { return reset(client) };
    let carried = {
        let (client_in, client_out) = client.split();
        let (server_in, server_out) = server.split();
        let up = pump(client_in, server_out, line.clone(), &counts);
        let down = pump(server_in, client_out, line.clone(), &counts);
        let cut = line.wait_for(|network| *network == Network::Cut);
        tokio::select! {
            _ = async { tokio::join!(up, down) } => true,
            _ = cut => false,
        }
    };
    if !carried {
        reset(client);
        reset(server);
    }
}

fn reset(stream: TcpStream) {
    // If this fails, the peer sees an orderly end, which it must survive as well.
    let _ = stream.set_zero_linger();
}

/// Carries one direction; ends at its end of file or first error.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut line: watch::Receiver<Network>,
    counts: &Counts,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let heard = line.wait_for(|network| *network != Network::Silent).await;
        let Ok(network) = heard.map(|network| *network) else { break };
        let wait = match network {
            Network::Slow(time) => time,
            Network::Throttled(rate) => {
                Duration::from_micros(read as u64 * 1_000_000 / rate.max(1))
            }
            Network::Good | Network::Cut | Network::Silent => Duration::ZERO,
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            break;
        }
        counts.bytes.fetch_add(read as u64, Ordering::SeqCst);
    }
    // The other side learns of the end; an error means that it knows already.
    let _ = to.shutdown().await;
}
