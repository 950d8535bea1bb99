//! Hostile input over real HTTP: mutated requests of every route, bombs, slow senders. No panic, no
//! 500, and whoever asks properly is served meanwhile and afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

use super::support::{Writer, config, event, gzip, sealed_rows};
use crate::{Config, Seams};

/// Mutated requests of each route.
const MUTATIONS: u64 = 5_000;
/// At one time.
const PARALLEL: u64 = 40;

/// What breaks parsers: spliced in anywhere.
const TOKENS: [&[u8]; 22] = [
    b"\0",
    b"\xff\xfe",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"1e999999999",
    b"-0",
    b"99999999999999999999999999",
    b"null",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"\r\n",
    b"\r\n\r\n",
    b"%00",
    b"?partial=true",
    b"content-length: 18446744073709551615\r\n",
    b"transfer-encoding: chunked\r\n",
    b"content-encoding: gzip\r\n",
    b"9999-12-31T23:59:60.999Z",
];

/// Ends heads and bodies that a mutation has left open, and the connection.
const FILLER: &str = concat!(
    "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n",
    "GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
);

/// A small seeded generator: the same seed is the same request.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound.max(1)
    }
}

fn mutated(request: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Seeded(seed);
    let mut bytes = request.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let len = random.below(bytes.len() - at).min(40);
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => drop(bytes.drain(at..at + len)),
            2 => drop(bytes.splice(at..at, bytes[at..at + len].to_vec())),
            3 => bytes.truncate(at + 1),
            4 => drop(bytes.splice(at..at, TOKENS[random.below(TOKENS.len())].to_vec())),
            _ => bytes[at] = random.next() as u8,
        }
        if bytes.is_empty() {
            bytes.push(b'G');
        }
    }
    bytes
}

fn request(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Good requests of every route.
fn routes() -> Vec<Vec<Vec<u8>>> {
    let one = r#"{"tenant":"acme","action":"user.login","event_id":"01890a5d-ac96-774b-bcce-b302099a8057","time":"2024-05-01T10:00:00.25Z","severity":9,"source_ip":"10.0.0.1","targets":[{"type":"user","id":"u1"}],"attributes":{"n":1.50,"deep":{"a":[1,2,{"b":null}]},"s":"é\n"}}"#;
    let lines = format!("{one}\n{{\"tenant\":\"t\",\"action\":\"b\"}}\n");
    let (json, ndjson) =
        ("content-type: application/json\r\n", "content-type: application/x-ndjson\r\n");
    let post = "POST /v1/events";
    let packed = |encoding: &str| format!("{json}content-encoding: {encoding}\r\n");
    let zstd = zstd::encode_all(one.as_bytes(), 1).unwrap();
    let chunked = format!(
        "POST /v1/events HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n0\r\n\r\n",
        one.len()
    );
    let mut all = vec![
        vec![
            request(post, json, one.as_bytes()),
            request("POST /v1/events?partial=true", ndjson, lines.as_bytes()),
            request(post, &format!("{json}idempotency-key: k1\r\n"), format!("[{one}]").as_bytes()),
            request(post, &packed("gzip"), &gzip(one.as_bytes())),
            request(post, &packed("zstd"), &zstd),
            chunked.into_bytes(),
        ],
        vec![request("POST /v1/admin/flush?wait=sealed&timeout_ms=2000", "", b"")],
    ];
    for path in ["/v1/shards", "/livez", "/readyz", "/metrics"] {
        let line = format!("GET {path}");
        all.push(vec![request(&line, "accept: */*\r\nsealcast-routing-version: 1\r\n", b"")]);
    }
    all
}

/// The status of the answer; `None` if the server only closed the connection. `filler` lets
/// nobody wait for the rest.
async fn ask(address: std::net::SocketAddr, bytes: &[u8], filler: &[u8]) -> Option<u16> {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    // Refused early, the server may close before everything is written.
    let _closed = stream.write_all(&[bytes, filler].concat()).await;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    if tokio::time::timeout(Duration::from_millis(300), read).await.is_err() {
        let _closed = stream.shutdown().await;
        let _reset = stream.read_to_end(&mut answer).await;
    }
    let status =
        answer.strip_prefix(b"HTTP/1.1 ").or(answer.strip_prefix(b"HTTP/1.0 "))?.get(..3)?;
    std::str::from_utf8(status).ok()?.parse().ok()
}

/// Counts panics from now on, of all threads.
fn panics() -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let (seen, before) = (Arc::clone(&count), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        seen.fetch_add(1, Ordering::SeqCst);
        before(info);
    }));
    count
}

