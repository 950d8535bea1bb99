//! The commands of Flight SQL: descriptions and rows, by statement or of metadata.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, Command,
    DoPutPreparedStatementResult, ProstMessageExt,
};
use arrow_flight::{Action, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use bytes::Bytes;
use futures::Stream;
use prost::Message as _;
use sealcast_common::fault::Kind;
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::Grant;
use tonic::{Response, Status};

use super::asked::Asked;
use super::query::{Messages, describe, prepare, rows};
use super::status::status;
use super::ticket::{For, Said};
use super::{actions, bind, info, internal, invalid, refused, tables};
use crate::serve::{Node, messages};
use crate::sql::Params;

/// Who calls, and what its headers ask for.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) node: Arc<Node>,
    pub(super) grant: Arc<Grant>,
    pub(super) asked: Asked,
}

/// Reads a command; one that cannot be read is the client's mistake.
pub(super) fn command(bytes: &[u8]) -> Result<Command, Status> {
    let any = Any::decode(bytes).map_err(|error| invalid(error.to_string()))?;
    Command::try_from(any).map_err(|error| invalid(error.to_string()))
}

fn unknown(command: &Command) -> Status {
    let url = command.type_url();
    let name: String = url.rsplit('.').next().unwrap_or_default().chars().take(64).collect();
    match command {
        Command::CommandStatementUpdate(_)
        | Command::CommandPreparedStatementUpdate(_)
        | Command::CommandStatementIngest(_) => status(&read_only(&name)),
        _ => status(&refused(format!("command {name:?} is not served"))),
    }
}

fn read_only(name: &str) -> Problem {
    let detail = format!("{name} is not allowed: this server only reads");
    let hint = "events come in through the writer (POST /v1/events); to run one statement with many sets of parameters, run it once for each";
    Problem::new(Kind::Invalid, "statement_not_allowed", detail).hint(hint)
}

impl Call {
    /// A statement, asked for as headers say.
    pub(super) fn said(&self, sql: String) -> Said {
        Said { sql, params: None, places: Vec::new(), asked: self.asked.clone() }
    }

    /// What a handle stands for.
    fn prepared(&self, handle: &[u8]) -> Result<Said, Status> {
        let now = self.node.clock.now();
        let said = self.node.tickets.open(For::Handle, handle, &self.grant, now);
        let mut said = said.map_err(|problem| status(&problem))?;
        if said.params.is_none() && !said.places.is_empty() {
            // Not bound yet: its marks are parameters all the same.
            said.params = Some(Params::Positional(Vec::new()));
        }
        Ok(Said { asked: self.asked.clone(), ..said })
    }

    /// GetFlightInfo.
    pub(super) async fn info(&self, asked: FlightDescriptor) -> Result<FlightInfo, Status> {
        let said = match command(&asked.cmd)? {
            Command::CommandStatementQuery(query) => self.said(query.query),
            Command::CommandPreparedStatementQuery(query) => {
                self.prepared(&query.prepared_statement_handle)?
            }
            other => {
                let batch = self.metadata(&other).await?.ok_or_else(|| unknown(&other))?;
                let ticket = Ticket::new(other.into_any().encode_to_vec());
                let info = FlightInfo::new().try_with_schema(&batch.schema()).map_err(internal)?;
                let info = info.with_endpoint(FlightEndpoint::new().with_ticket(ticket));
                return Ok(info.with_descriptor(asked));
            }
        };
        describe(&self.node, &self.grant, said, Some(asked)).await
    }

    /// DoGet.
    pub(super) async fn get(&self, ticket: &[u8]) -> Result<Response<Messages>, Status> {
        let (node, grant) = (&self.node, &self.grant);
        match command(ticket)? {
            Command::TicketStatementQuery(query) => {
                let now = node.clock.now();
                let said = node.tickets.open(For::Ticket, &query.statement_handle, grant, now);
                rows(node, grant, &said.map_err(|problem| status(&problem))?).await
            }
            Command::CommandPreparedStatementQuery(query) => {
                rows(node, grant, &self.prepared(&query.prepared_statement_handle)?).await
            }
            other => {
                let batch = self.metadata(&other).await?.ok_or_else(|| unknown(&other))?;
                let messages = messages(&batch).map_err(internal)?;
                let stream = futures::stream::iter(messages.into_iter().map(Ok));
                Ok(Response::new(Box::pin(stream)))
            }
        }
    }

