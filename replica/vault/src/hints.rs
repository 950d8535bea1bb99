//! Server-sent events of a shipper: they only shorten the wait until the next probe.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sealcast_common::wire::StreamHint;

use crate::status::Board;

/// A connection that is silent for longer is dead; shippers send a comment every 10 s.
const SILENCE: Duration = Duration::from_secs(21);
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// No hint is longer.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// What a shipper with tokens, or with a certificate of its own, asks for.
#[derive(Clone, Debug, Default)]
pub struct HintPeer {
    /// File with the token, one line; read for every connection, so that it can be replaced.
    pub token_file: Option<PathBuf>,
    /// Certificates (PEM) that are believed beside the system's.
    pub ca: Option<PathBuf>,
}

/// Listens for ever; to be cancelled.
pub(crate) async fn listen(base: String, stream: String, board: Arc<Board>, peer: HintPeer) {
    let url = format!("{}/v1/streams/{stream}/events", base.trim_end_matches('/'));
    let mut wait = RETRY_MIN;
    loop {
        match listen_once(&url, &stream, &board, &peer).await {
            Ok(()) => wait = RETRY_MIN,
            Err(error) => {
                tracing::debug!(url, %error, "no hints");
                wait = (wait * 2).min(RETRY_MAX);
            }
        }
        tokio::time::sleep(wait).await;
    }
}

/// Counts as alive from the first answer to the end of the connection; at its end the follower is
/// woken, so that it returns to its own pace.
struct Alive<'a>(&'a Board);

impl<'a> Alive<'a> {
    fn new(board: &'a Board) -> Self {
        board.hints_alive.fetch_add(1, Ordering::Relaxed);
        Alive(board)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.hints_alive.fetch_sub(1, Ordering::Relaxed);
        self.0.hinted.notify_one();
    }
}

/// Why there are no hints now.
#[derive(Debug, thiserror::Error)]
enum NoHints {
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error("peer file cannot be read: {0}")]
    Peer(#[from] std::io::Error),
}

async fn listen_once(
    url: &str,
    stream: &str,
    board: &Board,
    peer: &HintPeer,
) -> Result<(), NoHints> {
    let mut builder =
        reqwest::Client::builder().connect_timeout(Duration::from_secs(5)).read_timeout(SILENCE);
    if let Some(ca) = &peer.ca {
        for certificate in reqwest::Certificate::from_pem_bundle(&std::fs::read(ca)?)? {
            builder = builder.add_root_certificate(certificate);
        }
    }
    let mut request = builder.build()?.get(url).header("accept", "text/event-stream");
    if let Some(file) = &peer.token_file {
        request = request.bearer_auth(std::fs::read_to_string(file)?.trim());
    }
    let mut answer = request.send().await?.error_for_status()?;
    let _alive = Alive::new(board);
    // Whatever was committed while nobody listened is found by a probe now.
    board.hinted.notify_one();
    let mut line = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        for byte in chunk {
            if byte != b'\n' {
                line.push(byte);
                line.truncate(LINE_BYTES_MAX);
                continue;
            }
            if let Some(hint) = parse(&line).filter(|hint| hint.stream == stream) {
                take(board, &hint);
            }
            line.clear();
        }
    }
    Ok(())
}

/// The hint in a line `data: {…}`; comments, names and nonsense give none.
fn parse(line: &[u8]) -> Option<StreamHint> {
    let data = line.strip_prefix(b"data:")?;
    serde_json::from_slice(data).ok()
}

fn take(board: &Board, hint: &StreamHint) {
    let mut notes = board.notes.lock();
    notes.unshipped_rows = Some(hint.unshipped_rows);
    if hint.seq > notes.seq {
        metrics::counter!("sealcast_replica_hints_total").increment(1);
        board.hinted.notify_one();
    }
}
