//! A statement: what it gives, and its rows.

use std::sync::Arc;

use arrow::datatypes::DataType;
use arrow::datatypes::{Field, Schema};
use arrow_flight::sql::{ProstMessageExt as _, TicketStatementQuery};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, Ticket};
use bytes::Bytes;
use prost::Message as _;
use sealcast_common::clock::Micros;
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::Grant;
use sealcast_common::wire::Token;
use serde_json::{Map, Value};
use tonic::{Response, Status};
use uuid::Uuid;

use super::status::{put, status};
use super::stream::FlightStream;
use super::ticket::{For, Said};
use super::{internal, invalid};
use crate::serve::{Asks, Format, Head, Node, Parts, schema_bytes, start};
use crate::sql::Outline;

/// Of an answer whose client wants several, at most.
const ENDPOINTS: usize = 4;

pub(super) type Messages =
    std::pin::Pin<Box<dyn futures::Stream<Item = Result<arrow_flight::FlightData, Status>> + Send>>;

/// What a prepared statement is told to be.
pub(super) struct PreparedAs {
    pub(super) handle: Bytes,
    pub(super) dataset: Bytes,
    pub(super) parameters: Bytes,
}

/// Plans `said`, and names it by a ticket. What the ticket gives has these columns, and holds at
/// least what this replica holds now.
pub(super) async fn describe(
    node: &Arc<Node>,
    grant: &Arc<Grant>,
    mut said: Said,
    descriptor: Option<FlightDescriptor>,
) -> Result<FlightInfo, Status> {
    let (head, outline) = outline(node, grant, &said, Asks::Columns).await?;
    said.asked.query_id = Uuid::try_parse(&head.query_id).ok();
    said.asked.min = Some(Token(head.snapshot.vector.clone()).to_text());
    let columns = said.asked.format().columns(&outline.columns);
    let many = std::mem::take(&mut said.asked.many) && outline.divisible;
    let asked = if many { parts(node, grant, &head, &said) } else { vec![said] };
    let mut info = FlightInfo::new().try_with_schema(&columns).map_err(internal)?;
    for said in asked {
        let wrapped = node.tickets.wrap(For::Ticket, said, grant, node.clock.now());
        let (statement_handle, expires) = wrapped.map_err(internal)?;
        info = info.with_endpoint(endpoint(statement_handle.into(), expires));
    }
    let info = info.with_app_metadata(told(&head));
    Ok(FlightInfo { flight_descriptor: descriptor, ..info })
}

/// `said` of some shards each, all of them at the state that was planned on: together they give the
/// whole answer. How many shards there are is not told to those who may not see all.
fn parts(node: &Node, grant: &Grant, head: &Head, said: &Said) -> Vec<Said> {
    let shards = head.snapshot.vector.len();
    let count = if grant.is_limited() { ENDPOINTS } else { shards.clamp(1, ENDPOINTS) };
    let positions = node.as_of_key.wrap_parts(&head.snapshot, count);
    let said = positions.into_iter().enumerate().map(|(place, position)| {
        let mut said = said.clone();
        said.asked.as_of = Some(position);
        said.asked.min = None;
        said.asked.query_id = said.asked.query_id.filter(|_| place == 0);
        said
    });
    said.collect()
}

fn endpoint(statement_handle: Bytes, expires: Micros) -> FlightEndpoint {
    let ticket = TicketStatementQuery { statement_handle }.as_any().encode_to_vec();
    let (seconds, micros) = (expires.0.div_euclid(1_000_000), expires.0.rem_euclid(1_000_000));
    let nanos = i32::try_from(micros * 1_000).unwrap_or_default();
    FlightEndpoint::new()
        .with_ticket(Ticket::new(ticket))
        .with_expiration_time(prost_types::Timestamp { seconds, nanos })
}

/// The same ticket, good from now on for as long as a new one.
pub(super) fn renew(
    node: &Node,
    grant: &Grant,
    endpoint_: &FlightEndpoint,
) -> Result<FlightEndpoint, Status> {
    let ticket = endpoint_.ticket.as_ref().ok_or_else(|| invalid("endpoint has no ticket"))?;
    let said = opened(node, grant, &ticket.ticket)?;
    let wrapped = node.tickets.wrap(For::Ticket, said, grant, node.clock.now());
    let (statement_handle, expires) = wrapped.map_err(internal)?;
    Ok(endpoint(statement_handle.into(), expires))
}