    /// The one batch of a command that asks for metadata.
    async fn metadata(&self, command: &Command) -> Result<Option<RecordBatch>, Status> {
        let timeout_ms = self.node.config.timeout_ms;
        let batch = match command.clone() {
            Command::CommandGetCatalogs(_) => tables::catalogs(),
            Command::CommandGetDbSchemas(query) => tables::schemas(query),
            Command::CommandGetTables(query) => {
                let all = tables::all(&self.node).await.map_err(internal)?;
                tables::tables(&all, query, self.asked.format())
            }
            Command::CommandGetTableTypes(_) => tables::table_types(),
            Command::CommandGetPrimaryKeys(query) => {
                tables::primary_keys(&query).map_err(Into::into)
            }
            Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_) => Ok(tables::foreign_keys()),
            Command::CommandGetSqlInfo(query) => {
                info::sql_info(timeout_ms).and_then(|data| query.into_builder(data).build())
            }
            Command::CommandGetXdbcTypeInfo(query) => {
                info::xdbc().and_then(|data| query.into_builder(data).build())
            }
            _ => return Ok(None),
        };
        batch.map(Some).map_err(internal)
    }

    /// DoPut: binds the parameters of a prepared statement, and answers its new handle.
    pub(super) async fn put(
        &self,
        described: FlightDescriptor,
        messages: impl Stream<Item = Result<FlightData, Status>> + Unpin,
    ) -> Result<Bytes, Status> {
        let query = match command(&described.cmd)? {
            Command::CommandPreparedStatementQuery(query) => query,
            other => return Err(unknown(&other)),
        };
        let mut said = self.prepared(&query.prepared_statement_handle)?;
        said.params = bind::params(messages, &said.places).await?;
        said.asked = Asked::default();
        let now = self.node.clock.now();
        let wrapped = self.node.tickets.wrap(For::Handle, said, &self.grant, now);
        let handle = wrapped.map_err(internal)?.0.into();
        let result = DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) };
        Ok(result.encode_to_vec().into())
    }

    /// DoAction: the answer's body, if it has one.
    pub(super) async fn act(&self, action: &Action) -> Result<Option<Bytes>, Status> {
        let (node, grant) = (&self.node, &self.grant);
        let body: Bytes = match action.r#type.as_str() {
            "CreatePreparedStatement" => {
                let query = packed::<ActionCreatePreparedStatementRequest>(action)?.query;
                let made = prepare(node, grant, self.said(query)).await?;
                let result = ActionCreatePreparedStatementResult {
                    prepared_statement_handle: made.handle,
                    dataset_schema: made.dataset,
                    parameter_schema: made.parameters,
                };
                result.as_any().encode_to_vec().into()
            }
            "ClosePreparedStatement" => {
                packed::<ActionClosePreparedStatementRequest>(action)?;
                return Ok(None);
            }
            "CancelQuery" => {
                let request = packed::<ActionCancelQueryRequest>(action)?;
                let result = actions::cancel_query(node, grant, &request)?;
                result.as_any().encode_to_vec().into()
            }
            _ => actions::act(node, grant, action)?,
        };
        Ok(Some(body))
    }
}

/// The request in the body of an action of Flight SQL.
fn packed<M: ProstMessageExt>(action: &Action) -> Result<M, Status> {
    let unreadable = |why: String| invalid(format!("action's body cannot be read: {why}"));
    let any = Any::decode(&*action.body).map_err(|error| unreadable(error.to_string()))?;
    let found = any.unpack::<M>().map_err(|error| unreadable(error.to_string()))?;
    found.ok_or_else(|| unreadable("another message".to_owned()))
}
