//! Answers as bytes, batch by batch. Only `end` completes a document, so that a broken stream can
//! never be read as a whole one.

use arrow::csv::WriterBuilder;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use arrow::util::display::FormatOptions;
use arrow::util::pretty::pretty_format_batches_with_options;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::json;

use super::body::Part;
use super::flight::FlightOutput;
use super::json::{RowShape, write_rows};
use super::plain::{Flat, Plain, type_name};

/// What the last line of NDJSON and CSV begins with, for those who ask for one.
const END_KEY: &str = "sealcast_end";

/// Rows of one Parquet row group: what is held in memory until it is full.
const ROW_GROUP_ROWS: usize = 65_536;

/// An answer's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One document with columns and rows.
    Json,
    /// One object a line.
    Ndjson,
    /// With a header line.
    Csv,
    /// Arrow IPC stream.
    Arrow,
    /// Parquet file.
    Parquet,
    /// Tables for people.
    Pretty,
    /// A list of objects, which is JSON to other servers. It has no name of its own.
    Objects,
    /// Messages of Arrow Flight, for that protocol alone.
    Flight,
    /// The same with the engine's own types.
    FlightNative,
    /// Batches as they are, for PostgreSQL's protocol, whose connection writes the rows. Statements
    /// are read as its clients mean them.
    Postgres,
}

impl Format {
    pub(crate) const ALL: [Format; 6] =
        [Format::Json, Format::Ndjson, Format::Csv, Format::Arrow, Format::Parquet, Format::Pretty];
    pub(crate) const NAMES: [&'static str; 6] =
        ["json", "ndjson", "csv", "arrow", "parquet", "pretty"];

    /// As in `format=`.
    pub(crate) fn by_name(name: &str) -> Option<Format> {
        let name = name.to_ascii_lowercase();
        let name = if name == "jsonl" { "ndjson" } else { name.as_str() };
        Self::NAMES.iter().zip(Self::ALL).find(|(known, _)| **known == name).map(|(_, f)| f)
    }

    /// The first that an `Accept` header names; JSON where it leaves the choice.
    pub(crate) fn by_accept(accept: Option<&str>) -> Option<Format> {
        negotiate(accept, Format::Json, |media| match media {
            "*/*" | "application/*" | "application/json" => Some(Format::Json),
            "application/x-ndjson" | "application/jsonl" | "application/ndjson" => {
                Some(Format::Ndjson)
            }
            "text/csv" | "text/*" => Some(Format::Csv),
            "text/plain" => Some(Format::Pretty),
            "application/vnd.apache.arrow.stream" => Some(Format::Arrow),
            "application/vnd.apache.parquet" | "application/x-parquet" => Some(Format::Parquet),
            _ => None,
        })
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Format::Json | Format::Objects => "application/json",
            Format::Ndjson => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8",
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Parquet => "application/vnd.apache.parquet",
            Format::Pretty => "text/plain; charset=utf-8",
            Format::Flight => "flight",
            Format::FlightNative => "flight; native",
            Format::Postgres => "postgres",
        }
    }

    /// Whether a reader sees by the bytes alone that some are missing at the end.
    pub(crate) fn ends_itself(self) -> bool {
        !matches!(self, Format::Ndjson | Format::Csv | Format::Pretty)
    }

    /// What columns of the engine are in this form.
    pub(crate) fn columns(self, schema: &Schema) -> SchemaRef {
        Plain::new(schema, self.flat()).schema
    }

    fn flat(self) -> Flat {
        match self {
            Format::Json | Format::Objects | Format::Ndjson => Flat::Json,
            Format::Csv | Format::Pretty => Flat::Text,
            Format::Arrow | Format::Parquet | Format::Flight => Flat::Typed,
            Format::FlightNative => Flat::Native,
            Format::Postgres => Flat::Postgres,
        }
    }
}

/// The first of the best that an `Accept` header names and `known` knows; `usual` without one.
pub(super) fn negotiate<T: Copy>(
    accept: Option<&str>,
    usual: T,
    known: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
        return Some(usual);
    };
    let mut best: Option<(f32, T)> = None;
    for part in accept.split(',') {
        let mut words = part.split(';').map(str::trim);
        let media = words.next().unwrap_or_default().to_ascii_lowercase();
        let quality = words.find_map(|word| word.strip_prefix("q=")?.parse().ok());
        let quality: f32 = quality.unwrap_or(1.0);
        let Some(form) = known(&media) else { continue };
        if quality > 0.0 && best.is_none_or(|(so_far, _)| quality > so_far) {
            best = Some((quality, form));
        }
    }
    best.map(|(_, form)| form)
}

