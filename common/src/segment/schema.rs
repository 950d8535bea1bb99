//! The columns: one table from which the file's schema and SQL's schema are both made.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// 16 bytes, `arrow.uuid`.
    Uuid,
    /// Text with few values: a sorted dictionary, or plain text where a segment has too many.
    Label,
    /// Plain text.
    Text,
    /// Microseconds, UTC.
    Time,
    /// The list of targets.
    Targets,
    /// Small integer.
    U8,
    /// Shard number.
    U16,
    /// Sequence number.
    U64,
}

/// Name, kind and meaning (the comment that clients show).
pub const COLUMNS: [(&str, ColumnKind, &str); 25] = [
    ("event_id", ColumnKind::Uuid, "the event's UUID, the client's or the writer's"),
    ("tenant", ColumnKind::Label, "owner of the event"),
    ("time", ColumnKind::Time, "when it happened, as the client says"),
    ("ingested_at", ColumnKind::Time, "when the writer committed it"),
    ("action", ColumnKind::Label, "what happened, such as user.login"),
    ("category", ColumnKind::Label, "family or service of the action"),
    ("actor_type", ColumnKind::Label, "kind of actor"),
    ("actor_id", ColumnKind::Text, "who, by id"),
    ("actor_name", ColumnKind::Text, "who, for people"),
    ("target_type", ColumnKind::Label, "kind of the first target"),
    ("target_id", ColumnKind::Text, "id of the first target"),
    ("targets", ColumnKind::Targets, "every related entity"),
    ("outcome", ColumnKind::Label, "success, failure, denied or unknown"),
    ("outcome_reason", ColumnKind::Label, "the source's code or message"),
    ("severity", ColumnKind::U8, "OpenTelemetry severity number, 1 to 24"),
    ("source_ip", ColumnKind::Label, "where it came from"),
    ("user_agent", ColumnKind::Label, "with what"),
    ("service", ColumnKind::Label, "the service that saw it"),
    ("request_id", ColumnKind::Text, "the request it belongs to"),
    ("session_id", ColumnKind::Text, "the session it belongs to"),
    ("trace_id", ColumnKind::Text, "the trace it belongs to"),
    ("message", ColumnKind::Text, "for people"),
    (
        "attributes",
        ColumnKind::Text,
        "everything else: canonical JSON object, see json_get and ->>",
    ),
    ("_shard", ColumnKind::U16, "the shard whose log holds the row"),
    ("_seq", ColumnKind::U64, "index of the row's leaf in the shard's tree"),
];

/// Columns that are never null.
const REQUIRED: [&str; 7] =
    ["event_id", "tenant", "time", "ingested_at", "action", "_shard", "_seq"];

/// The type of a dictionary column. Keys are signed because pandas refuses unsigned ones.
pub fn label_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The struct inside `targets`.
pub fn target_fields() -> Fields {
    ["type", "id", "name"].map(|name| Field::new(name, DataType::Utf8, true)).to_vec().into()
}

/// The type of `targets`.
pub fn targets_type() -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Struct(target_fields()), true)))
}

/// Microseconds, UTC.
pub fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// One column's field; `plain` stores a label column as text.
pub fn field(name: &str, kind: ColumnKind, plain: bool) -> Field {
    let data_type = match kind {
        ColumnKind::Uuid => DataType::FixedSizeBinary(16),
        ColumnKind::Label if plain => DataType::Utf8,
        ColumnKind::Label => label_type(),
        ColumnKind::Text => DataType::Utf8,
        ColumnKind::Time => time_type(),
        ColumnKind::Targets => targets_type(),
        ColumnKind::U8 => DataType::UInt8,
        ColumnKind::U16 => DataType::UInt16,
        ColumnKind::U64 => DataType::UInt64,
    };
    let field = Field::new(name, data_type, !REQUIRED.contains(&name));
    if kind == ColumnKind::Uuid {
        let extension = ("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned());
        return field.with_metadata(HashMap::from([extension]));
    }
    field
}

/// SQL's schema of `events`: every label column a dictionary.
pub fn logical_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let fields: Vec<Field> =
            COLUMNS.iter().map(|(name, kind, _)| field(name, *kind, false)).collect();
        Arc::new(Schema::new(fields))
    });
    Arc::clone(&SCHEMA)
}
