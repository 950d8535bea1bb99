//! A result that is broken in the middle can never be read as a complete one: every format, over
//! HTTP/1.1 as it is on the wire, over HTTP/2, plain and compressed.

use std::io::Read as _;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use uuid::Uuid;

use super::kit::{Bucket, Replica};
use super::strict::damaged;

const FORMATS: [&str; 5] = ["json", "ndjson", "csv", "arrow", "parquet"];
const ENDLESS: &str = "select value, 'some text to fill the pipe' as t from \
    generate_series(1, 1000000000000)";

/// An answer as it came over the wire.
#[derive(Debug)]
struct Wire {
    head: String,
    body: Vec<u8>,
    /// The last chunk came.
    ended: bool,
    trailers: String,
}

impl Wire {
    fn read(bytes: &[u8]) -> Self {
        let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&bytes[..split]).to_lowercase();
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        let mut wire = Wire { head, body: Vec::new(), ended: false, trailers: String::new() };
        let mut rest = &bytes[split + 4..];
        while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
            let size = std::str::from_utf8(&rest[..line]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            rest = &rest[line + 2..];
            if size == 0 {
                wire.ended = true;
                wire.trailers = String::from_utf8_lossy(rest).to_lowercase();
                break;
            }
            wire.body.extend_from_slice(&rest[..size.min(rest.len())]);
            rest = rest.get(size + 2..).unwrap_or_default();
        }
        wire
    }
}

/// Sends a query over a bare socket and reads until the server closes.
async fn ask(replica: &Replica, body: &Value, more: &str) -> Wire {
    let mut stream = TcpStream::connect(replica.handle.http).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /v1/sql HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\
         content-type: application/json\r\n{more}\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A reset is one of the ways in which a broken answer may end.
    let _ended = stream.read_to_end(&mut bytes).await;
    Wire::read(&bytes)
}

/// Whether the bytes by themselves pass for a whole answer, for formats that can tell.
fn is_whole(format: &str, body: &[u8]) -> bool {
    match format {
        "json" => serde_json::from_slice::<Value>(body).is_ok(),
        "arrow" => body.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
        "parquet" => body.len() > 4 && body.ends_with(b"PAR1"),
        _ => String::from_utf8_lossy(body).contains("sealcast_end"),
    }
}

