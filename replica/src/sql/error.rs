//! Why a query is refused or fails, before anybody knows of HTTP.

use datafusion::error::DataFusionError;
use sealcast_vault::OpenError;

/// A place in the SQL text, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: u64,
    /// Column.
    pub column: u64,
}

/// Why there is no (further) answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The text is no SQL.
    #[error("sql cannot be parsed: {message}")]
    Syntax {
        /// The parser's word.
        message: String,
        /// Where, if it can be told.
        position: Option<Position>,
    },
    /// A statement that writes, or sets, or reads files.
    #[error(
        "statement {found} is not allowed; expected one SELECT, EXPLAIN, SHOW TABLES, SHOW COLUMNS or DESCRIBE"
    )]
    NotAllowed {
        /// Its first words.
        found: String,
        /// Where it starts.
        position: Option<Position>,
    },
    /// The text is over a bound.
    #[error("sql is too large: {found} {what}, expected at most {max}")]
    TooLarge {
        /// Bytes, tokens, operators.
        what: &'static str,
        /// As counted.
        found: usize,
        /// The bound.
        max: usize,
    },
    /// A parameter that does not fit its place.
    #[error("parameter {name} does not fit: found {found}, expected {expected}")]
    Parameter {
        /// `$1` or `$name`.
        name: String,
        /// The JSON value or its kind.
        found: String,
        /// The type that the statement needs.
        expected: String,
    },
    /// The engine refuses to plan it, or it failed while running.
    #[error(transparent)]
    Engine(#[from] DataFusionError),
    /// Somebody cancelled it.
    #[error("query was cancelled")]
    Cancelled,
    /// Its time is over.
    #[error("query took longer than {timeout_ms} ms")]
    Timeout {
        /// The limit in force.
        timeout_ms: u64,
    },
    /// More rows than the limit in force allows.
    #[error("query answers more than {max_rows} rows")]
    TooManyRows {
        /// The limit in force.
        max_rows: u64,
    },
    /// The engine broke; the node goes on.
    #[error("query failed inside the engine: {0}")]
    Panicked(String),
}

/// A segment that a strict query needs and cannot have.
#[derive(Debug, thiserror::Error)]
#[error("rows [{start}, {end}) of shard {shard} are not available: {source}")]
pub struct SegmentUnavailable {
    /// The shard.
    pub shard: u16,
    /// First row.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// The vault's word.
    pub source: OpenError,
}

impl From<SegmentUnavailable> for DataFusionError {
    fn from(error: SegmentUnavailable) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// Nothing has been read yet: "no rows, complete" would be a lie.
#[derive(Debug, thiserror::Error)]
#[error("replica has not read every stream of the store yet")]
pub struct NotBegun;

impl From<NotBegun> for DataFusionError {
    fn from(error: NotBegun) -> Self {
        DataFusionError::External(Box::new(error))
    }
}
