//! Seeded mutations of good requests, for every route, over bare sockets.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::tests::kit::Replica;
use crate::tests::plans::Dice;

/// Mutations of each request; `SEALCAST_MUTATIONS` for hand runs (the issue asks for 5,000).
const MUTATIONS: u64 = 80;
/// Connections at one time.
const PARALLEL: u64 = 32;
/// A server that is quiet for so long waits for the rest of a request that has none.
const QUIET: Duration = Duration::from_millis(100);

const GOOD: [&str; 17] = [
    "POST /v1/sql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 62\r\n\r\n{\"sql\":\"select tenant, count(*) from events group by 1\",\"a\":1}",
    "POST /v1/sql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 67\r\n\r\n{\"sql\":\"select _seq from events where tenant=$1\",\"params\":[\"acme\"]}",
    "POST /v1/sql HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\naccept: text/csv\r\ncontent-length: 45\r\n\r\nselect event_id, attributes->>'n' from events",
    "POST /v1/sql?format=arrow HTTP/1.1\r\nhost: x\r\ncontent-type: application/sql\r\ntransfer-encoding: chunked\r\n\r\n15\r\nselect * from events \r\n8\r\nlimit 12\r\n0\r\n\r\n",
    "GET /v1/sql?q=select%201%20as%20x&format=parquet&max_rows=5&timeout_ms=100 HTTP/1.1\r\nhost: x\r\naccept-encoding: gzip\r\n\r\n",
    "GET /v1/sql?q=select%20time%20from%20events&min=v1.oQAYKg&wait_ms=1&allow_partial=true HTTP/1.1\r\nhost: x\r\nif-none-match: W/\"00\"\r\n\r\n",
    "GET /v1/events?tenant=acme&from=2023-11-14T22:13:20Z&to=1800000000000000&limit=7&order=asc HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /v1/events?actor=a&action=b&target=c&outcome=denied&q=x&min=v1.oQAYKg&wait_ms=1&cursor=c1.AAAA HTTP/1.1\r\nhost: x\r\nif-none-match: *\r\n\r\n",
    "GET /v1/events/01890000-0000-7000-0000-000000000001?allow_partial=true&timeout_ms=9 HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /api/v3/query_sql?db=x&q=select%20_seq%20from%20events%20where%20tenant%3D%24t&format=pretty&params=%7B%22t%22:%22acme%22%7D HTTP/1.1\r\nhost: x\r\n\r\n",
    "POST /api/v3/query_sql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 63\r\n\r\n{\"db\":\"x\",\"q\":\"select $a as a\",\"params\":{\"a\":1},\"format\":\"csv\"}",
    "GET /v1/queries HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /v1/queries/00000000-0000-0000-0000-000000000001 HTTP/1.1\r\nhost: x\r\n\r\n",
    "DELETE /v1/queries/00000000-0000-0000-0000-000000000001 HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /v1/status HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n",
    "GET /openapi.json HTTP/1.1\r\nhost: x\r\naccept-encoding: gzip\r\n\r\n",
];

const PIECES: [&[u8]; 24] = [
    b"\0",
    b"\xff\xfe",
    b"\xc3\x28",
    b"\r\n",
    b"\r\n\r\n",
    b"%00",
    b"%zz",
    b"%ff",
    b"'",
    b"\"",
    b"\\",
    b"{",
    b"[[[[",
    b"(((((",
    b"select ",
    b" union all select ",
    b"$1",
    b"?",
    b"-9223372036854775809",
    b"1e999",
    b"null",
    b"\"sql\":",
    b"content-length: 99999999999999999999\r\n",
    b"application/xml",
];

fn mutate(dice: &mut Dice, request: &[u8]) -> Vec<u8> {
    let mut bytes = request.to_vec();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        match dice.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 => bytes.truncate(at),
            2 if at < bytes.len() => {
                drop(bytes.drain(at..(at + 1 + dice.below(16) as usize).min(bytes.len())))
            }
            3 => {
                let again = bytes[at..].to_vec();
                bytes.extend(again);
            }
            _ => {
                let piece = PIECES[dice.below(PIECES.len() as u64) as usize];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
    bytes
}

/// The status that the server answered, if it answered at all.
async fn send(replica: &Replica, bytes: &[u8], quiet: Duration) -> Option<u16> {
    let mut stream = TcpStream::connect(replica.handle.http).await.unwrap();
    // The server may have refused and closed already.
    let _sent = stream.write_all(bytes).await;
    let (mut answer, mut piece) = (Vec::new(), [0; 4_096]);
    // A client that closes its side has left, for the server: first let it answer.
    while let Ok(Ok(1..)) = timeout(quiet, stream.read(&mut piece))
        .await
        .map(|read| read.inspect(|read| answer.extend_from_slice(&piece[..*read])))
    {}
    let _closed = stream.shutdown().await;
    let _ended = timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).split(' ').nth(1)?.parse().ok()
}

fn mutations() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "for runs by hand")]
    let given = std::env::var("SEALCAST_MUTATIONS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(MUTATIONS)
}

async fn lane(replica: &Replica, lane: u64) {
    for (i, good) in GOOD.iter().enumerate() {
        for n in (lane..mutations()).step_by(PARALLEL as usize) {
            let mut dice = Dice::new(i as u64 * 1_000_000 + n);
            let bytes = mutate(&mut dice, good.as_bytes());
            let status = send(replica, &bytes, QUIET).await;
            assert_ne!(status, Some(500), "{i}/{n}: {}", String::from_utf8_lossy(&bytes));
        }
    }
}

/// Sends them all.
pub(super) async fn mutated(replica: &Replica) {
    for good in GOOD {
        let status = send(replica, good.as_bytes(), Duration::from_secs(2)).await;
        assert!(status.is_some(), "{good}");
    }
    futures::future::join_all((0..PARALLEL).map(|n| lane(replica, n))).await;
}