fn unzip(body: &[u8]) -> (Vec<u8>, bool) {
    let mut plain = Vec::new();
    let ended = flate2::read::GzDecoder::new(body).read_to_end(&mut plain);
    (plain, ended.is_ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_segment_breaks_every_format_on_the_wire() {
    let bucket = damaged(3_000).await;
    let replica = bucket.replica_with(|config| config.partitions = 1).await;
    replica.wait_visible(9_000).await;
    for format in FORMATS {
        let sql = "select _seq, attributes from events";
        let body = json!({ "sql": sql, "format": format, "end_marker": true });
        for more in ["", "te: trailers\r\n"] {
            let wire = ask(&replica, &body, more).await;
            assert!(wire.head.starts_with("http/1.1 200"), "{format}: {}", wire.head);
            assert!(!wire.ended && !is_whole(format, &wire.body), "{format}: {wire:?}");
        }
        let wire = ask(&replica, &body, "accept-encoding: gzip\r\n").await;
        let zipped = wire.head.contains("content-encoding: gzip");
        assert_eq!(zipped, format != "parquet", "{format}: {}", wire.head);
        let (plain, ended) = unzip(&wire.body);
        assert!(!wire.ended && !ended && !is_whole(format, &plain), "{format}");

        let whole = json!({ "sql": format!("{sql} where _seq < 3000"), "format": format, "end_marker": true });
        let wire = ask(&replica, &whole, "te: trailers\r\n").await;
        assert!(wire.ended && is_whole(format, &wire.body), "{format}: {}", wire.head);
        assert!(wire.trailers.contains("sealcast-complete: true"), "{format}: {}", wire.trailers);
        assert!(wire.trailers.contains("sealcast-rows: 3000"), "{format}: {}", wire.trailers);
        let wire = ask(&replica, &whole, "accept-encoding: gzip\r\nte: trailers\r\n").await;
        assert!(wire.ended && wire.trailers.contains("sealcast-rows: 3000"), "{format}");
        if format != "parquet" {
            assert!(is_whole(format, &unzip(&wire.body).0), "{format}");
        }
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_1_0_gets_only_what_ends_itself() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    replica.wait(&bucket.token()).await;
    for (format, more, status) in [
        ("csv", "", "505"),
        ("ndjson", "", "505"),
        ("csv", "&end_marker=true", "200"),
        ("json", "", "200"),
        ("arrow", "", "200"),
    ] {
        let mut stream = TcpStream::connect(replica.handle.http).await.unwrap();
        let query = format!("/v1/sql?q=select+1&format={format}{more}");
        stream.write_all(format!("GET {query} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let answer = String::from_utf8_lossy(&bytes);
        assert!(answer.split(' ').nth(1) == Some(status), "{format}{more}: {answer}");
        let refused = answer.contains("http_version_unsupported");
        assert_eq!(refused, status == "505", "{format}{more}: {answer}");
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_and_cancelling_break_every_format_on_the_wire() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    for (i, format) in FORMATS.into_iter().enumerate() {
        for encoding in ["", "accept-encoding: gzip\r\n"] {
            let body =
                json!({ "sql": ENDLESS, "format": format, "timeout_ms": 150, "end_marker": true });
            let wire = ask(&replica, &body, encoding).await;
            let plain = if wire.head.contains("gzip") { unzip(&wire.body).0 } else { wire.body };
            assert!(!wire.ended && !is_whole(format, &plain), "{format} {encoding}");
        }
        let id = Uuid::from_u128(i as u128 + 1);
        let body = json!({ "sql": ENDLESS, "format": format });
        let named = format!("sealcast-query-id: {id}\r\n");
        let cancelling = async {
            let url = replica.url(&format!("/v1/queries/{id}"));
            loop {
                let info = replica.get(&format!("/v1/queries/{id}")).await;
                let rows = info.json::<Value>().await.unwrap()["rows"].as_u64();
                if rows.is_some_and(|rows| rows > 30_000) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(replica.client.delete(url).send().await.unwrap().status(), 202);
        };
        let (wire, ()) = tokio::join!(ask(&replica, &body, &named), cancelling);
        assert!(!wire.ended && !is_whole(format, &wire.body), "{format}");
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_http_2_are_reset_and_the_connection_goes_on() {
    let bucket = damaged(3_000).await;
    let replica = bucket.replica_with(|config| config.partitions = 1).await;
    replica.wait_visible(9_000).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    for format in FORMATS {
        for encoding in ["identity", "gzip"] {
            let body = json!({ "sql": "select _seq, attributes from events", "format": format });
            let request = client.post(replica.url("/v1/sql")).header("accept-encoding", encoding);
            // The reset may overtake the head.
            let Ok(response) = request.json(&body).send().await else { continue };
            assert_eq!((response.status().as_u16(), response.version()), (200, http_2()));
            assert!(response.bytes().await.is_err(), "{format} {encoding}");
        }
    }
    let body = json!({ "sql": "select count(*) from events where _seq < 3000", "format": "csv" });
    let response = client.post(replica.url("/v1/sql")).json(&body).send().await.unwrap();
    assert!(response.text().await.unwrap().ends_with("\n3000\n"));
    replica.stop().await;
}

fn http_2() -> axum::http::Version {
    axum::http::Version::HTTP_2
}

#[tokio::test]
async fn lines_get_an_end_for_those_who_ask() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let text = async |format: &str, end_marker: bool| {
        let sql = "select _seq from events order by 1";
        let body = json!({ "sql": sql, "format": format, "end_marker": end_marker });
        replica.post(&body).await.text().await.unwrap()
    };
    let lines = text("ndjson", true).await;
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let said = json!({ "row_count": 3, "missing": [], "complete": true });
    assert_eq!((lines.lines().count(), &last["sealcast_end"]), (4, &said));
    assert_eq!(text("ndjson", false).await.lines().count(), 3);
    assert_eq!(
        text("csv", true).await,
        "_seq\n0\n1\n2\n# sealcast_end row_count=3 complete=true\n"
    );
    assert_eq!(text("csv", false).await, "_seq\n0\n1\n2\n");
    replica.stop().await;
}
