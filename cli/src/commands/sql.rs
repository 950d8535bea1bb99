//! `sealcast sql`: one statement, or the prompt.

use std::io::{IsTerminal as _, Read as _};

use serde_json::{Value, json};

use crate::args::{SqlArgs, SqlFormat};
use crate::client::{Answer, Client};
use crate::output::{self, Failure, failed};

/// Rows of a result as text.
pub(crate) struct Rows {
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) lag: String,
    pub(crate) complete: bool,
}

pub(crate) async fn run(args: SqlArgs) -> Result<u8, Failure> {
    let client = Client::open(&args.replica, &args.connect)?;
    let statement = match &args.statement {
        Some(statement) => statement.clone(),
        None if std::io::stdin().is_terminal() => {
            return super::prompt::run(client, args.format).await;
        }
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(failed)?;
            text
        }
    };
    let params: Vec<Value> = args.params.iter().map(|text| parameter(text)).collect();
    let mut body = json!({ "sql": statement, "params": params });
    if let Some(token) = &args.min {
        body["min"] = json!(token);
    }
    if let Some(position) = &args.as_of {
        body["as_of"] = json!(position);
    }
    if args.min.is_some() || args.as_of.is_some() {
        body["wait_ms"] = json!(args.wait_ms);
    }
    print_result(&client, body, args.format).await?;
    Ok(0)
}

/// JSON if it is JSON, text otherwise: `-p 5` is a number, `-p alice` a text.
fn parameter(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// Runs a statement and prints its rows.
pub(crate) async fn print_result(
    client: &Client,
    mut body: Value,
    format: SqlFormat,
) -> Result<(), Failure> {
    if format == SqlFormat::Table {
        let rows = query(client, body).await?;
        output::line(output::table(&rows.header, &rows.rows));
        let (count, plural) = (rows.rows.len(), if rows.rows.len() == 1 { "" } else { "s" });
        let incomplete = if rows.complete { "" } else { ", NOT COMPLETE" };
        output::note(format!("{count} row{plural}, lag {} ms{incomplete}", rows.lag));
        return Ok(());
    }
    body["format"] = json!(match format {
        SqlFormat::Json | SqlFormat::Table => "json",
        SqlFormat::Ndjson => "ndjson",
        SqlFormat::Csv => "csv",
    });
    match client.sql(&body).await? {
        Answer::Refused(refusal) => Err(refusal.into_failure("statement was refused")),
        Answer::Ok(mut response) => loop {
            let chunk = response.chunk().await.map_err(|error| {
                Failure::new(format!("the result broke off and is not complete: {error}"))
            })?;
            let Some(chunk) = chunk else { return Ok(()) };
            if output::raw(&chunk).is_err() {
                return Ok(());
            }
        },
    }
}

/// Runs a statement and collects its rows.
pub(crate) async fn query(client: &Client, mut body: Value) -> Result<Rows, Failure> {
    body["format"] = json!("json");
    let response = match client.sql(&body).await? {
        Answer::Ok(response) => response,
        Answer::Refused(refusal) => return Err(refusal.into_failure("statement was refused")),
    };
    let header = |name: &str| {
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or("unknown").to_owned()
    };
    let (lag, complete) = (header("sealcast-lag-ms"), header("sealcast-complete") == "true");
    let body = client.body(response).await?;
    let document: Value = serde_json::from_slice(&body).map_err(|error| {
        Failure::new(format!("the result is no complete json document: {error}"))
    })?;
    let list = |name: &str| document.get(name).and_then(Value::as_array).cloned();
    let columns = list("columns").unwrap_or_default();
    let name =
        |column: &Value| column.get("name").and_then(Value::as_str).unwrap_or("?").to_owned();
    let rows = list("rows").unwrap_or_default();
    let cells = |row: &Value| row.as_array().map(|row| row.iter().map(cell).collect());
    Ok(Rows {
        header: columns.iter().map(name).collect(),
        rows: rows.iter().filter_map(cells).collect(),
        lag,
        complete,
    })
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
