//! Every call: who asks, what it asks for, and how it ended.
//!
//! Not the library's own dispatcher: that one refuses `GetSchema`, `PollFlightInfo`, `ListFlights`
//! and every ticket that is not a command of Flight SQL, and takes what it cannot read for a defect
//! of the server.

use std::pin::Pin;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Any, CommandStatementQuery, ProstMessageExt as _};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult,
    Ticket,
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use prost::Message as _;
use sealcast_common::serve::access::ShowToken;
use serde::Deserialize;
use tonic::{Request, Response, Status, Streaming};

use super::asked::Asked;
use super::query::{Messages, describe, rows};
use super::sql::Call;
use super::status::{code, named, status};
use super::ticket::Said;
use super::{actions, grant, internal, invalid, refused, tables};
use crate::metrics;
use crate::serve::{Format, Node};
use crate::sql::Params;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// See the module.
pub(super) struct Door {
    node: Arc<Node>,
}

/// A query that is not a command of Flight SQL: InfluxDB 3's, or plain SQL.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Plain {
    database: Option<String>,
    db: Option<String>,
    sql_query: String,
    query_type: Option<String>,
    params: Option<Params>,
}

/// Reads what is no command: JSON or SQL as it stands. `None`: it is a command, or nothing of ours.
fn plain(bytes: &[u8]) -> Result<Option<(String, Option<Params>)>, Status> {
    if Any::decode(bytes).is_ok_and(|any| any.type_url.contains("arrow.flight.protocol")) {
        return Ok(None);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Err(invalid("neither a command of Flight SQL, nor JSON, nor SQL"));
    };
    if !text.trim_start().starts_with('{') {
        return Ok(Some((text.to_owned(), None)));
    }
    let asked: Plain = serde_json::from_str(text)
        .map_err(|error| invalid(format!("ticket is not a query: {error}")))?;
    let database = asked.database.or(asked.db).unwrap_or_default();
    if !["", crate::sql::CATALOG, crate::sql::EVENTS_SCHEMA].contains(&database.as_str()) {
        let shown: String = database.chars().take(64).collect();
        return Err(invalid(format!("database {shown:?} does not exist; expected sealcast")));
    }
    match asked.query_type.as_deref() {
        None | Some("sql") => {}
        Some(_) => return Err(status(&refused("query_type is not sql"))),
    }
    let params = asked.params.filter(|params| !params.is_empty());
    Ok(Some((asked.sql_query, params)))
}

/// The statement that a descriptor stands for, if it is not a command.
fn statement(descriptor: &FlightDescriptor) -> Result<Option<(String, Option<Params>)>, Status> {
    if descriptor.path.is_empty() {
        return plain(&descriptor.cmd);
    }
    let quoted = descriptor.path.iter().map(|part| format!("\"{}\"", part.replace('"', "\"\"")));
    let name = quoted.collect::<Vec<_>>().join(".");
    Ok(Some((format!("select * from {name}"), None)))
}

/// Counts a call, and gives a refusal its word.
fn ended<T>(call: &'static str, answer: Result<T, Status>) -> Result<T, Status> {
    let answer = answer.map_err(named);
    let word = answer.as_ref().err().map_or("ok", |status| code(status).unwrap_or("unknown"));
    metrics::flight_call(call, word);
    answer
}

