//! PostgreSQL's protocol: the same queries as over HTTP, for clients that speak it (docs/postgres.md).
//!
//! Reading order: `door` (from the first byte to the first statement: TLS, token, parameters),
//! `session` (one connection: which message does what) with `extended` (prepared statements and
//! portals), `query` (one statement's rows), `words` (statements that are no queries) with
//! `lexer`, `settings`, `copy`; `wire` with `message` and `out` (bytes), `value` with `numeric`
//! (cells), `params`, `state` (problems as SQLSTATEs), `cancel`.
//! Every statement goes through [`crate::serve::start`]: there is no second way to run one.

mod cancel;
mod copy;
mod door;
mod extended;
mod lexer;
mod message;
mod numeric;
mod out;
mod params;
mod query;
mod session;
mod settings;
mod state;
mod value;
mod wire;
mod words;

use std::sync::Arc;
use std::time::Duration;

use sealcast_common::clock::Random;
use sealcast_common::limits::SQL_BYTES_MAX;
use sealcast_common::serve::{Bound, Knock, serve_raw};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::serve::Node;

/// A message of a client: a statement, its parameters, and what describes them.
const MESSAGE_BYTES_MAX: usize = 4 * SQL_BYTES_MAX;
/// Connections that have logged in. Idle ones hold no query's turn.
const CONNECTIONS_MAX: usize = 256;

/// What all connections share.
#[derive(Debug)]
struct Server {
    node: Arc<Node>,
    random: Arc<dyn Random>,
    keys: Arc<cancel::Keys>,
    places: Arc<Semaphore>,
}

/// Serves until `stop` is cancelled; statements that run end within `drain`, idle connections at
/// once.
pub(crate) async fn serve(
    node: Arc<Node>,
    random: Arc<dyn Random>,
    bound: Bound,
    stop: CancellationToken,
    drain: Duration,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let server = Arc::new(Server { node, random, keys: Arc::default(), places });
    let open = {
        let stop = stop.clone();
        move |knock: Knock| door::open(Arc::clone(&server), knock, stop.clone())
    };
    serve_raw(bound, stop, drain, open).await;
}
