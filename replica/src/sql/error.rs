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
    /// More than a limit in force allows.
    #[error(transparent)]
    OverBound(#[from] OverBound),
    /// The engine broke; the node goes on.
    #[error("query failed inside the engine: {0}")]
    Panicked(String),
}

/// What is counted while a query runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Rows of the answer.
    Rows,
    /// Bytes of the answer's body, before compression.
    ResultBytes,
    /// Bytes of the columns that are read.
    ScannedBytes,
}

impl Bound {
    /// The setting that holds the limit.
    pub fn setting(self) -> &'static str {
        match self {
            Bound::Rows => "max_rows",
            Bound::ResultBytes => "max_result_bytes",
            Bound::ScannedBytes => "max_scan_bytes",
        }
    }

    fn phrase(self) -> (&'static str, &'static str) {
        match self {
            Bound::Rows => ("answers", "rows"),
            Bound::ResultBytes => ("answers", "bytes"),
            Bound::ScannedBytes => ("reads", "bytes"),
        }
    }
}

/// A query is over one of its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("query {} more than {max} {}", .bound.phrase().0, .bound.phrase().1)]
pub struct OverBound {
    /// What was counted.
    pub bound: Bound,
    /// The limit in force.
    pub max: u64,
}

impl From<OverBound> for DataFusionError {
    fn from(error: OverBound) -> Self {
        DataFusionError::External(Box::new(error))
    }
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

/// The store has not been heard for so long that "the newest" means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("replica has not heard its store for {age_ms} ms; at most {max_ms} ms are answered for")]
pub struct Stale {
    /// Since the last successful probe of the worst stream.
    pub age_ms: u64,
    /// The limit in force.
    pub max_ms: u64,
}

impl From<Stale> for DataFusionError {
    fn from(error: Stale) -> Self {
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
