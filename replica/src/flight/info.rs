//! What the server says of itself: SqlInfo and the types of XDBC.

use std::collections::HashMap;
use std::sync::OnceLock;

use Value::{Flag, List, Mask, Text};

use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{Nullable, Searchable, SqlInfo, XdbcDataType, XdbcDatetimeSubcode};

#[derive(Clone, Copy, Debug)]
enum Value {
    Text(&'static str),
    Flag(bool),
    /// A number, or bits.
    Mask(i32),
    List(&'static [&'static str]),
}

/// A bit mask of these members of an enumeration.
fn mask(bits: &[i32]) -> Value {
    Mask(bits.iter().fold(0, |mask, bit| mask | (1 << bit)))
}

/// All of them, made once. `timeout_ms` is the node's.
pub(super) fn sql_info(timeout_ms: u64) -> Result<&'static SqlInfoData, FlightError> {
    static MADE: OnceLock<SqlInfoData> = OnceLock::new();
    if let Some(made) = MADE.get() {
        return Ok(made);
    }
    let mut builder = SqlInfoDataBuilder::new();
    let timeout = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
    builder.append(SqlInfo::FlightSqlServerStatementTimeout, timeout);
    for (id, value) in server().into_iter().chain(language()).chain(support()) {
        match value {
            Text(text) => builder.append(id, text),
            Flag(flag) => builder.append(id, flag),
            Mask(mask) => builder.append(id, mask),
            List(words) => builder.append(id, words),
        }
    }
    builder.append(SqlInfo::SqlSupportsConvert, HashMap::<i32, Vec<i32>>::new());
    // Lengths and counts of names, columns, rows: only the statement is bounded.
    for id in (541..=555).chain(557..=561) {
        let max = if id == SqlInfo::SqlMaxStatementLength as u32 { statement_max() } else { 0 };
        builder.append(id, max);
    }
    let built = builder.build()?;
    Ok(MADE.get_or_init(|| built))
}

fn statement_max() -> i64 {
    i64::try_from(sealcast_common::limits::SQL_BYTES_MAX).unwrap_or(0)
}

fn server() -> Vec<(SqlInfo, Value)> {
    vec![
        (SqlInfo::FlightSqlServerName, Text("sealcast")),
        (SqlInfo::FlightSqlServerVersion, Text(env!("CARGO_PKG_VERSION"))),
        (SqlInfo::FlightSqlServerArrowVersion, Text(arrow::ARROW_VERSION)),
        (SqlInfo::FlightSqlServerReadOnly, Flag(true)),
        (SqlInfo::FlightSqlServerSql, Flag(true)),
        (SqlInfo::FlightSqlServerSubstrait, Flag(false)),
        (SqlInfo::FlightSqlServerSubstraitMinVersion, Text("")),
        (SqlInfo::FlightSqlServerSubstraitMaxVersion, Text("")),
        (SqlInfo::FlightSqlServerTransaction, Mask(0)),
        (SqlInfo::FlightSqlServerCancel, Flag(true)),
        (SqlInfo::FlightSqlServerBulkIngestion, Flag(false)),
        (SqlInfo::FlightSqlServerIngestTransactionsSupported, Flag(false)),
        (SqlInfo::FlightSqlServerTransactionTimeout, Mask(0)),
        (SqlInfo::SqlDdlCatalog, Flag(false)),
        (SqlInfo::SqlDdlSchema, Flag(false)),
        (SqlInfo::SqlDdlTable, Flag(false)),
    ]
}

const KEYWORDS: &[&str] = &["EXCEPT", "EXPLAIN", "ILIKE", "LATERAL", "QUALIFY", "ROLLUP", "UNNEST"];
const NUMERIC: &[&str] = &[
    "abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "cot", "degrees", "exp", "floor", "ln",
    "log", "log10", "log2", "pi", "power", "radians", "random", "round", "sign", "sin", "sqrt",
    "tan", "trunc",
];
const TEXT: &[&str] = &[
    "ascii",
    "btrim",
    "chr",
    "concat",
    "concat_ws",
    "ends_with",
    "initcap",
    "left",
    "length",
    "lower",
    "lpad",
    "ltrim",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "starts_with",
    "strpos",
    "substr",
    "upper",
];
const TIMES: &[&str] = &[
    "current_date",
    "current_timestamp",
    "date_bin",
    "date_part",
    "date_trunc",
    "from_unixtime",
    "now",
    "to_char",
    "to_date",
    "to_timestamp",
];

