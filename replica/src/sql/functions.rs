//! The functions that are ours, or are other than the engine has them.

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry as _;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::ScalarUDF;

use super::cidr::IpInCidr;
use super::rewrite::UuidText;
use super::utc::{DATE_TRUNC, UtcTrunc};

/// The engine's name of `time_bucket`.
const DATE_BIN: &str = "date_bin";

pub(super) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udf(ScalarUDF::new_from_impl(UuidText::new()).into())?;
    state.register_udf(ScalarUDF::new_from_impl(IpInCidr::new()).into())?;
    let date_trunc = UtcTrunc::new(state.udf(DATE_TRUNC)?);
    state.register_udf(ScalarUDF::new_from_impl(date_trunc).into())?;
    // What people of TimescaleDB and InfluxDB call it.
    let date_bin = ScalarUDF::clone(&*state.udf(DATE_BIN)?);
    state.register_udf(date_bin.with_aliases(["time_bucket"]).into())?;
    datafusion_functions_json::register_all(state)
}