impl Door {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Door { node }
    }

    /// Nothing is answered to whom may not run SQL.
    fn call<T>(&self, request: &Request<T>) -> Result<Call, Status> {
        let grant = grant(request.extensions())?;
        let asked = Asked::of(request.metadata()).map_err(|problem| status(&problem))?;
        Ok(Call { node: Arc::clone(&self.node), grant, asked })
    }

    async fn info(&self, request: Request<FlightDescriptor>) -> Result<FlightInfo, Status> {
        let call = self.call(&request)?;
        let mut descriptor = request.into_inner();
        match statement(&descriptor)? {
            None => call.info(descriptor).await,
            Some((query, None)) => {
                let command = CommandStatementQuery { query, transaction_id: None };
                descriptor.cmd = command.as_any().encode_to_vec().into();
                call.info(descriptor).await
            }
            Some((sql, params)) => {
                let said = Said { params, ..call.said(sql) };
                describe(&call.node, &call.grant, said, Some(descriptor)).await
            }
        }
    }

    async fn get(&self, request: Request<Ticket>) -> Result<Response<Messages>, Status> {
        let call = self.call(&request)?;
        let ticket = &request.get_ref().ticket;
        match plain(ticket)? {
            None => call.get(ticket).await,
            Some((sql, params)) => {
                let said = Said { params, ..call.said(sql) };
                rows(&call.node, &call.grant, &said).await
            }
        }
    }

    async fn put(&self, request: Request<Streaming<FlightData>>) -> Result<Bytes, Status> {
        let call = self.call(&request)?;
        let mut messages = request.into_inner();
        let first = messages.next().await.ok_or_else(|| invalid("nothing was put"))??;
        let descriptor = first.flight_descriptor.clone();
        let descriptor = descriptor.ok_or_else(|| invalid("first message has no descriptor"))?;
        let all = futures::stream::iter([Ok(first)]).chain(messages);
        call.put(descriptor, Box::pin(all)).await
    }

    async fn act(&self, request: Request<Action>) -> Result<Option<Bytes>, Status> {
        let call = self.call(&request)?;
        call.act(request.get_ref()).await
    }

    async fn flights(&self, request: Request<Criteria>) -> Result<Vec<FlightInfo>, Status> {
        let call = self.call(&request)?;
        let tables = tables::all(&call.node).await.map_err(internal)?;
        let flights = tables.into_iter().map(|table| {
            let columns = table.columns(Format::Flight);
            let path = vec![table.schema, table.name];
            let info = FlightInfo::new().try_with_schema(&columns).map_err(internal)?;
            Ok(info.with_descriptor(FlightDescriptor::new_path(path)))
        });
        flights.collect()
    }
}

fn answers<T: Send + 'static>(all: impl IntoIterator<Item = T>) -> Response<Answers<T>> {
    let all: Vec<_> = all.into_iter().map(Ok).collect();
    Response::new(Box::pin(futures::stream::iter(all)))
}

#[tonic::async_trait]
impl FlightService for Door {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Messages;
    type DoPutStream = Answers<PutResult>;
    type DoActionStream = Answers<ActionResult>;
    type ListActionsStream = Answers<ActionType>;
    type DoExchangeStream = Messages;

    /// The guard knows the token already, and puts it into the answer.
    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let known = ended("Handshake", grant(request.extensions()));
        known.map(|_| {
            let hello = HandshakeResponse { protocol_version: 0, payload: Bytes::new() };
            let mut response = answers([hello]);
            response.extensions_mut().insert(ShowToken);
            response
        })
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        ended("ListFlights", self.flights(request).await).map(answers)
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        ended("GetFlightInfo", Box::pin(self.info(request)).await).map(Response::new)
    }

    /// There is nothing to wait for: an answer's rows begin when they are fetched.
    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        let info = ended("PollFlightInfo", Box::pin(self.info(request)).await)?;
        Ok(Response::new(PollInfo { progress: Some(1.0), ..PollInfo::new().with_info(info) }))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let info = ended("GetSchema", Box::pin(self.info(request)).await)?;
        Ok(Response::new(SchemaResult { schema: info.schema }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Messages>, Status> {
        ended("DoGet", Box::pin(self.get(request)).await)
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let put = ended("DoPut", Box::pin(self.put(request)).await);
        put.map(|app_metadata| answers([PutResult { app_metadata }]))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let done = ended("DoAction", Box::pin(self.act(request)).await);
        done.map(|body| answers(body.map(|body| ActionResult { body })))
    }

    async fn list_actions(
        &self,
        request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        ended("ListActions", self.call(&request)).map(|_| answers(actions::listed()))
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        let refused = self.call(&request).and_then(|_| {
            Err(status(&refused("DoExchange has no meaning here").hint("use DoGet")))
        });
        ended("DoExchange", refused)
    }
}