fn language() -> Vec<(SqlInfo, Value)> {
    const LOWER_CASE: i32 = 3;
    const AS_WRITTEN: i32 = 0;
    const NULLS_HIGH: i32 = 0;
    vec![
        (SqlInfo::SqlIdentifierCase, Mask(LOWER_CASE)),
        (SqlInfo::SqlIdentifierQuoteChar, Text("\"")),
        (SqlInfo::SqlQuotedIdentifierCase, Mask(AS_WRITTEN)),
        (SqlInfo::SqlAllTablesAreSelectable, Flag(true)),
        (SqlInfo::SqlNullOrdering, Mask(NULLS_HIGH)),
        (SqlInfo::SqlKeywords, List(KEYWORDS)),
        (SqlInfo::SqlNumericFunctions, List(NUMERIC)),
        (SqlInfo::SqlStringFunctions, List(TEXT)),
        (SqlInfo::SqlSystemFunctions, List(&["arrow_cast", "arrow_typeof", "coalesce", "nullif"])),
        (SqlInfo::SqlDatetimeFunctions, List(TIMES)),
        (SqlInfo::SqlSearchStringEscape, Text("\\")),
        (SqlInfo::SqlExtraNameCharacters, Text("")),
        (SqlInfo::SqlSupportsColumnAliasing, Flag(true)),
        (SqlInfo::SqlNullPlusNullIsNull, Flag(true)),
        (SqlInfo::SqlSupportsTableCorrelationNames, Flag(true)),
        (SqlInfo::SqlSupportsDifferentTableCorrelationNames, Flag(false)),
        (SqlInfo::SqlSupportsExpressionsInOrderBy, Flag(true)),
        (SqlInfo::SqlSupportsOrderByUnrelated, Flag(true)),
        (SqlInfo::SqlSupportedGroupBy, mask(&[0, 1])),
        (SqlInfo::SqlSupportsLikeEscapeClause, Flag(true)),
        (SqlInfo::SqlSupportsNonNullableColumns, Flag(true)),
        (SqlInfo::SqlSupportedGrammar, mask(&[0, 1, 2])),
        (SqlInfo::SqlAnsi92SupportedLevel, mask(&[0])),
        (SqlInfo::SqlSupportsIntegrityEnhancementFacility, Flag(false)),
        (SqlInfo::SqlOuterJoinsSupportLevel, mask(&[1, 2])),
        (SqlInfo::SqlSchemaTerm, Text("schema")),
        (SqlInfo::SqlProcedureTerm, Text("procedure")),
        (SqlInfo::SqlCatalogTerm, Text("catalog")),
        (SqlInfo::SqlCatalogAtStart, Flag(true)),
    ]
}

