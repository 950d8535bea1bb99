//! Arrow Flight SQL through the library's own client, over real files in a real store folder.

mod endpoints;
mod escapes;
mod golden;
mod hostile;
mod metadata;
mod prepared;
mod raw;
mod statements;

use arrow::record_batch::RecordBatch;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt as _;
use tonic::Status;
use tonic::transport::Channel;

use super::kit::Replica;

type Client = FlightSqlServiceClient<Channel>;

/// A client of `replica`, at the port of HTTP.
async fn client(replica: &Replica) -> Client {
    let channel = Channel::from_shared(replica.base.clone()).unwrap().connect().await.unwrap();
    FlightSqlServiceClient::new(channel)
}

/// The rows that `info` names.
async fn fetch(client: &mut Client, info: FlightInfo) -> Result<Vec<RecordBatch>, FlightError> {
    assert_eq!(info.endpoint.len(), 1, "some clients read the first endpoint only");
    let schema = info.clone().try_decode_schema().unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut stream = client.do_get(ticket).await?;
    let batches: Vec<RecordBatch> = (&mut stream).try_collect().await?;
    assert_eq!(stream.schema().map(|found| found.as_ref()), Some(&schema), "as announced");
    Ok(batches)
}

/// The rows of a statement.
async fn ask(client: &mut Client, sql: &str) -> Vec<RecordBatch> {
    let info = client.execute(sql.to_owned(), None).await.unwrap();
    fetch(client, info).await.unwrap()
}

/// The same as a table of text.
async fn table(client: &mut Client, sql: &str) -> String {
    shown(&ask(client, sql).await)
}

fn shown(batches: &[RecordBatch]) -> String {
    arrow::util::pretty::pretty_format_batches(batches).unwrap().to_string()
}

fn code(status: &Status) -> &str {
    status.metadata().get("sealcast-code").map_or("", |code| code.to_str().unwrap())
}
