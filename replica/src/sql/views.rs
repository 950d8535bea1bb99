//! `ecs` and `ocsf_api_activity`: the rows of `events` under the names of two schemas that security
//! people know. A view is a projection of the table, whose filter by tenant stands below it.
//!
//! Elastic Common Schema 9 (flat field names); OCSF 1.1 API Activity, class 6003. What a schema has
//! no field for keeps the name that it has in `events`.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast, col, lit, when};

use super::session::QueryScope;
use super::table::EventsTable;

/// Their names.
pub(crate) const VIEWS: [&str; 2] = ["ecs", "ocsf_api_activity"];

/// Column of `events`, and its name in ECS.
const ECS: [(&str, &str); 24] = [
    ("time", "@timestamp"),
    ("event_id", "event.id"),
    ("ingested_at", "event.ingested"),
    ("action", "event.action"),
    ("category", "event.dataset"),
    ("outcome_reason", "event.reason"),
    ("severity", "event.severity"),
    ("tenant", "organization.id"),
    ("actor_type", "actor_type"),
    ("actor_id", "user.id"),
    ("actor_name", "user.name"),
    ("target_type", "target_type"),
    ("target_id", "target_id"),
    ("targets", "targets"),
    ("source_ip", "source.ip"),
    ("user_agent", "user_agent.original"),
    ("service", "service.name"),
    ("request_id", "http.request.id"),
    ("session_id", "session_id"),
    ("trace_id", "trace.id"),
    ("message", "message"),
    ("attributes", "attributes"),
    ("_shard", "_shard"),
    ("_seq", "_seq"),
];

/// Column of `events`, and its name in OCSF.
const OCSF: [(&str, &str); 23] = [
    ("time", "time_dt"),
    ("event_id", "metadata.uid"),
    ("ingested_at", "metadata.logged_time_dt"),
    ("tenant", "metadata.tenant_uid"),
    ("category", "metadata.log_name"),
    ("action", "api.operation"),
    ("service", "api.service.name"),
    ("request_id", "api.request.uid"),
    ("actor_type", "actor.user.type"),
    ("actor_id", "actor.user.uid"),
    ("actor_name", "actor.user.name"),
    ("session_id", "actor.session.uid"),
    ("target_type", "target_type"),
    ("target_id", "target_id"),
    ("targets", "resources"),
    ("source_ip", "src_endpoint.ip"),
    ("user_agent", "http_request.user_agent"),
    ("outcome_reason", "status_detail"),
    ("trace_id", "metadata.correlation_uid"),
    ("message", "message"),
    ("attributes", "unmapped"),
    ("_shard", "_shard"),
    ("_seq", "_seq"),
];

/// OCSF's class of API activity, its category, and "other" among its activities.
const CLASS: i32 = 6003;
const CATEGORY: i32 = 6;
const OTHER: i32 = 99;

/// The view of this name, over the events of `scope`.
pub(super) fn view(name: &str, scope: &Arc<QueryScope>) -> Result<Option<Arc<dyn TableProvider>>> {
    let columns = match name {
        "ecs" => ecs()?,
        "ocsf_api_activity" => ocsf()?,
        _ => return Ok(None),
    };
    let events = provider_as_source(Arc::new(EventsTable::new(Arc::clone(scope))));
    let plan = LogicalPlanBuilder::scan("events", events, None)?.project(columns)?.build()?;
    Ok(Some(Arc::new(ViewTable::new(plan, None))))
}

fn renamed(names: &[(&str, &str)]) -> Vec<Expr> {
    names.iter().map(|(column, name)| col(*column).alias(*name)).collect()
}

fn ecs() -> Result<Vec<Expr>> {
    let mut columns = renamed(&ECS);
    // ECS knows three outcomes; who was denied has failed.
    let outcome = when(col("outcome").is_null(), lit("unknown"))
        .when(col("outcome").in_list(vec![lit("failure"), lit("denied")], false), lit("failure"))
        .otherwise(cast(col("outcome"), DataType::Utf8))?;
    columns.insert(4, outcome.alias("event.outcome"));
    Ok(columns)
}

fn ocsf() -> Result<Vec<Expr>> {
    // Milliseconds since 1970, by integers alone.
    let millis = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let epoch = cast(cast(col("time"), millis), DataType::Int64);
    let is = |outcome: &str| col("outcome").eq(lit(outcome));
    let failed = is("failure").or(is("denied"));
    let status_id = when(is("success"), lit(1)).when(failed.clone(), lit(2)).otherwise(lit(0))?;
    let status = when(is("success"), lit("Success"))
        .when(failed, lit("Failure"))
        .otherwise(lit("Unknown"))?;
    let severity = |up_to: u8| col("severity").lt_eq(lit(up_to));
    // From OpenTelemetry's numbers: trace, debug and info; warn; error; fatal.
    let severity_id = when(col("severity").is_null(), lit(0))
        .when(severity(12), lit(1))
        .when(severity(16), lit(3))
        .when(severity(20), lit(4))
        .otherwise(lit(6))?;
    let mut columns = vec![
        lit(CLASS).alias("class_uid"),
        lit(CATEGORY).alias("category_uid"),
        lit(OTHER).alias("activity_id"),
        col("action").alias("activity_name"),
        lit(CLASS * 100 + OTHER).alias("type_uid"),
        epoch.alias("time"),
        severity_id.alias("severity_id"),
        status_id.alias("status_id"),
        status.alias("status"),
        lit("1.1.0").alias("metadata.version"),
        lit("Sealcast").alias("metadata.product.name"),
    ];
    columns.extend(renamed(&OCSF));
    Ok(columns)
}
