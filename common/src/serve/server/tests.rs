//! Clients that hold connections without asking anything, and the end of a server.

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::*;

async fn started(bounds: Bounds) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let (stop, bound) = (CancellationToken::new(), bind("127.0.0.1:0").await.unwrap());
    let (address, drain) = (bound.address, Duration::from_secs(30));
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        "slow"
    };
    let router = Router::new().route("/", get(|| async { "fast" })).route("/slow", get(slow));
    let serving = tokio::spawn(serve_within(bound, router, stop.clone(), drain, bounds));
    (address, stop, serving)
}

async fn ask(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_counted_and_closed() {
    let bounds = Bounds { connections: 3, patience: Duration::from_millis(300) };
    let (address, stop, serving) = started(bounds).await;
    let mut idle = Vec::new();
    // Nothing, the first letter of both protocols, half a head, an answered request: all are idle.
    let half = "GET / HTTP/1.1\r\nhost: x\r\nx: ";
    for text in ["", "P", half, "GET / HTTP/1.1\r\nhost: x\r\n\r\n"].repeat(3) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    assert!(ask(address, "/").await.ends_with("fast"));
    for mut stream in idle {
        let _reset_or_end = stream.read_to_end(&mut Vec::new()).await;
    }
    // A request that takes longer than that is not idle.
    assert!(ask(address, "/slow").await.ends_with("slow"));
    stop.cancel();
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_request_is_answered_before_the_end() {
    let bounds = Bounds { connections: 8, patience: Duration::from_secs(60) };
    let (address, stop, serving) = started(bounds).await;
    let _idle = TcpStream::connect(address).await.unwrap();
    let running = tokio::spawn(async move { ask(address, "/slow").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.cancel();
    assert!(running.await.unwrap().ends_with("slow"));
    serving.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[test]
fn the_bound_leaves_files_for_the_data() {
    assert!((8..=16_384).contains(&connections_max()));
}