/// What a JSON answer says beside its rows.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) query_id: String,
    pub(crate) snapshot: String,
    /// `shard:[start,end)` of what is missing.
    pub(crate) missing: Vec<String>,
    /// Whether forms without an end of their own get a last line.
    pub(crate) end_marker: bool,
}

enum Form {
    Json,
    Objects,
    Ndjson,
    Csv,
    Pretty,
    Arrow(Box<StreamWriter<Vec<u8>>>),
    Parquet(Box<ArrowWriter<Vec<u8>>>),
    Flight(Box<FlightOutput>),
    Rows,
}

/// Writes one answer.
pub(crate) struct Output {
    plain: Plain,
    form: Form,
    envelope: Envelope,
    rows: u64,
    begun: bool,
}

fn parquet_error(error: parquet::errors::ParquetError) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

impl Output {
    pub(crate) fn new(
        format: Format,
        schema: &Schema,
        envelope: Envelope,
    ) -> Result<Self, ArrowError> {
        let plain = Plain::new(schema, format.flat());
        let form = match format {
            Format::Json => Form::Json,
            Format::Objects => Form::Objects,
            Format::Pretty => Form::Pretty,
            Format::Ndjson => Form::Ndjson,
            Format::Csv => Form::Csv,
            Format::Arrow => {
                Form::Arrow(Box::new(StreamWriter::try_new(Vec::new(), &plain.schema)?))
            }
            Format::Parquet => {
                let level = ZstdLevel::try_new(1).map_err(parquet_error)?;
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(level))
                    .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
                    .build();
                let schema = std::sync::Arc::clone(&plain.schema);
                let writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties));
                Form::Parquet(Box::new(writer.map_err(parquet_error)?))
            }
            Format::Flight | Format::FlightNative => {
                Form::Flight(Box::new(FlightOutput::new(&plain.schema)))
            }
            Format::Postgres => Form::Rows,
        };
        Ok(Output { plain, form, envelope, rows: 0, begun: false })
    }

    /// A batch, with what comes before the first one; may be nothing.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<Vec<Part>, ArrowError> {
        if let Form::Flight(flight) = &mut self.form {
            return flight.batch(&self.plain.convert(batch)?);
        }
        if matches!(self.form, Form::Rows) {
            let rows = Part::Rows(self.plain.convert(batch)?);
            return Ok(self.columns().into_iter().chain([rows]).collect());
        }
        Ok(vec![Part::Bytes(self.bytes(batch)?)])
    }

    fn bytes(&mut self, batch: &RecordBatch) -> Result<Bytes, ArrowError> {
        let mut out = self.begin()?;
        let batch = self.plain.convert(batch)?;
        let first = self.rows == 0;
        self.rows += batch.num_rows() as u64;
        match &mut self.form {
            Form::Json => list(&batch, RowShape::Array, first, &mut out)?,
            Form::Objects => list(&batch, RowShape::Object, first, &mut out)?,
            Form::Pretty if batch.num_rows() > 0 => pretty(&batch, &mut out)?,
            Form::Pretty => {}
            Form::Ndjson => write_rows(&batch, RowShape::Object, b"\n", &mut out)?,
            Form::Csv => csv(&batch, false, &mut out)?,
            Form::Arrow(writer) => {
                writer.write(&batch)?;
                out.append(writer.get_mut());
            }
            Form::Parquet(writer) => {
                writer.write(&batch).map_err(parquet_error)?;
                // Row groups that are full have been written; the file's offsets go on counting.
                out.append(writer.inner_mut());
            }
            Form::Flight(_) | Form::Rows => {}
        }
        Ok(out.into())
    }

    /// What comes before rows that are given as they are.
    fn columns(&mut self) -> Option<Part> {
        let begun = std::mem::replace(&mut self.begun, true);
        (!begun).then(|| Part::Columns(std::sync::Arc::clone(&self.plain.schema)))
    }

    /// What makes the document complete.
    pub(crate) fn end(mut self) -> Result<Vec<Part>, ArrowError> {
        if matches!(self.form, Form::Rows) {
            return Ok(self.columns().into_iter().collect());
        }
        let mut out = self.begin()?;
        if matches!(self.form, Form::Pretty) && self.rows == 0 {
            pretty(&RecordBatch::new_empty(std::sync::Arc::clone(&self.plain.schema)), &mut out)?;
        }
        let (rows, missing) = (self.rows, &self.envelope.missing);
        let complete = missing.is_empty();
        match self.form {
            Form::Json => {
                let missing = match complete {
                    true => String::new(),
                    false => format!("\"missing\":{},", json!(missing)),
                };
                let end = format!("\n],\"row_count\":{rows},{missing}\"complete\":{complete}}}\n");
                out.extend_from_slice(end.as_bytes());
            }
            Form::Ndjson if self.envelope.end_marker => {
                let said = json!({ "row_count": rows, "missing": missing, "complete": complete });
                out.extend_from_slice(format!("{}\n", json!({ END_KEY: said })).as_bytes());
            }
            Form::Objects => out.extend_from_slice(b"\n]\n"),
            Form::Csv | Form::Pretty if self.envelope.end_marker => {
                let end = format!("# {END_KEY} row_count={rows} complete={complete}\n");
                out.extend_from_slice(end.as_bytes());
            }
            Form::Ndjson | Form::Csv | Form::Pretty | Form::Rows => {}
            Form::Flight(flight) => return Ok(flight.end()),
            Form::Arrow(mut writer) => {
                writer.finish()?;
                out.append(writer.get_mut());
            }
            Form::Parquet(writer) => {
                let rest = writer.into_inner().map_err(parquet_error)?;
                out.extend_from_slice(&rest);
            }
        }
        Ok(vec![Part::Bytes(out.into())])
    }

    fn begin(&mut self) -> Result<Vec<u8>, ArrowError> {
        let mut out = Vec::new();
        if std::mem::replace(&mut self.begun, true) {
            return Ok(out);
        }
        match &self.form {
            Form::Json => {
                let envelope = &self.envelope;
                let columns = self.plain.schema.fields().iter().map(
                    |field| json!({ "name": field.name(), "type": type_name(field.data_type()) }),
                );
                let columns = json!(columns.collect::<Vec<_>>());
                let (id, snapshot) = (json!(envelope.query_id), json!(envelope.snapshot));
                let head = format!(
                    "{{\"query_id\":{id},\"snapshot\":{snapshot},\"columns\":{columns},\"rows\":["
                );
                out.extend_from_slice(head.as_bytes());
            }
            Form::Csv => {
                let empty = RecordBatch::new_empty(std::sync::Arc::clone(&self.plain.schema));
                csv(&empty, true, &mut out)?;
            }
            Form::Objects => out.push(b'['),
            Form::Ndjson | Form::Pretty => {}
            Form::Arrow(_) | Form::Parquet(_) | Form::Flight(_) | Form::Rows => {}
        }
        Ok(out)
    }
}

