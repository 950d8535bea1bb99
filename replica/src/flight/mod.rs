//! Arrow Flight SQL: the same queries as over HTTP, for clients that speak Arrow (docs/flight.md).
//!
//! Reading order: `door` (every call: who asks, how it is counted, what the library's own
//! dispatcher does not know), `sql` (commands of Flight SQL), `query` (a statement's description and
//! its rows), `ticket` (what names a query, sealed), `asked` (headers), `bind` (parameters),
//! `tables` and `info` (metadata), `actions` (cancellation, sessions), `stream`, `status`.
//! Every statement goes through [`crate::serve::start`]: there is no second way to run one.

mod actions;
mod asked;
mod bind;
mod door;
mod info;
mod messages;
mod query;
mod sql;
mod status;
mod stream;
mod tables;
mod ticket;

use std::sync::Arc;

use arrow_flight::flight_service_server::FlightServiceServer;
use axum::Router;
use sealcast_common::fault::Kind;
use sealcast_common::limits::SQL_BYTES_MAX;
use sealcast_common::serve::access::{Denied, Grant, Role};
use sealcast_common::serve::{Problem, probe_routes};
use tonic::{Extensions, Status};

pub(crate) use ticket::Tickets;

use crate::serve::Node;
use door::Door;
use status::status;

/// A message of a client: a statement, its parameters, and what describes them.
const MESSAGE_BYTES_MAX: usize = 4 * SQL_BYTES_MAX;

/// The service's calls, for a router that has others too.
pub(crate) fn routes(node: &Arc<Node>) -> Router {
    let service = FlightServiceServer::new(Door::new(Arc::clone(node)))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    Router::new().route_service("/arrow.flight.protocol.FlightService/{*call}", service)
}

/// What the port of Flight alone serves: its calls, and probes for load balancers.
pub(crate) fn router(node: &Arc<Node>) -> Router {
    routes(node).merge(probe_routes(node.health.clone())).fallback(
        async |method: axum::http::Method, uri: axum::http::Uri| {
            let known = "Arrow Flight SQL (gRPC), /livez, /readyz, /metrics; SQL over HTTP has a port of its own";
            Problem::unknown_route(&method, uri.path(), known)
        },
    )
}

/// Who asks, if it may run SQL.
fn grant(extensions: &Extensions) -> Result<Arc<Grant>, Status> {
    use sealcast_common::serve::access::Caller;
    let Some(Caller(grant)) = extensions.get::<Caller>() else {
        let detail = "route does not stand behind the guard";
        return Err(status(&Problem::new(Kind::Internal, "internal", detail)));
    };
    if grant.has(Role::Query) {
        return Ok(Arc::clone(grant));
    }
    Err(status(&Denied::RoleMissing(&[Role::Query]).problem()))
}

/// What a request says that cannot be.
fn invalid(detail: impl Into<String>) -> Status {
    status(&Problem::new(Kind::Invalid, "request_invalid", detail))
}

/// What this server does not do.
fn refused(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Invalid, "not_supported", detail)
        .status(axum::http::StatusCode::NOT_IMPLEMENTED)
}

/// A defect of ours: metadata that cannot be encoded.
fn internal(error: impl std::fmt::Display) -> Status {
    status(&Problem::new(Kind::Internal, "internal", format!("metadata cannot be made: {error}")))
}

#[cfg(test)]
pub(crate) mod testing {
    //! What tests read of answers that the library's client does not know.
    pub(crate) use super::actions::KNOWN;
    pub(crate) use super::messages::{CloseSessionResult, SessionOptions};
}