fn support() -> Vec<(SqlInfo, Value)> {
    vec![
        (SqlInfo::SqlSchemasSupportedActions, Mask(0)),
        (SqlInfo::SqlCatalogsSupportedActions, Mask(0)),
        (SqlInfo::SqlSupportedPositionedCommands, Mask(0)),
        (SqlInfo::SqlSelectForUpdateSupported, Flag(false)),
        (SqlInfo::SqlStoredProceduresSupported, Flag(false)),
        (SqlInfo::SqlSupportedSubqueries, mask(&[0, 1, 2])),
        (SqlInfo::SqlCorrelatedSubqueriesSupported, Flag(true)),
        (SqlInfo::SqlSupportedUnions, mask(&[0, 1])),
        (SqlInfo::SqlMaxRowSizeIncludesBlobs, Flag(true)),
        (SqlInfo::SqlDefaultTransactionIsolation, Mask(0)),
        (SqlInfo::SqlTransactionsSupported, Flag(false)),
        (SqlInfo::SqlSupportedTransactionsIsolationLevels, mask(&[0])),
        (SqlInfo::SqlDataDefinitionCausesTransactionCommit, Flag(false)),
        (SqlInfo::SqlDataDefinitionsInTransactionsIgnored, Flag(false)),
        (SqlInfo::SqlSupportedResultSetTypes, mask(&[1])),
        (SqlInfo::SqlSupportedConcurrenciesForResultSetUnspecified, Mask(0)),
        (SqlInfo::SqlSupportedConcurrenciesForResultSetForwardOnly, mask(&[1])),
        (SqlInfo::SqlSupportedConcurrenciesForResultSetScrollSensitive, Mask(0)),
        (SqlInfo::SqlSupportedConcurrenciesForResultSetScrollInsensitive, Mask(0)),
        (SqlInfo::SqlBatchUpdatesSupported, Flag(false)),
        (SqlInfo::SqlSavepointsSupported, Flag(false)),
        (SqlInfo::SqlNamedParametersSupported, Flag(true)),
        (SqlInfo::SqlLocatorsUpdateCopy, Flag(false)),
        (SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, Flag(false)),
    ]
}

/// The types that columns have.
pub(super) fn xdbc() -> Result<&'static XdbcTypeInfoData, FlightError> {
    static MADE: OnceLock<XdbcTypeInfoData> = OnceLock::new();
    if let Some(made) = MADE.get() {
        return Ok(made);
    }
    let mut builder = XdbcTypeInfoDataBuilder::new();
    let types = [
        ("boolean", XdbcDataType::XdbcBit, 1),
        ("uint8", XdbcDataType::XdbcTinyint, 3),
        ("int16", XdbcDataType::XdbcSmallint, 5),
        ("uint16", XdbcDataType::XdbcSmallint, 5),
        ("int32", XdbcDataType::XdbcInteger, 10),
        ("uint32", XdbcDataType::XdbcInteger, 10),
        ("int64", XdbcDataType::XdbcBigint, 19),
        ("uint64", XdbcDataType::XdbcBigint, 20),
        ("float32", XdbcDataType::XdbcReal, 24),
        ("float64", XdbcDataType::XdbcDouble, 53),
        ("decimal", XdbcDataType::XdbcDecimal, 38),
        ("text", XdbcDataType::XdbcVarchar, i32::MAX),
        ("bytes", XdbcDataType::XdbcVarbinary, i32::MAX),
        ("uuid", XdbcDataType::XdbcBinary, 16),
        ("date", XdbcDataType::XdbcDate, 10),
        ("timestamp", XdbcDataType::XdbcTimestamp, 32),
    ];
    types.into_iter().map(type_info).for_each(|info| builder.append(info));
    let built = builder.build()?;
    Ok(MADE.get_or_init(|| built))
}

fn type_info((name, data_type, size): (&str, XdbcDataType, i32)) -> XdbcTypeInfo {
    let is_number = name.contains("int") || name.contains("float") || name == "decimal";
    let quote = (!is_number && name != "boolean").then(|| "'".to_owned());
    let (sql_data_type, datetime_subcode) = match name {
        "date" => (XdbcDataType::XdbcDatetime, Some(XdbcDatetimeSubcode::XdbcSubcodeYear)),
        "timestamp" => {
            (XdbcDataType::XdbcDatetime, Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp))
        }
        _ => (data_type, None),
    };
    XdbcTypeInfo {
        type_name: name.to_owned(),
        data_type,
        column_size: Some(size),
        literal_prefix: quote.clone(),
        literal_suffix: quote,
        nullable: Nullable::NullabilityNullable,
        case_sensitive: name == "text",
        searchable: Searchable::Full,
        unsigned_attribute: is_number.then(|| name.starts_with('u')),
        auto_increment: is_number.then_some(false),
        local_type_name: Some(name.to_owned()),
        sql_data_type,
        datetime_subcode,
        num_prec_radix: is_number.then_some(if name.contains("float") { 2 } else { 10 }),
        ..XdbcTypeInfo::default()
    }
}