/// Rows of a JSON list, with commas before and between them.
fn list(
    batch: &RecordBatch,
    shape: RowShape,
    first: bool,
    out: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    if batch.num_rows() == 0 {
        return Ok(());
    }
    out.extend_from_slice(if first { b"\n" } else { b",\n" });
    write_rows(batch, shape, b",\n", out)?;
    out.truncate(out.len() - 2);
    Ok(())
}

/// A table of its own for each batch: none is held back to measure the others.
fn pretty(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let options = FormatOptions::default()
        .with_timestamp_tz_format(Some("%Y-%m-%dT%H:%M:%S%.6fZ"))
        .with_timestamp_format(Some("%Y-%m-%dT%H:%M:%S%.6f"));
    let table = pretty_format_batches_with_options(std::slice::from_ref(batch), &options)?;
    out.extend_from_slice(table.to_string().as_bytes());
    out.push(b'\n');
    Ok(())
}

fn csv(batch: &RecordBatch, header: bool, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let mut writer = WriterBuilder::new()
        .with_header(header)
        .with_timestamp_tz_format("%Y-%m-%dT%H:%M:%S%.6fZ".into())
        .with_timestamp_format("%Y-%m-%dT%H:%M:%S%.6f".into())
        .build(out);
    writer.write(batch)
}