/// Posts good events until told to stop; how many were stored.
async fn good_client(writer: Arc<Writer>, stop: Arc<AtomicBool>) -> usize {
    let mut stored = 0;
    while !stop.load(Ordering::SeqCst) {
        let answer = writer.post_json(&event("good", "served")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        stored += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stored
}

#[tokio::test(flavor = "multi_thread")]
async fn mutated_requests_break_nothing() {
    let (dir, panics) = (tempfile::tempdir().unwrap(), panics());
    let config = Config { body_stall_ms: 50, ..config(dir.path()) };
    let writer = Arc::new(Writer::start_with(config, Seams::default()).await.unwrap());
    let (stop, address) = (Arc::new(AtomicBool::new(false)), writer.address());
    let good = tokio::spawn(good_client(Arc::clone(&writer), Arc::clone(&stop)));
    for (number, route) in routes().into_iter().enumerate() {
        let (route, mut tasks) = (Arc::new(route), JoinSet::new());
        for good in route.iter() {
            assert_eq!(
                ask(address, good, b"").await,
                Some(200),
                "{}",
                String::from_utf8_lossy(good)
            );
        }
        for task in 0..PARALLEL {
            let route = Arc::clone(&route);
            tasks.spawn(async move {
                for seed in (task..MUTATIONS).step_by(PARALLEL as usize) {
                    let bytes = mutated(
                        &route[seed as usize % route.len()],
                        seed + 1_000_003 * number as u64,
                    );
                    let status = ask(address, &bytes, FILLER.as_bytes()).await;
                    // A flush may have been given no time; nothing else may fail.
                    let fine = status.is_none_or(|status| status < 500 || status == 504);
                    assert!(fine, "{status:?}: {}", bytes.escape_ascii());
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    }
    stop.store(true, Ordering::SeqCst);
    let stored = good.await.unwrap();
    assert_eq!(panics.load(Ordering::SeqCst), 0);
    let writer = Arc::into_inner(writer).unwrap();
    assert_eq!(writer.post_json(&event("good", "served")).await.status, 200);
    writer.stop().await.unwrap();
    // Every segment verifies, and what was acknowledged is there.
    let rows = sealed_rows(dir.path());
    assert_eq!(rows.iter().filter(|row| row.action == "served").count(), stored + 1);
    Writer::start(dir.path()).await.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_hold_nothing_of_others() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config {
        body_ms: 400,
        body_stall_ms: 100,
        // Room for two bodies of the greatest size: whoever reserved by the stated length would
        // keep everybody else out.
        ingest_bytes: 32 << 20,
        ..config(dir.path())
    };
    let writer = Arc::new(Writer::start_with(config, Seams::default()).await.unwrap());
    let (stop, address) = (Arc::new(AtomicBool::new(false)), writer.address());
    let good = tokio::spawn(good_client(Arc::clone(&writer), Arc::clone(&stop)));
    let mut slow = JoinSet::new();
    for i in 0..60 {
        slow.spawn(async move {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let head = "POST /v1/events HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 16000000\r\n\r\n[";
            let _closed = stream.write_all(head.as_bytes()).await;
            let (mut read, mut write) = stream.split();
            let trickle = async {
                // A byte now and then, or nothing at all.
                while i % 2 == 0 && write.write_all(b" ").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(30)).await;
                }
                std::future::pending::<()>().await;
            };
            let mut answer = Vec::new();
            tokio::select! {
                _end = read.read_to_end(&mut answer) => {}
                () = trickle => {}
            }
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert!(answer.contains("408") && answer.contains("body_too_slow"), "{answer}");
            assert!(answer.contains("body_ms") || answer.contains("body_stall_ms"), "{answer}");
        });
    }
    while let Some(done) = slow.join_next().await {
        done.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    assert!(good.await.unwrap() > 0);
    Arc::into_inner(writer).unwrap().stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bombs_and_deep_texts_are_refused_cheaply() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let json = Some("application/json");
    let bomb = gzip(&vec![b' '; 64 << 20]);
    let nested = gzip(&gzip(&vec![b'['; 1 << 20]));
    let zstd_bomb = zstd::encode_all(vec![b'['; 64 << 20].as_slice(), 1).unwrap();
    // A frame that asks for a window of 2 GiB.
    let greedy = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8][..], &[0x01, 0x00, 0x00]].concat();
    let cases: Vec<(Option<&str>, Vec<u8>)> = vec![
        (Some("gzip"), bomb),
        (Some("gzip"), nested),
        (Some("zstd"), zstd_bomb),
        (Some("zstd"), greedy),
        (None, vec![b'['; 1 << 20]),
        (None, format!("{}1{}", r#"{"a":"#.repeat(40_000), "}".repeat(40_000)).into_bytes()),
        (
            None,
            format!(
                r#"{{"tenant":"t","action":"a","attributes":{{"n":1e{}}}}}"#,
                "9".repeat(2_000)
            )
            .into_bytes(),
        ),
        (
            None,
            format!(
                r#"{{"tenant":"t","action":"a","attributes":{{"n":{}}}}}"#,
                "9".repeat(200_000)
            )
            .into_bytes(),
        ),
    ];
    for (encoding, body) in cases {
        let answer = writer.post(json, encoding, body).await;
        assert!((400..500).contains(&answer.status), "{encoding:?}: {}", answer.text);
        assert!(!answer.json()["code"].as_str().unwrap().is_empty());
    }
    assert_eq!(writer.post_json(&event("t", "a")).await.status, 200);
    writer.stop().await.unwrap();
}
