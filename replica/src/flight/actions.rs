//! Actions beside those of statements: cancellation, longer tickets, sessions.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_flight::sql::{ActionCancelQueryRequest, ActionCancelQueryResult};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
    RenewFlightEndpointRequest,
};
use bytes::Bytes;
use prost::Message;
use sealcast_common::serve::access::Grant;
use tonic::Status;

use super::messages::{
    CloseSessionResult, OptionError, OptionValue, SessionOptionValue, SessionOptions,
    SetSessionOptionsResult,
};
use super::query::{opened, renew};
use super::status::status;
use super::{invalid, refused};
use crate::serve::Node;
use crate::sql::{CATALOG, EVENTS_SCHEMA};

/// What there is, beside the actions of prepared statements, and what it does.
pub(crate) const KNOWN: [(&str, &str); 8] = [
    ("CreatePreparedStatement", "Plans a statement and answers a handle that any replica takes"),
    ("ClosePreparedStatement", "Nothing is kept for a prepared statement: always answered well"),
    ("CancelQuery", "Stops the query of a FlightInfo (older form)"),
    ("CancelFlightInfo", "Stops the query of a FlightInfo"),
    ("RenewFlightEndpoint", "Answers a ticket that expires later"),
    ("SetSessionOptions", "Takes the catalog and the schema that there are"),
    ("GetSessionOptions", "Answers catalog and schema"),
    ("CloseSession", "Nothing is kept for a session: always answered well"),
];

/// [`KNOWN`], as clients list it.
pub(super) fn listed() -> Vec<ActionType> {
    let all = KNOWN.into_iter();
    all.map(|(name, does)| ActionType { r#type: name.into(), description: does.into() }).collect()
}

/// The answer's body to an action that the library does not know.
pub(super) fn act(node: &Arc<Node>, grant: &Arc<Grant>, action: &Action) -> Result<Bytes, Status> {
    let body = &action.body;
    let answer = match action.r#type.as_str() {
        "CancelFlightInfo" => {
            let info = read::<CancelFlightInfoRequest>(body)?.info.unwrap_or_default();
            let cancelled = if cancel(node, grant, &info)? {
                CancelStatus::Cancelling
            } else {
                CancelStatus::NotCancellable
            };
            CancelFlightInfoResult::new(cancelled).encode_to_vec()
        }
        "RenewFlightEndpoint" => {
            let endpoint = read::<RenewFlightEndpointRequest>(body)?.endpoint.unwrap_or_default();
            renew(node, grant, &endpoint)?.encode_to_vec()
        }
        "SetSessionOptions" => set(&read::<SessionOptions>(body)?).encode_to_vec(),
        "GetSessionOptions" => options().encode_to_vec(),
        "CloseSession" => CloseSessionResult { status: 1 }.encode_to_vec(),
        other => {
            let shown: String = other.chars().take(64).collect();
            let names = KNOWN.map(|(name, _)| name).join(", ");
            let problem = refused(format!("action {shown:?} is not known"));
            return Err(status(&problem.hint(format!("actions: {names}"))));
        }
    };
    Ok(answer.into())
}

/// The older form of a cancellation.
pub(super) fn cancel_query(
    node: &Node,
    grant: &Grant,
    request: &ActionCancelQueryRequest,
) -> Result<ActionCancelQueryResult, Status> {
    const CANCELLING: i32 = 2;
    const NOT_CANCELLABLE: i32 = 3;
    let cancelled = cancel(node, grant, &read::<FlightInfo>(&request.info)?)?;
    Ok(ActionCancelQueryResult { result: if cancelled { CANCELLING } else { NOT_CANCELLABLE } })
}

/// Whether a query of `info` was running, and is told to stop.
fn cancel(node: &Node, grant: &Grant, info: &FlightInfo) -> Result<bool, Status> {
    let ticket = info.endpoint.iter().find_map(|endpoint| endpoint.ticket.as_ref());
    let ticket = ticket.ok_or_else(|| invalid("flight info has no ticket"))?;
    let id = opened(node, grant, &ticket.ticket)?.asked.query_id;
    Ok(id.is_some_and(|id| node.queries.cancel(id, grant).is_some()))
}

fn read<M: Message + Default>(body: &[u8]) -> Result<M, Status> {
    M::decode(body).map_err(|error| invalid(format!("action's body cannot be read: {error}")))
}

fn there_are() -> [(&'static str, &'static str); 2] {
    [("catalog", CATALOG), ("schema", EVENTS_SCHEMA)]
}

fn options() -> SessionOptions {
    let text = |text: &str| SessionOptionValue { value: Some(OptionValue::Text(text.into())) };
    let options = there_are().into_iter().map(|(name, value)| (name.to_owned(), text(value)));
    SessionOptions { options: options.collect() }
}

/// There is one catalog, and one schema where tables are found by their names alone.
fn set(wanted: &SessionOptions) -> SetSessionOptionsResult {
    const INVALID_NAME: i32 = 1;
    const INVALID_VALUE: i32 = 2;
    let mut errors = HashMap::new();
    for (name, value) in &wanted.options {
        let known = there_are().into_iter().find(|(known, _)| known == name);
        let error = match (known, &value.value) {
            (None, _) => INVALID_NAME,
            (Some((_, is)), Some(OptionValue::Text(wanted))) if wanted == is => continue,
            // Taken back: to what it is.
            (Some(_), None) => continue,
            _ => INVALID_VALUE,
        };
        errors.insert(name.clone(), OptionError { value: error });
    }
    SetSessionOptionsResult { errors }
}