/// What a ticket says.
pub(super) fn opened(node: &Node, grant: &Grant, ticket: &[u8]) -> Result<Said, Status> {
    let any = arrow_flight::sql::Any::decode(ticket).ok();
    let command = any.and_then(|any| any.unpack::<TicketStatementQuery>().ok().flatten());
    let handle = command.map(|command| command.statement_handle).unwrap_or_default();
    let opened = node.tickets.open(For::Ticket, &handle, grant, node.clock.now());
    opened.map_err(|problem| status(&problem))
}

/// Plans `sql` with open places, and names it by a handle.
pub(super) async fn prepare(
    node: &Arc<Node>,
    grant: &Arc<Grant>,
    mut said: Said,
) -> Result<PreparedAs, Status> {
    let (_, outline) = outline(node, grant, &said, Asks::Places).await?;
    let dataset = said.asked.format().columns(&outline.columns);
    said.places = outline.places.iter().map(|(name, _)| name.clone()).collect();
    // Each use of it says anew what it wants.
    said.asked = super::asked::Asked::default();
    let wrapped = node.tickets.wrap(For::Handle, said, grant, node.clock.now());
    Ok(PreparedAs {
        handle: wrapped.map_err(internal)?.0.into(),
        dataset: schema_bytes(&dataset).map_err(internal)?,
        parameters: schema_bytes(&parameters(&outline)).map_err(internal)?,
    })
}

/// Parameters as columns: ids and whatever is not said are text, as people write them.
fn parameters(outline: &Outline) -> Schema {
    let fields = outline.places.iter().map(|(name, wanted)| {
        let wanted = match wanted {
            None | Some(DataType::Null | DataType::FixedSizeBinary(_)) => DataType::Utf8,
            Some(other) => other.clone(),
        };
        Field::new(name.trim_start_matches('$'), wanted, true)
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Schema::clone(&Format::Flight.columns(&schema))
}

async fn outline(
    node: &Arc<Node>,
    grant: &Arc<Grant>,
    said: &Said,
    asks: Asks,
) -> Result<(Head, Outline), Status> {
    let statement = (said.sql.clone(), said.params.clone());
    let request = said.asked.request(statement, asks, Arc::clone(grant));
    let request = request.map_err(|problem| status(&problem))?;
    let (mut head, _nothing) = start(node, request).await.map_err(|problem| status(&problem))?;
    let outline = head.outline.take().ok_or_else(|| internal("statement has no outline"))?;
    Ok((head, outline))
}

/// Runs `said`.
pub(super) async fn rows(
    node: &Arc<Node>,
    grant: &Arc<Grant>,
    said: &Said,
) -> Result<Response<Messages>, Status> {
    let (head, parts) = run(node, grant, said).await.map_err(|problem| status(&problem))?;
    let stream = FlightStream::new(parts, told(&head));
    let mut response = Response::new(Box::pin(stream) as Messages);
    for (name, value) in head.told() {
        put(response.metadata_mut(), name, &value);
    }
    Ok(response)
}

async fn run(node: &Arc<Node>, grant: &Arc<Grant>, said: &Said) -> Result<(Head, Parts), Problem> {
    let request = |asked: &super::asked::Asked| {
        let statement = (said.sql.clone(), said.params.clone());
        asked.request(statement, Asks::Rows, Arc::clone(grant))
    };
    match start(node, request(&said.asked)?).await {
        // A ticket may be fetched twice at a time: the second answer gets an id of its own.
        Err(problem) if problem.code == "query_id_taken" => {
            let mut asked = said.asked.clone();
            asked.query_id = None;
            start(node, request(&asked)?).await
        }
        started => started,
    }
}

/// What headers tell, for clients that do not see headers.
fn told(head: &Head) -> Bytes {
    let told = head.told().into_iter().map(|(name, value)| {
        let name = name.trim_start_matches("sealcast-").replace('-', "_");
        (name, Value::String(value))
    });
    Value::Object(told.collect::<Map<_, _>>()).to_string().into()
}
