//! HTTP: requests into queries, batches into bytes, errors into problems.
//!
//! Reading order: `http` (routes), `params` (what a request may say), `run` (one query's tasks: `pin`,
//! `gate`, `work`), `format` (batches → bytes, with `json` and `plain`), `body` (bytes → a stream
//! that cannot lie), `etag`, `flight` (what its protocol has in common with this), `error` (every
//! refusal, in one map). `influx`: the same for clients of InfluxDB 3. `ask` with `proofs` (rows, growth,
//! ranges) and `logs` (the URLs of C2SP): what shards' logs prove.

mod ask;
mod body;
mod error;
mod etag;
mod flight;
mod format;
mod gate;
mod http;
mod influx;
mod json;
mod logs;
mod openapi;
mod openapi_proofs;
mod params;
mod pin;
pub(crate) mod plain;
mod proofs;
mod run;
mod work;

pub(crate) use body::{Part, Parts};
pub(crate) use error::{concealed, not_begun, problem, stale};
pub(crate) use etag::matches as etag_matches;
pub(crate) use flight::{messages, schema_bytes};
pub(crate) use format::Format;
pub(crate) use gate::Gate;
pub(crate) use http::{head_of, router};
pub use openapi::openapi;
pub(crate) use openapi::told;
pub(crate) use params::{Asks, QueryRequest, bounded_wait, token};
pub(crate) use pin::pin;
pub(crate) use run::{Head, Node, start};
