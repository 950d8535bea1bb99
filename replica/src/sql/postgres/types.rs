//! Types of the engine as PostgreSQL's.

use arrow::datatypes::{DataType, Field};

/// A number that names a thing of the catalog.
pub type Oid = u32;

/// A type of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the type of its name")]
pub enum PgType {
    Bool,
    Bytea,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Json,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Uuid,
    /// Of parameters alone.
    Oid,
    /// Of parameters alone.
    Varchar,
}

impl PgType {
    /// Those that an answer or a parameter can have.
    pub const ALL: [PgType; 17] = [
        PgType::Bool,
        PgType::Bytea,
        PgType::Int2,
        PgType::Int4,
        PgType::Int8,
        PgType::Float4,
        PgType::Float8,
        PgType::Numeric,
        PgType::Text,
        PgType::Json,
        PgType::Date,
        PgType::Time,
        PgType::Timestamp,
        PgType::Timestamptz,
        PgType::Uuid,
        PgType::Oid,
        PgType::Varchar,
    ];

    /// Its number, its size (-1: it varies), its name in `pg_type`, its name for people, its category.
    pub fn facts(self) -> (Oid, i16, &'static str, &'static str, &'static str) {
        match self {
            PgType::Bool => (16, 1, "bool", "boolean", "B"),
            PgType::Bytea => (17, -1, "bytea", "bytea", "U"),
            PgType::Int2 => (21, 2, "int2", "smallint", "N"),
            PgType::Int4 => (23, 4, "int4", "integer", "N"),
            PgType::Int8 => (20, 8, "int8", "bigint", "N"),
            PgType::Float4 => (700, 4, "float4", "real", "N"),
            PgType::Float8 => (701, 8, "float8", "double precision", "N"),
            PgType::Numeric => (1700, -1, "numeric", "numeric", "N"),
            PgType::Text => (25, -1, "text", "text", "S"),
            PgType::Json => (114, -1, "json", "json", "U"),
            PgType::Date => (1082, 4, "date", "date", "D"),
            PgType::Time => (1083, 8, "time", "time without time zone", "D"),
            PgType::Timestamp => (1114, 8, "timestamp", "timestamp without time zone", "D"),
            PgType::Timestamptz => (1184, 8, "timestamptz", "timestamp with time zone", "D"),
            PgType::Uuid => (2950, 16, "uuid", "uuid", "U"),
            PgType::Oid => (26, 4, "oid", "oid", "N"),
            PgType::Varchar => (1043, -1, "varchar", "character varying", "S"),
        }
    }

    /// Its number.
    pub fn oid(self) -> Oid {
        self.facts().0
    }

    /// The type of a number.
    pub fn by_oid(oid: Oid) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.oid() == oid)
    }
}

/// What a column of the engine is for clients of PostgreSQL; `json` says that its texts are JSON.
pub fn pg_type(field: &Field, json: bool) -> PgType {
    of(field.data_type(), json)
}

fn of(data_type: &DataType, json: bool) -> PgType {
    match data_type {
        DataType::Boolean => PgType::Bool,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => PgType::Int2,
        DataType::UInt16 | DataType::Int32 => PgType::Int4,
        DataType::UInt32 | DataType::Int64 | DataType::UInt64 => PgType::Int8,
        DataType::Float16 | DataType::Float32 => PgType::Float4,
        DataType::Float64 => PgType::Float8,
        decimal if decimal.is_decimal() => PgType::Numeric,
        DataType::Date32 | DataType::Date64 => PgType::Date,
        DataType::Time32(_) | DataType::Time64(_) => PgType::Time,
        DataType::Timestamp(_, None) => PgType::Timestamp,
        DataType::Timestamp(_, Some(_)) => PgType::Timestamptz,
        DataType::FixedSizeBinary(16) => PgType::Uuid,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => PgType::Bytea,
        DataType::FixedSizeBinary(_) => PgType::Bytea,
        DataType::Dictionary(_, values) => of(values, json),
        DataType::Union(..) => PgType::Text,
        nested if nested.is_nested() => PgType::Json,
        _ if json => PgType::Json,
        _ => PgType::Text,
    }
}
